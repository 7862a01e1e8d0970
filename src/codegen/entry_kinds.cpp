#include "codegen/entry_kinds.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "bytecode/stack.h"

namespace evalframe::codegen {

using bytecode::Code;
using bytecode::ExceptionRegion;
using bytecode::Flow;
using bytecode::Instruction;
using bytecode::Op;
using bytecode::StackEffect;

namespace {

constexpr int32_t kPrepareReraise = 1;  // of CALL_INTRINSIC_2
constexpr int32_t kListToTuple = 6, kUnaryPositive = 5;  // of CALL_INTRINSIC_1

constexpr int32_t kAll = 0, kDeepest = -1;

// An entry that an instruction takes, counted from the top of the stack, which is 1.
struct Demand {
  Op op;
  int32_t which;
  EntryKind kind;
};
constexpr Demand kDemands[] = {
    {Op::FOR_ITER, 1, EntryKind::kIterator},
    {Op::LIST_APPEND, kDeepest, EntryKind::kList},
    {Op::LIST_EXTEND, kDeepest, EntryKind::kList},
    {Op::LIST_TO_TUPLE, 1, EntryKind::kList},
    {Op::SET_ADD, kDeepest, EntryKind::kSet},
    {Op::SET_UPDATE, kDeepest, EntryKind::kSet},
    {Op::MAP_ADD, kDeepest, EntryKind::kDict},
    {Op::DICT_UPDATE, kDeepest, EntryKind::kDict},
    {Op::DICT_MERGE, kDeepest, EntryKind::kDict},
    {Op::PUSH_EXC_INFO, 1, EntryKind::kException},
    {Op::POP_EXCEPT, 1, EntryKind::kHandled},
    {Op::CHECK_EG_MATCH, 2, EntryKind::kHandled},
    {Op::PREP_RERAISE_STAR, 1, EntryKind::kList},
    {Op::PREP_RERAISE_STAR, 2, EntryKind::kException},
    {Op::WITH_EXCEPT_START, 1, EntryKind::kRaised},
    {Op::RERAISE, 1, EntryKind::kException},
    {Op::MAKE_FUNCTION, kAll, EntryKind::kMade},
    {Op::SET_FUNCTION_ATTRIBUTE, kAll, EntryKind::kMade},
    {Op::CALL_KW, 1, EntryKind::kMade},
    {Op::BUILD_CONST_KEY_MAP, 1, EntryKind::kMade},
    {Op::MATCH_KEYS, 1, EntryKind::kMade},
    {Op::MATCH_CLASS, 1, EntryKind::kMade},
};

// Those of which it depends on the argument.
std::optional<EntryKind> demanded_by_argument(const Instruction& instruction, int32_t from_top) {
  const int32_t arg = instruction.arg;
  if (instruction.op == Op::CALL_FUNCTION_EX && (arg & 1) && from_top == 1) return EntryKind::kDict;
  if (instruction.op == Op::RERAISE && arg > 0 && from_top == arg + 1) return EntryKind::kOffset;
  if (instruction.op == Op::CALL_INTRINSIC_1 && arg != kUnaryPositive) return arg == kListToTuple ? EntryKind::kList : EntryKind::kMade;
  if (instruction.op != Op::CALL_INTRINSIC_2) return std::nullopt;
  if (arg != kPrepareReraise) return EntryKind::kMade;
  return from_top == 1 ? EntryKind::kList : EntryKind::kException;
}

EntryKind demanded(const Instruction& instruction, int32_t from_top) {
  if (const auto kind = demanded_by_argument(instruction, from_top)) return *kind;
  const bool is_deepest = from_top == bytecode::stack_effect(instruction).takes;
  for (const Demand& demand : kDemands) {
    const bool is_meant = demand.which == kAll || demand.which == from_top || (demand.which == kDeepest && is_deepest);
    if (demand.op == instruction.op && is_meant) return demand.kind;
  }
  return EntryKind::kAny;
}

// What takes entries to look at them, and leaves them where they are.
constexpr Op kLooking[] = {Op::LIST_APPEND,          Op::SET_ADD,             Op::MAP_ADD,     Op::LIST_EXTEND,   Op::SET_UPDATE,
                           Op::DICT_UPDATE,          Op::DICT_MERGE,          Op::FOR_ITER,    Op::GET_LEN,       Op::IMPORT_FROM,
                           Op::JUMP_IF_FALSE_OR_POP, Op::JUMP_IF_TRUE_OR_POP, Op::MATCH_KEYS,  Op::MATCH_MAPPING, Op::MATCH_SEQUENCE,
                           Op::WITH_EXCEPT_START,    Op::COPY};

// How many of the entries that an instruction takes, from the deepest on, are still there behind it.
int32_t kept(const Instruction& instruction, int32_t takes, int32_t gives) {
  if (instruction.op == Op::CHECK_EXC_MATCH) return 1;
  const bool looks = std::find(std::begin(kLooking), std::end(kLooking), instruction.op) != std::end(kLooking);
  return looks ? std::min(takes, gives) : 0;
}

EntryKind stricter(EntryKind one, EntryKind other) {
  if (one == other || other == EntryKind::kAny) return one;
  if (one == EntryKind::kAny) return other;
  const bool exceptions = std::min(one, other) >= EntryKind::kHandled && std::max(one, other) <= EntryKind::kRaised;
  return exceptions ? std::max(one, other) : EntryKind::kMade;
}

// Follows one entry through the code, in all the places of the stack to which instructions bring it.
class Follow {
 public:
  explicit Follow(const Code& code) : code_(code) {}

