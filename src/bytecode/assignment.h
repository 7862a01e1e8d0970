// Which variables surely have a value: forward data flow over a code object, exception edges included.
#pragma once

#include <optional>

#include "bytecode/stack.h"

namespace evalframe::bytecode {

// The first instruction that reads a slot of localsplus without looking whether it is bound (LOAD_FAST from 3.12 on; those
// that need a cell) where some way to it leaves the slot unbound: CPython would crash there. Jump targets and regions must
// be in range.
std::optional<Problem> find_unbound_read(const Code& code);

// Whether the slot must hold a cell for the instruction.
bool needs_cell(Op op);

}  // namespace evalframe::bytecode
