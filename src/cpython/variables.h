// The variables of a code object: what each slot of localsplus is.
#pragma once

#include <cstdint>

#include "core/ref.h"

namespace evalframe::cpython {

// Bits of the kind of a variable; an argument that an inner function uses is local and cell.
enum : uint8_t { kHiddenVariable = 0x10, kLocalVariable = 0x20, kCellVariable = 0x40, kFreeVariable = 0x80 };

int variable_count(Borrowed code);
int argument_count(Borrowed code);  // the first slots: *args and **kwargs included
Borrowed variable_name(Borrowed code, int slot);
uint8_t variable_kind(Borrowed code, int slot);
// What locals() gives in the thread's current frame; null with an exception.
Ref present_locals();

}  // namespace evalframe::cpython
