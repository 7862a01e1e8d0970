// What `import` and `from` do inside CPython.
#pragma once

#include "core/ref.h"

namespace evalframe::cpython {

// __import__ of the builtins, which may be any object. Null: with an exception, or without one where there is none.
Ref import_function(Borrowed builtins);
// The name of what was imported: its attribute, or the submodule that a circular import has put into sys.modules already.
// Null with an exception.
Ref import_from(PyThreadState* thread, Borrowed module, Borrowed name);

}  // namespace evalframe::cpython
