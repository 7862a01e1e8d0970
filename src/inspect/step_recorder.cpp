#include "inspect/step_recorder.h"

#include <algorithm>
#include <array>

#include "cpython/entry_frame.h"
#include "cpython/generators.h"
#include "cpython/hook.h"
#include "cpython/objects.h"
#include "cpython/variables.h"
#include "evaluator/evaluate_all.h"
#include "runtime/measure.h"

namespace evalframe::inspect {

using bytecode::Op;
using evaluator::Activation, evaluator::Event;

namespace {

constexpr uint32_t kStepsToFull = 64;  // of one frame: how far back a state is put together from

// What it runs is seen by no observer and no hook, and an exception that is set stays.
class Aside {
 public:
  Aside() : observer_(std::exchange(evaluator::observer, nullptr)), raised_(PyErr_Occurred() ? cpython::take_raised() : Ref()) {}
  ~Aside() {
    if (raised_) cpython::set_raised(std::move(raised_));
    evaluator::observer = observer_;
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  evaluator::Observer* observer_;
  cpython::HooksSuspended suspended_;
  Ref raised_;
};

// Numbers and text: nothing that is done with two of them runs the program's code, nor does letting go of one.
bool is_simple(PyObject* object) {
  return !object || object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) || PyBool_Check(object);
}
bool is_simple_slice(PyObject* object) {
  if (!PySlice_Check(object)) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(object);
  return is_simple(slice->start) && is_simple(slice->stop) && is_simple(slice->step);
}
bool survives(PyObject* object) { return is_simple(object) || Py_REFCNT(object) > 1; }

// What an instruction lets go of, or works on: while that is simple or lives on, it runs no code but the evaluator's.
enum class Touches : uint8_t { kAnything, kNothing, kLocal, kTop, kOne, kTwo, kItem, kAttribute, kIterator, kUnpacked, kSeveral, kCall };
constexpr auto kTouching = [] {
  using enum Op;
  using enum Touches;
  std::array<Touches, static_cast<size_t>(Op::kCount)> table{};
  const auto set = [&](Touches touches, std::initializer_list<Op> ops) {
    for (const Op op : ops) table[static_cast<size_t>(op)] = touches;
  };
  set(kNothing, {NOP, RESUME, PUSH_NULL, COPY, SWAP, LOAD_CONST, LOAD_FAST, LOAD_FAST_CHECK, LOAD_CLOSURE, LOAD_DEREF, JUMP_FORWARD, JUMP_BACKWARD, LOAD_GLOBAL,
                 BUILD_TUPLE, BUILD_LIST, BUILD_CONST_KEY_MAP, IS_OP, POP_JUMP_IF_NONE, POP_JUMP_IF_NOT_NONE});
  set(kLocal, {STORE_FAST});
  set(kTop, {POP_TOP});
  set(kOne, {POP_JUMP_IF_FALSE, POP_JUMP_IF_TRUE, TO_BOOL, UNARY_NOT, UNARY_NEGATIVE, FORMAT_SIMPLE});
  set(kTwo, {BINARY_OP, COMPARE_OP, CONTAINS_OP, FORMAT_WITH_SPEC});
  set(kItem, {BINARY_SUBSCR});
  set(kAttribute, {LOAD_ATTR, LOAD_METHOD});
  set(kIterator, {FOR_ITER});
  set(kUnpacked, {UNPACK_SEQUENCE});
  set(kSeveral, {BUILD_STRING, BUILD_SLICE});
  set(kCall, {CALL});
  return table;
}();

// Its attributes are those of a type of CPython's: methods in C.
bool has_plain_attributes(PyObject* object) {
  return object && (is_simple(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) || PyTuple_CheckExact(object) || PySet_CheckExact(object));
}

// A method of str's, of what is simple: it makes something, and changes nothing.
bool calls_method_of_text(const Activation& activation, int count) {
  const int first = activation.depth() - count - 2;
  PyObject* const method = activation.slot(first);
  if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type) || reinterpret_cast<PyDescrObject*>(method)->d_type != &PyUnicode_Type) return false;
  for (int at = first + 1; at < activation.depth(); at++) {
    if (!is_simple(activation.slot(at))) return false;
  }
  return true;
}

