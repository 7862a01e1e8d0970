// Compares the numbers in v3XX/opcodes.def, and those of the operators, with the running version's own headers.
#include <Python.h>
#include <opcode.h>

#include "bytecode/operators.h"

#define EVALFRAME_OPCODE(name, number, caches, form, canonical) static_assert(name == number);
#define EVALFRAME_PAIR(name, number, first, second) static_assert(name == number);
#include "opcodes.def"
#undef EVALFRAME_OPCODE
#undef EVALFRAME_PAIR

namespace evalframe::bytecode {
#define EVALFRAME_BINARY(number, name, symbol, function, ufunc)                  \
  static_assert(static_cast<int>(BinaryOp::k##name) == NB_##number);              \
  static_assert(static_cast<int>(BinaryOp::k##name) + kBinaryOps == NB_INPLACE_##number);
#include "bytecode/operators.def"
static_assert(Py_LT == 0 && Py_LE == 1 && Py_EQ == 2 && Py_NE == 3 && Py_GT == 4 && Py_GE == 5);
}  // namespace evalframe::bytecode
