#include "cpython/hidden_code.h"

#include "cpython/codec.h"

namespace evalframe::cpython {

Ref without_resume(Borrowed code) {
  const std::unique_ptr<bytecode::Code> decoded = decode(code);
  if (!decoded) return Ref();
  for (bytecode::Instruction& instruction : decoded->instructions) {
    if (instruction.op != bytecode::Op::RESUME) continue;
    instruction.op = bytecode::Op::NOP;
    instruction.arg = 0;
  }
  return encode(*decoded);
}

bool is_hidden(Borrowed code) {
  const auto* const object = code.as<PyCodeObject>();
  return object->_co_firsttraceable >= Py_SIZE(object);
}

}  // namespace evalframe::cpython
