// How many turns of a loop a recording may have in it.
#include <algorithm>

#include "cpython/codec.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

namespace {

using bytecode::Op;
using evaluator::Activation;

bool jumps_back(const bytecode::Code& code, int32_t from, int32_t to) {
  const bytecode::Instruction& instruction = code.instructions[static_cast<size_t>(from)];
  return instruction.target >= 0 && instruction.target <= to;
}

bool is_in_loop(const bytecode::Code& code, int32_t index) {
  const auto count = static_cast<int32_t>(code.instructions.size());
  for (int32_t i = index; i < count; i++) {
    if (jumps_back(code, i, index)) return true;
  }
  return false;
}

constexpr int32_t kMostInstructions = 64, kMostOfTorch = 160;

// A body that has no other loop in it. head: of the FOR_ITER.
bool is_short(const bytecode::Code& code, int32_t head, int32_t most) {
  const int32_t end = code.instructions[static_cast<size_t>(head)].target;
  if (end - head > most) return false;
  for (int32_t i = head + 1; i < end; i++) {
    const bytecode::Instruction& instruction = code.instructions[static_cast<size_t>(i)];
    if (instruction.op == Op::FOR_ITER || (instruction.target != head && jumps_back(code, i, i))) return false;
  }
  return true;
}

// How many loops over something stand in one another, that of the FOR_ITER among them.
int levels(const bytecode::Code& code, int32_t head) {
  const int32_t end = code.instructions[static_cast<size_t>(head)].target;
  int most = 0;
  for (int32_t i = head + 1; i < end;) {
    const bytecode::Instruction& instruction = code.instructions[static_cast<size_t>(i)];
    const bool begins = instruction.op == Op::FOR_ITER && instruction.target > i;
    if (begins) most = std::max(most, levels(code, i));
    i = begins ? instruction.target : i + 1;
  }
  return most + 1;
}

// As many that the turns of all levels may be done, where each has as many.
Py_ssize_t turns_of_each(int levels) {
  const auto all = [&](Py_ssize_t turns) {
    Py_ssize_t product = 1;
    for (int level = 0; level < levels && product <= Recorder::kMaxBackJumps; level++) product *= turns;
    return product;
  };
  Py_ssize_t most = 1;
  while (most < Recorder::kMaxUnrolledTurns && all(most + 1) <= Recorder::kMaxBackJumps) most++;
  return most;
}

// The FOR_ITER that is next, without a jump or a call in between; -1: none.
int32_t head_behind(const bytecode::Code& code, int32_t index) {
  constexpr int32_t kMostBetween = 8;  // a comprehension that is no function (3.12) puts variables away
  const auto end = std::min(static_cast<int32_t>(code.instructions.size()), index + kMostBetween);
  for (int32_t i = index; i < end && code.instructions[static_cast<size_t>(i)].op != Op::CALL; i++) {
    if (code.instructions[static_cast<size_t>(i)].op == Op::FOR_ITER) return i;
    if (code.instructions[static_cast<size_t>(i)].target >= 0) return -1;
  }
  return -1;
}

// The loop of a comprehension or generator expression that is a function, whose argument the iterator is about to be.
bool begins_short_function(const Activation& frame) {
  PyObject* const function = frame.depth() >= 2 ? frame.slot(frame.depth() - 2) : nullptr;
  const bool called = frame.code().instructions[static_cast<size_t>(frame.next()) + 1].op == Op::CALL;
  if (!called || !function || !PyFunction_Check(function)) return false;
  auto* const code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
  PyObject* const names = code->co_localsplusnames;
  if (code->co_argcount != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), ".0") != 0) return false;
  const bytecode::Code* const decoded = cpython::decoded(reinterpret_cast<PyObject*>(code));
  if (!decoded) return PyErr_Clear(), false;
  const int32_t head = head_behind(*decoded, 0);
  return head >= 0 && is_short(*decoded, head, kMostInstructions);
}

// Of torch's all layers are one graph, as they are for its own compilers; a range says no more than how often.
constexpr Py_ssize_t kMaxLayers = kMaxParts;

bool goes_through_range(const Activation& frame) { return frame.depth() && frame.slot(frame.depth() - 1) && PyRange_Check(frame.slot(frame.depth() - 1)); }

}  // namespace

bool Recorder::is_called_in_turn() const {
  if (is_outermost() || recording_->start.size() != 1 || back_jumps_ > 0 || purpose_.fixes_numbers || purpose_.keep_inputs) return false;
  const int32_t call = recording_->graph.frames[static_cast<size_t>(frames_[1].graph_frame)].call_instruction, begin = recording_->start[0].next;
  const bytecode::Code& code = *frames_[0].code;
  const auto first = std::min(call, begin), last = std::max(call, begin), count = static_cast<int32_t>(code.instructions.size());
  for (int32_t i = last; call >= 0 && i < count; i++) {
    if (jumps_back(code, i, first)) return true;
  }
  return false;
}

// Short loops that are in no other one, neither here nor in a caller. All of their turns together must fit in. Of torch's a caller's loop is one over layers.
Py_ssize_t Recorder::most_turns(const Activation& frame) const {
  if (is_hidden(frames_.size() - 1)) return kMaxParts;
  if (purpose_.fixes_numbers && !goes_through_range(frame)) return kMaxLayers;
  const int32_t index = frame.next(), head = head_behind(frame.code(), index);
  const bool shortly = head >= 0 ? is_short(frame.code(), head, purpose_.fixes_numbers ? kMostOfTorch : kMostInstructions) : begins_short_function(frame);
  // In a loop, one that has loops in it and is left in the midst of its turns begins there in many places.
  if (is_in_loop(frame.code(), index)) return head < 0 || purpose_.fixes_numbers ? kMaxUnrolledTurns : turns_of_each(levels(frame.code(), head));
  if (!shortly) return kMaxUnrolledTurns;
  if (purpose_.fixes_numbers) return kMaxShortTurns;
  for (size_t k = 1; k < frames_.size(); k++) {
    const int32_t call = recording_->graph.frames[static_cast<size_t>(frames_[k].graph_frame)].call_instruction;
    if (!is_hidden(k - 1) && call >= 0 && is_in_loop(*frames_[k - 1].code, call)) return kMaxUnrolledTurns;
  }
  return std::clamp<Py_ssize_t>(kMaxBackJumps - back_jumps_, kMaxUnrolledTurns, kMaxShortTurns);
}

}  // namespace evalframe::recorder
