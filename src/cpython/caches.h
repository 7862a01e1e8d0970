// How many inline cache units follow each canonical instruction in the running version's bytecode.
#pragma once

#include <array>

#include "bytecode/instruction.h"

namespace evalframe::cpython {

constexpr auto kCaches = [] {
  std::array<uint8_t, static_cast<size_t>(bytecode::Op::kCount)> caches{};
  // A canonical instruction may stand for several opcodes (jumps of both directions): they have equally many.
#define EVALFRAME_OPCODE(name, number, count, form, canonical) caches[static_cast<size_t>(bytecode::Op::canonical)] = count;
#define EVALFRAME_PAIR(name, number, first, second)
#include "opcodes.def"
#undef EVALFRAME_OPCODE
#undef EVALFRAME_PAIR
  caches[static_cast<size_t>(bytecode::Op::NOP)] = 0;  // what is folded into others is listed under it
  // LOAD_METHOD is LOAD_ATTR with a bit set from 3.12 on.
  auto& method = caches[static_cast<size_t>(bytecode::Op::LOAD_METHOD)];
  if (!method) method = caches[static_cast<size_t>(bytecode::Op::LOAD_ATTR)];
  return caches;
}();

// The code unit of the instruction itself, behind what is folded into it (EXTENDED_ARG, KW_NAMES, PRECALL).
constexpr int own_unit(const bytecode::Instruction& instruction, bytecode::Op op) {
  return instruction.end - 1 - kCaches[static_cast<size_t>(op)];
}
inline int own_unit(const bytecode::Instruction& instruction) { return own_unit(instruction, instruction.op); }

}  // namespace evalframe::cpython
