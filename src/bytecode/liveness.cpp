#include "bytecode/liveness.h"

#include <algorithm>

#include "cpython/variables.h"

namespace evalframe::bytecode {
namespace {

// Instructions on cells read the slot, which holds the cell, even where they write the variable. DELETE_FAST raises where
// the slot is unbound, so it reads too; MAKE_CELL takes the argument into the cell.
bool reads_slot(Op op) { return argument_kind(op) == Argument::local && op != Op::STORE_FAST; }
bool writes_slot(Op op) {
  return op == Op::STORE_FAST || op == Op::DELETE_FAST || op == Op::LOAD_FAST_AND_CLEAR || op == Op::MAKE_CELL;
}

int first_free_variable(Borrowed code) {
  int slot = 0;
  while (slot < cpython::variable_count(code) && !(cpython::variable_kind(code, slot) & cpython::kFreeVariable)) ++slot;
  return slot;
}

}  // namespace

Liveness::Liveness(const Code& code)
    : slots_(cpython::variable_count(code.code)),
      words_((slots_ + 63) / 64),
      first_free_(first_free_variable(code.code)),
      bits_(code.instructions.size() * static_cast<size_t>(words_)) {
  for (bool changed = words_ > 0; changed;) {
    changed = false;
    for (auto index = static_cast<int32_t>(code.instructions.size()); index-- > 0;) changed |= update(code, index);
  }
}

std::vector<int> Liveness::live(int32_t index) const {
  std::vector<int> slots;
  for (int slot = 0; slot < slots_; ++slot) {
    if (is_live(index, slot)) slots.push_back(slot);
  }
  return slots;
}

void Liveness::merge(std::vector<Word>& into, int32_t index) const {
  for (int word = 0; word < words_; ++word) into[word] |= row(index)[word];
}

// Computes the row of one instruction anew; true if it changed.
bool Liveness::update(const Code& code, int32_t index) {
  const Instruction& instruction = code.instructions[index];
  std::vector<Word> live(words_);
  const Flow after = flow(instruction.op);
  if ((after == Flow::jump || after == Flow::branch) && instruction.target >= 0) merge(live, instruction.target);
  const bool goes_on = after == Flow::next || after == Flow::branch;
  if (goes_on && index + 1 < static_cast<int32_t>(code.instructions.size())) merge(live, index + 1);

  const auto bit = [&](int slot) { return Word{1} << (slot % 64); };
  if (writes_slot(instruction.op)) live[instruction.arg / 64] &= ~bit(instruction.arg);
  if (instruction.op == Op::COPY_FREE_VARS) {
    for (int slot = first_free_; slot < slots_; ++slot) live[slot / 64] &= ~bit(slot);
  }
  if (reads_slot(instruction.op)) live[instruction.arg / 64] |= bit(instruction.arg);
  // The handler may be entered before the instruction has written anything.
  if (const ExceptionRegion* region = code.handler(index)) merge(live, region->target);

  if (std::equal(live.begin(), live.end(), row(index))) return false;
  std::copy(live.begin(), live.end(), row(index));
  return true;
}

}  // namespace evalframe::bytecode