  void reach(int32_t index, int32_t depth, const std::vector<int32_t>& at) {
    if (at.empty()) return;
    auto [found, is_new] = states_.try_emplace(index, State{depth, {}});
    std::vector<int32_t> all;
    std::set_union(at.begin(), at.end(), found->second.at.begin(), found->second.at.end(), std::back_inserter(all));
    if (!is_new && all == found->second.at) return;
    found->second.at = std::move(all);
    open_.push_back(index);
  }

  EntryKind run() {
    while (!open_.empty()) {
      const int32_t index = open_.back();
      open_.pop_back();
      step(index, State(states_[index]));
    }
    return kind_;
  }

 private:
  struct State {
    int32_t depth;
    std::vector<int32_t> at;  // from the bottom, ascending
  };

  void step(int32_t index, const State& state) {
    const Instruction& instruction = code_.instructions[index];
    const StackEffect effect = bytecode::stack_effect(instruction);
    for (const int32_t place : state.at) {
      if (place >= state.depth - effect.takes) kind_ = stricter(kind_, demanded(instruction, state.depth - place));
    }
    if (const ExceptionRegion* region = code_.handler(index)) {
      std::vector<int32_t> left;
      std::copy_if(state.at.begin(), state.at.end(), std::back_inserter(left), [&](int32_t place) { return place < region->depth; });
      reach(region->target, region->depth + region->push_lasti + 1, left);
    }
    const Flow after = bytecode::flow(instruction.op);
    if (after == Flow::next || after == Flow::branch) pass(index + 1, instruction, state, effect.takes, effect.gives);
    if (after == Flow::jump || after == Flow::branch) pass(instruction.target, instruction, state, effect.takes, effect.gives_on_jump);
  }

  void pass(int32_t to, const Instruction& instruction, const State& state, int32_t takes, int32_t gives) {
    const int32_t rest = state.depth - takes;
    const int32_t still = rest + kept(instruction, takes, gives);
    std::vector<int32_t> at;
    for (const int32_t place : state.at) {
      if (instruction.op == Op::SWAP && (place == rest || place == state.depth - 1)) {
        at.push_back(rest + state.depth - 1 - place);
      } else if (instruction.op == Op::SWAP || place < still) {
        at.push_back(place);
      }
      if (instruction.op == Op::COPY && place == rest) at.push_back(state.depth);
      if (instruction.op == Op::PUSH_EXC_INFO && place == rest) at.push_back(rest + 1);
    }
    std::sort(at.begin(), at.end());
    reach(to, rest + gives, at);
  }

  const Code& code_;
  std::map<int32_t, State> states_;
  std::vector<int32_t> open_;
  EntryKind kind_ = EntryKind::kAny;
};

bool is_offset(PyObject* object) {
  int overflow = 0;
  const long value = PyLong_CheckExact(object) ? PyLong_AsLongAndOverflow(object, &overflow) : -1;
  return !overflow && value >= 0 && value < (1 << 24);
}

bool is_of(EntryKind kind, PyObject* object) {
  switch (kind) {
#define EVALFRAME_ENTRY_KIND(name, text, holds) \
  case EntryKind::name: return holds;
#include "codegen/entry_kinds.def"
#undef EVALFRAME_ENTRY_KIND
  }
  return false;
}

constexpr const char* kTexts[] = {
#define EVALFRAME_ENTRY_KIND(name, text, holds) text,
#include "codegen/entry_kinds.def"
#undef EVALFRAME_ENTRY_KIND
};

// self: the function's name, then name and kind of each parameter.
PyObject* check_entries(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != (PyTuple_GET_SIZE(self) - 1) / 2) return PyErr_SetString(PyExc_TypeError, "called by generated code only"), nullptr;
  for (Py_ssize_t i = 0; i < count; i++) {
    const auto kind = static_cast<EntryKind>(PyLong_AsLong(PyTuple_GET_ITEM(self, 2 * i + 2)));
    if (is_of(kind, arguments[i])) continue;
    return PyErr_Format(PyExc_TypeError, "%U() takes up a frame in its midst: %U must be %s, not %.100s; only the code that it was made for can call it",
                        PyTuple_GET_ITEM(self, 0), PyTuple_GET_ITEM(self, 2 * i + 1), kTexts[static_cast<int>(kind)], Py_TYPE(arguments[i])->tp_name);
  }
  Py_RETURN_NONE;
}

PyMethodDef check_definition = {"__check_stack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(check_entries)), METH_FASTCALL,
                                "Refuses objects that the code behind it can't have on its stack."};

}  // namespace

EntryKind kind_of_entry(const Code& code, const std::vector<TakenUp>& places, int32_t position) {
  Follow follow(code);
  for (const TakenUp& place : places) {
    if (position < place.given) follow.reach(place.next, place.depth, {position});
  }
  return follow.run();
}

Ref make_check(const std::string& function, const std::vector<CheckedParameter>& parameters) {
  Ref self = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(1 + 2 * parameters.size())));
  if (!self) return Ref();
  const auto put = [&](size_t at, PyObject* object) {
    PyTuple_SET_ITEM(self.get(), static_cast<Py_ssize_t>(at), object);
    return object != nullptr;
  };
  bool made = put(0, PyUnicode_FromString(function.c_str()));
  for (size_t i = 0; made && i < parameters.size(); i++) {
    made = put(2 * i + 1, PyUnicode_FromString(parameters[i].name.c_str())) && put(2 * i + 2, PyLong_FromLong(static_cast<long>(parameters[i].kind)));
  }
  return made ? Ref::steal(PyCFunction_New(&check_definition, self.get())) : Ref();
}

}  // namespace evalframe::codegen