// The next instruction runs no code but the evaluator's, and changes no object that was there before: what a place holds can have
// changed only if it's another object.
bool only_moves(const Activation& activation) {
  const bytecode::Instruction& next = activation.instruction();
  const auto from_top = [&](int distance) { return activation.slot(activation.depth() - distance); };
  switch (kTouching[static_cast<size_t>(next.op)]) {
    case Touches::kNothing: return true;
    case Touches::kLocal: return survives(activation.slot(next.arg));
    case Touches::kTop: return survives(from_top(1));
    case Touches::kOne: return is_simple(from_top(1));
    case Touches::kTwo: return is_simple(from_top(1)) && is_simple(from_top(2));
    case Touches::kAttribute: return has_plain_attributes(from_top(1)) && survives(from_top(1));
    case Touches::kIterator: return Py_IS_TYPE(from_top(1), &PyRangeIter_Type);
    case Touches::kUnpacked: return PyTuple_CheckExact(from_top(1));
    case Touches::kSeveral:
      for (int at = 1; at <= next.arg; at++) {
        if (!is_simple(from_top(at))) return false;
      }
      return true;
    case Touches::kCall: return calls_method_of_text(activation, next.arg);
    case Touches::kItem:
      if (PyUnicode_CheckExact(from_top(2))) return is_simple(from_top(1)) || is_simple_slice(from_top(1));
      return PyLong_CheckExact(from_top(1)) && (PyList_CheckExact(from_top(2)) || PyTuple_CheckExact(from_top(2))) && Py_REFCNT(from_top(2)) > 1;
    case Touches::kAnything: break;
  }
  return false;
}

bool uses_namespace(Op op) { return op == Op::LOAD_NAME || op == Op::STORE_NAME || op == Op::DELETE_NAME; }

StepKind kind_of(Event event, bool yielded) {
  switch (event) {
    case Event::kReturned: return yielded ? StepKind::kYielded : StepKind::kReturned;
    case Event::kHandOver: return StepKind::kHandedOver;
    case Event::kRaised: return StepKind::kRaised;
    case Event::kNext:
    case Event::kCaught: break;
  }
  return StepKind::kInstruction;
}

}  // namespace

StepRecorder::StepRecorder(std::function<bool(Borrowed)> wants, Limits limits, bool own_reprs)
    : wants_(std::move(wants)), limits_(limits), own_reprs_(own_reprs), known_(kKnown) {
  trace_.null_text = trace_.texts.add("NULL");
}
StepRecorder::~StepRecorder() = default;

StepRecorder::CodeInfo& StepRecorder::info_of(const bytecode::Code& decoded) {
  PyObject* const code = decoded.code.get();
  if (const auto found = codes_.find(code); found != codes_.end()) return found->second;
  CodeInfo info{Ref::borrow(code), false, Step::kNone, {}};
  {
    const Aside aside;
    info.wanted = wants_(code);
  }
  if (info.wanted) {
    info.number = static_cast<uint32_t>(trace_.codes.size());
    trace_.codes.push_back(Ref::borrow(code));
    for (const bytecode::Instruction& each : decoded.instructions) {
      if (uses_namespace(each.op)) info.names.push_back(each.arg);
    }
    std::sort(info.names.begin(), info.names.end());
    info.names.erase(std::unique(info.names.begin(), info.names.end()), info.names.end());
  }
  return codes_.emplace(code, std::move(info)).first->second;
}

void StepRecorder::begins(const Activation& activation, bool) {
  CodeInfo& code = info_of(activation.code());
  cpython::Frame* const frame = activation.frame();
  running_.push_back({&code, nullptr, Step::kNone, true});
  if (!code.wanted) return;
  Running& running = running_.back();
  if (const auto found = suspended_.find(frame); found != suspended_.end()) {
    // Of a generator that was given up, another frame may be in its place.
    if (!cpython::is_at_entry(frame) && cpython::belongs_to_generator(frame)) running.state = std::move(found->second);
    suspended_.erase(found);
  }
  if (!running.state) {
    running.state = new_state(code.names.size());
  }
  add_node(running);
}

std::unique_ptr<StepRecorder::FrameState> StepRecorder::new_state(size_t names) {
  std::unique_ptr<FrameState> state;
  if (spare_.empty()) {
    state = std::make_unique<FrameState>();
  } else {
    state = std::move(spare_.back());
    spare_.pop_back();
    state->slots.clear();
    state->names.clear();
    *state = {0, Step::kNone, 0, 0, false, std::move(state->slots), std::move(state->names)};
  }
  state->number = frames_++;
  state->names.resize(names);
  return state;
}

// Below what runs there.
void StepRecorder::add_node(Running& running) {
  uint32_t parent = Step::kNone, parent_step = Step::kNone;
  for (size_t index = running_.size() - 1; index-- > 0;) {
    if (!running_[index].state) continue;
    parent = running_[index].node;
    parent_step = running_[index].state->previous;
    break;
  }
  running.node = static_cast<uint32_t>(trace_.nodes.size());
  trace_.nodes.push_back({running.state->number, parent, parent_step, running.code->number});
}

