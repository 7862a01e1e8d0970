// From one scalar operation to LLVM IR: one function for each row of scalar_ops.def.
#pragma once

#include <array>

#include "backends/native/code/element.h"

namespace evalframe::native {

// Operands of one operation; unused ones are empty.
using Operands = std::array<Value, 3>;
// Throws std::runtime_error where the operation has no lowering for these types.
Value lower(Emitter& emitter, ScalarOp op, DType result, const Operands& operands);

}  // namespace evalframe::native
