// Python's builtins as they were when evalframe was imported, whatever a program later puts in their place, for one module or for all.
#pragma once

#include "core/ref.h"

namespace evalframe {

// Called once, when the module is made.
void remember_builtins();
// Null if there is none of that name. Lives as long as the process.
Borrowed builtin(const char* name);

}  // namespace evalframe
