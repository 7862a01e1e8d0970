// From one scalar operation to LLVM IR: one function for each row of scalar_ops.def.
#pragma once

#include <array>
#include <string>

#include "backends/native/code/emitter.h"
#include "backends/native/code/kernel.h"

namespace evalframe::native {

// An element in registers: bool_ is an i1, float16 a float that holds a float16 value, complex types are two terms.
struct Value {
  DType dtype = DType::kNone;
  Term real;
  Term imag;
};

// LLVM type of one element in registers; of one component for complex types.
std::string register_type(DType dtype);

Value load_element(Emitter& emitter, DType dtype, const std::string& address, const std::string& metadata);
void store_element(Emitter& emitter, const Value& value, const std::string& address, const std::string& metadata);
Value cast(const Value& value, DType dtype);

// Operands of one operation; unused ones are empty.
using Operands = std::array<Value, 3>;
// Throws std::runtime_error where the operation has no lowering for these types.
Value lower(Emitter& emitter, ScalarOp op, DType result, const Operands& operands);

}  // namespace evalframe::native
