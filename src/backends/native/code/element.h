// One element in the registers of generated code: how it is held, read, written and cast.
#pragma once

#include <string>

#include "backends/native/code/emitter.h"
#include "backends/native/code/kernel.h"

namespace evalframe::native {

// bool_ is an i1, float16 a float that holds a float16 value, complex types are two terms.
struct Value {
  DType dtype = DType::kNone;
  Term real;
  Term imag;
};

// A value from its parts; what float16 can't hold is rounded.
Value make(DType dtype, const Term& real);
Value make(DType dtype, const Term& real, const Term& imag);
// Of a term that needs no rounding.
Value exact(DType dtype, const Term& real);

int bits_of(DType dtype);
// float32 of complex64, float64 of complex128, any other type itself.
DType component(DType dtype);
// LLVM type of one element in registers; of one component for complex types.
std::string register_type(DType dtype);

Term zero(Emitter& emitter, DType dtype);
// Whether it isn't zero: an i1.
Term truth(Emitter& emitter, const Value& value);
Value cast(const Value& value, DType dtype);

Value load_element(Emitter& emitter, DType dtype, const std::string& address, const std::string& metadata);
void store_element(Emitter& emitter, const Value& value, const std::string& address, const std::string& metadata);

}  // namespace evalframe::native
