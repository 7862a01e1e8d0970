// Bindings of bytecode/: decode, encode.
#include <nanobind/nanobind.h>

#include "bytecode/verify.h"
#include "cpython/codec.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {
namespace {

// Decodes a code object and encodes it again.
nb::object round_trip(nb::handle code) {
  const auto decoded = cpython::decode(code.ptr());
  Ref encoded = decoded ? cpython::encode(*decoded) : Ref();
  if (!encoded) throw nb::python_error();
  return nb::steal(encoded.release());
}

// Verifies a code object and tells the stack depth that it needs.
int stack_size(nb::handle code) {
  const auto decoded = cpython::decode(code.ptr());
  if (!decoded) throw nb::python_error();
  bytecode::StackDepths depths;
  if (auto problem = bytecode::verify(*decoded, bytecode::operands_of(*decoded), depths)) {
    throw nb::value_error(bytecode::describe(*decoded, *problem).c_str());
  }
  return depths.maximum;
}

}  // namespace

void bind_bytecode(nb::module_& module) {
  nb::module_ bytecode = module.def_submodule("bytecode", "Code objects as canonical instructions.");
  bytecode.def("round_trip", &round_trip);
  bytecode.def("stack_size", &stack_size);
}

}  // namespace evalframe