uint32_t StepRecorder::text_of(PyObject* object, const Mark& mark) {
  if (!object) return trace_.null_text;
  if (own_reprs_ && has_repr_of_its_own(object)) {
    const Aside aside;
    ++era_;
    return trace_.texts.add(own_repr(object));
  }
  if (!mark.by_contents) return trace_.texts.add(value_text(object));
  PyTypeObject* const type = Py_TYPE(object);
  Known& known = known_[((mark.bits ^ reinterpret_cast<uint64_t>(type) >> 4) * 0x9E3779B97F4A7C15u) >> 52];
  static_assert(kKnown == 1u << (64 - 52));
  if (known.type != type || known.mark != mark.bits) {
    // A class of the program's own may be gone, and another be where it was.
    known = {PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ? nullptr : type, mark.bits, trace_.texts.add(value_text(object))};
  }
  return known.text;
}

static bool is_container(PyObject* object) {
  return object && PyType_FastSubclass(Py_TYPE(object), Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS);
}
static size_t place_lately(const PyObject* object, size_t places) { return (reinterpret_cast<uintptr_t>(object) >> 4) % places; }

const StepRecorder::Seen* StepRecorder::seen_lately(const PyObject* object) const {
  const Lately& lately = lately_[place_lately(object, kLately)];
  return lately.era == era_ && lately.seen.object == object ? &lately.seen : nullptr;
}

void StepRecorder::keep_seen(const Seen& seen) {
  if (seen.tells) lately_[place_lately(seen.object, kLately)] = {era_, seen};
}

void StepRecorder::look_again(Seen& seen, PyObject* object, bool same) {
  const bool container = is_container(object);
  if (const Seen* const lately = container ? seen_lately(object) : nullptr) {
    seen = *lately;
    return;
  }
  const Mark mark = mark_of(object);
  const bool tells = mark.tells && !(own_reprs_ && has_repr_of_its_own(object));
  if (!same || !tells || !seen.tells || mark.bits != seen.mark) seen = {object, mark.bits, text_of(object, mark), tells, true};
  if (container) keep_seen(seen);
}

void StepRecorder::look_at(Seen& seen, PyObject* object, uint32_t place, bool moved_only, Says says) {
  const bool same = seen.is_there && seen.object == object;
  const uint32_t before = seen.text;
  if (!same || !moved_only) look_again(seen, object, same);
  const bool changed = !same || seen.text != before;
  if (changed && says != Says::kBeginning) {
    trace_.entries.push_back({place, seen.text});
  } else if (says != Says::kChanges) {
    trace_.entries.push_back({place | Entry::kRestated, seen.text});
  }
}

void StepRecorder::look_at_slots(std::span<PyObject* const> slots, FrameState& state, Says says) {
  const size_t depth = slots.size();
  if (state.slots.size() < depth) state.slots.resize(depth);
  for (size_t above = static_cast<size_t>(state.depth); above < depth; ++above) state.slots[above].is_there = false;
  const bool others_only = state.moved_only && says == Says::kChanges;
  for (size_t index = 0; index < depth; ++index) {
    const Seen& seen = state.slots[index];
    if (others_only && seen.is_there && seen.object == slots[index]) continue;
    look_at(state.slots[index], slots[index], static_cast<uint32_t>(index), state.moved_only, says);
  }
  state.depth = static_cast<int>(depth);
}

void StepRecorder::look_at_names(const Activation& activation, const CodeInfo& code, FrameState& state, Says says) {
  if (code.names.empty() || (state.moved_only && says == Says::kChanges)) return;
  const Borrowed names = cpython::locals_dict_of(activation.frame());
  if (!names || !PyDict_CheckExact(names.get())) return;
  PyObject* const all = code.code.as<PyCodeObject>()->co_names;
  for (size_t index = 0; index < code.names.size(); ++index) {
    PyObject* const value = PyDict_GetItemWithError(names.get(), PyTuple_GET_ITEM(all, code.names[index]));
    if (!value && PyErr_Occurred()) PyErr_Clear();
    if (!value && !state.names[index].is_there) continue;
    look_at(state.names[index], value, static_cast<uint32_t>(code.names[index]) | Entry::kName, state.moved_only, says);
  }
}

uint32_t StepRecorder::add_step(Running& running, uint32_t instruction, uint32_t depth, StepKind kind, uint32_t note, bool full) {
  const auto number = static_cast<uint32_t>(trace_.steps.size());
  trace_.steps.push_back({running.node, instruction, static_cast<uint32_t>(trace_.entries.size()), running.state->previous, note, depth, kind, full});
  running.state->previous = number;
  return number;
}

// The rest runs as if nobody had watched.
void StepRecorder::stop_at_limit() {
  const char* const reached = trace_.steps.size() >= limits_.steps ? "steps" : trace_.bytes() >= limits_.bytes ? "memory" : nullptr;
  if (!reached) return;
  trace_.stopped = reached;
  evaluator::observer = nullptr;
}

