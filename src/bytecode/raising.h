// Whether code comes to a `raise` whichever way it takes: what stands behind `if not x.all():` to refuse arguments.
#pragma once

#include <cstdint>

#include "bytecode/instruction.h"

namespace evalframe::bytecode {

// Every way on from the instruction at `from` ends in a raise, without going back, giving a value or waiting.
bool always_raises(const Code& code, int32_t from);

}  // namespace evalframe::bytecode
