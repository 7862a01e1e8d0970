// Where run() sends instructions: to the code of their own, of their shape, or of a pair (shapes.def).
#pragma once

#include "bytecode/instruction.h"
#include "bytecode/operators.h"

namespace evalframe::evaluator {

enum class Label : uint8_t {
#define EVALFRAME_INSTRUCTION(name, argument, flow) k##name,
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
#define EVALFRAME_SHAPE(name, instruction, assumption) k##name,
#define EVALFRAME_PAIR(first, second) k##first##_##second,
#include "evaluator/shapes.def"
#undef EVALFRAME_SHAPE
#undef EVALFRAME_PAIR
};

// `then`: what follows `i`.
inline Label label_of(const bytecode::Instruction& i, const bytecode::Instruction& then) {
  using bytecode::BinaryOp, bytecode::Op;
#define EVALFRAME_SHAPE(name, instruction, assumption) \
  if (i.op == Op::instruction && (assumption)) return Label::k##name;
#define EVALFRAME_PAIR(first, second) \
  if (i.op == Op::first && then.op == Op::second) return Label::k##first##_##second;
#include "evaluator/shapes.def"
#undef EVALFRAME_SHAPE
#undef EVALFRAME_PAIR
  return static_cast<Label>(i.op);
}

// Before the evaluator runs code first.
inline void prepare(const bytecode::Code& code) {
  const auto& instructions = code.instructions;
  for (size_t at = 0; at < instructions.size(); ++at) {
    instructions[at].label = static_cast<uint8_t>(label_of(instructions[at], at + 1 < instructions.size() ? instructions[at + 1] : bytecode::Instruction()));
  }
  code.notes = std::make_unique<bytecode::Note[]>(instructions.size());
}

}  // namespace evalframe::evaluator