void StepRecorder::steps(const Activation& activation, bool caught) {
  Running& running = running_.back();
  if (!running.state) return;
  stop_at_limit();
  if (!evaluator::observer) return;
  FrameState& state = *running.state;
  const bool full = running.begins_full || ++state.since_full >= kStepsToFull;
  if (full) state.since_full = 0;
  if (running.begins_full) state.moved_only = running.begins_full = false;
  if (!state.moved_only) ++era_;
  const int depth = activation.depth();
  const uint32_t note = caught ? trace_.texts.add(value_text(activation.slot(depth - 1))) : Step::kNone;
  const Says says = state.previous == Step::kNone ? Says::kBeginning : full ? Says::kAll : Says::kChanges;
  add_step(running, static_cast<uint32_t>(activation.next()), static_cast<uint32_t>(depth), StepKind::kInstruction, note, full);
  look_at_slots({activation.slots(), static_cast<size_t>(depth)}, state, says);
  look_at_names(activation, *running.code, state, says);
  state.moved_only = only_moves(activation);
  if (activation.instruction().op == Op::UNPACK_SEQUENCE) ++era_;  // the tuple may go, and another be where it was
}

uint32_t StepRecorder::note_of_end(Event event, PyObject* result) {
  if (event != Event::kRaised) return result ? text_of(result, mark_of(result)) : Step::kNone;
  Ref raised = cpython::take_raised();
  const uint32_t note = trace_.texts.add(value_text(raised.get()));
  cpython::set_raised(std::move(raised));
  return note;
}

// One step shows the frame as its caller has filled it.
void StepRecorder::begins_captured(const bytecode::Code& decoded, std::span<PyObject* const> slots, const std::string& by) {
  CodeInfo& code = info_of(decoded);
  running_.push_back({&code, nullptr, Step::kNone, true});
  if (!code.wanted) return;
  stop_at_limit();
  if (!evaluator::observer) return;
  Running& running = running_.back();
  running.state = new_state(0);
  add_node(running);
  add_step(running, 0, static_cast<uint32_t>(slots.size()), StepKind::kCaptured, trace_.texts.add(by), true);
  ++era_;
  look_at_slots(slots, *running.state, Says::kBeginning);
}

void StepRecorder::ends_captured(PyObject* result) {
  Running running = std::move(running_.back());
  running_.pop_back();
  if (!running.state) return;
  stop_at_limit();
  if (!evaluator::observer) return;
  const Event event = result ? Event::kReturned : Event::kRaised;
  add_step(running, 0, static_cast<uint32_t>(running.state->depth), kind_of(event, false), note_of_end(event, result), false);
}

void StepRecorder::ends(const Activation& activation, Event event, PyObject* result) {
  Running running = std::move(running_.back());
  running_.pop_back();
  if (!running.state) return;
  stop_at_limit();
  if (!evaluator::observer) return;
  FrameState& state = *running.state;
  const uint32_t note = note_of_end(event, result);
  const uint32_t last = state.previous == Step::kNone ? static_cast<uint32_t>(activation.next()) : trace_.steps[state.previous].instruction;
  const bool full = state.previous == Step::kNone;
  const auto depth = static_cast<uint32_t>(full ? 0 : state.depth);
  add_step(running, last, depth, kind_of(event, activation.yielded()), note, full);
  const bool begins_generator = event == Event::kReturned && static_cast<size_t>(last) < activation.code().instructions.size() &&
                                activation.code().instructions[last].op == Op::RETURN_GENERATOR;
  if (begins_generator && result && (PyGen_Check(result) || PyCoro_CheckExact(result) || PyAsyncGen_CheckExact(result))) {
    suspended_[cpython::frame_of(result)] = std::move(running.state);
  } else if (activation.yielded()) {
    suspended_[activation.frame()] = std::move(running.state);
  } else {
    spare_.push_back(std::move(running.state));
  }
}

// Other threads may be recorded at the same time.
static void count(int change) {
  static int recordings = 0;
  recordings += change;
  runtime::Measure::what = static_cast<uint8_t>(recordings ? runtime::Measure::what | runtime::Measure::kSteps : runtime::Measure::what & ~runtime::Measure::kSteps);
}

Recording::Recording(StepRecorder& recorder) : is_on_(!evaluator::observer) {
  if (!is_on_) return;
  const bool before = evaluator::evaluates_all_frames();
  if (!evaluator::evaluate_all_frames()) {
    is_on_ = false;
    return;
  }
  evaluates_all_ = !before;
  evaluator::observer = &recorder;
  count(1);
}

Recording::~Recording() {
  if (!is_on_) return;
  evaluator::observer = nullptr;
  count(-1);
  if (evaluates_all_) evaluator::stop_evaluating_all_frames();
}

}  // namespace evalframe::inspect
