// Steps and finishes chains of frames.
#include "runtime/chain.h"

#include <algorithm>
#include <utility>

#include "bytecode/stack.h"
#include "cpython/codec.h"
#include "cpython/generators.h"
#include "cpython/hidden_code.h"
#include "cpython/objects.h"
#include "runtime/live.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

using evaluator::Activation, evaluator::Event;

namespace {

// No instruction is half done. 3.13: both halves of a fused one are run together, for no state is left between them.
// A jump is no place of its own: 3.13 ends the condition of a loop with one, and what it leads to is the same place.
bool may_stop(const Activation& frame) {
  const bytecode::Op op = frame.instruction().op;
  return frame.at_boundary() && !bytecode::is_test(op) && op != bytecode::Op::JUMP_BACKWARD && op != bytecode::Op::JUMP_FORWARD;
}

int next_unit(const bytecode::Code& code, int32_t instruction) { return code.instructions[instruction].offset; }

}  // namespace

bool Chain::push(Borrowed function, const bytecode::Code& code, std::vector<Ref> slots, int32_t next) {
  cpython::Frame* frame = cpython::push_frame(thread_, function);
  if (!frame) return false;
  cpython::Slots into = cpython::slots(frame);
  for (size_t i = 0; i < slots.size(); i++) into.put(static_cast<int>(i), std::move(slots[i]));
  cpython::set_next(frame, next_unit(code, next), static_cast<int>(slots.size()));
  add(frame);
  return true;
}

void Chain::push_generator(Ref generator, Ref sent) {
  cpython::Frame* const frame = cpython::resume_generator(thread_, generator.get(), std::move(sent));
  add(frame, std::move(generator));
}

void Chain::add(cpython::Frame* frame, Ref generator) {
  if (!frames_.empty()) cpython::resume_recursion(thread_);
  frames_.push_back(frame);
  generators_.push_back(std::move(generator));
}

// Who takes a generator's frame holds the generator.
cpython::Frame* Chain::take_last() {
  cpython::Frame* frame = frames_.back();
  frames_.pop_back();
  generators_.pop_back();
  if (!frames_.empty()) cpython::leave_recursion(thread_);
  return frame;
}

void Chain::drop_last() {
  const Ref generator = Ref::borrow(generators_.back().get());
  cpython::Frame* const frame = take_last();
  generator ? cpython::leave_finished_frame(thread_, frame) : cpython::pop_frame(thread_, frame);
}

void Chain::refill(size_t index, const bytecode::Code& code, Slots&& changed, int depth, int32_t next, Old& old) {
  cpython::Frame* frame = frames_[index];
  cpython::Slots into = cpython::slots(frame);
  const int depth_before = cpython::depth_of(frame);  // what lies above isn't in use: nobody's references
  for (int slot = depth; slot < depth_before; slot++) old.push_back(into.take(slot));
  for (auto& [slot, value] : changed) {
    if (slot < depth_before) old.push_back(into.take(slot));
    into.put(slot, std::move(value));
  }
  cpython::set_next(frame, next_unit(code, next), depth);
}

bool Chain::give_names(size_t index, Ref names) {
  if (!names) return false;
  cpython::set_locals_dict(frames_[index], std::move(names));
  return true;
}

bool Chain::give_globals(size_t index, Borrowed globals) { return globals && cpython::set_globals(frames_[index], globals); }

void Chain::drop() { drop_to(0); }

void Chain::drop_to(size_t count) {
  while (frames_.size() > count) drop_last();
}

bool Chain::is_held() const { return (!frames_.empty() && cpython::has_frame_object(frames_[0])) || is_callee_held(); }

bool Chain::is_callee_held() const {
  for (size_t i = 1; i < frames_.size(); i++) {
    if (cpython::has_frame_object(frames_[i])) return true;
  }
  return false;
}

// Whose attribute the method behind `object.name` was asked for, while its frame is there; null: it stands behind another instruction.
static Ref asked_for_attribute(cpython::Frame* method, const bytecode::Instruction& calling) {
  if (calling.op != bytecode::Op::LOAD_ATTR && calling.op != bytecode::Op::LOAD_METHOD) return Ref();
  const PendingException pending;  // a search in a class drops it
  const auto* const code = cpython::code_of(method).as<PyCodeObject>();
  const auto argument = [&](int i) {
    PyObject* const object = i < code->co_argcount ? cpython::slots(method).get(i) : nullptr;
    return object && PyCell_Check(object) ? PyCell_GET(object) : object;
  };
  PyObject* const self = argument(0);
  static PyObject* const get = PyUnicode_InternFromString("__get__");
  PyObject* const getter = self ? _PyType_Lookup(Py_TYPE(self), get) : nullptr;
  const bool by_descriptor = getter && PyFunction_Check(getter) && reinterpret_cast<PyFunctionObject*>(getter)->func_code == cpython::code_of(method).get();
  return Ref::borrow(!by_descriptor ? self : argument(1) == Py_None ? argument(2) : argument(1));
}

// As PyObject_GetAttr does with the AttributeError that is set, if that knows neither: suggestions are made from them.
static void add_attribute_context(Borrowed object, PyObject* names, const bytecode::Instruction& calling) {
  if (!object || !PyErr_ExceptionMatches(PyExc_AttributeError)) return;
  Ref error = cpython::take_raised();
  const Ref name = Ref::steal(PyObject_GetAttrString(error.get(), "name")), of = Ref::steal(PyObject_GetAttrString(error.get(), "obj"));
  const bool unknown = PyObject_TypeCheck(error.get(), reinterpret_cast<PyTypeObject*>(PyExc_AttributeError)) && name.get() == Py_None && of.get() == Py_None;
  if (unknown && PyObject_SetAttrString(error.get(), "name", PyTuple_GET_ITEM(names, calling.arg)) == 0) PyObject_SetAttrString(error.get(), "obj", object.get());
  PyErr_Clear();
  cpython::set_raised(std::move(error));
}

static const bytecode::Instruction& calling(const Activation& caller) { return caller.code().instructions[caller.next() - 1]; }
static PyObject* names_of(const Activation& caller) { return caller.code().code.as<PyCodeObject>()->co_names; }

// The innermost frame, which has a caller, is finished, or has yielded: the caller takes what it gives.
Event Chain::leave_inner(Live& live, Ref value) {
  const Activation& caller = live[live.size() - 2];
  const Ref asked = value ? Ref() : asked_for_attribute(frames_.back(), calling(caller));
  const bool yielded = live.back().yielded(), delegates = live.back().delegates();
  const Ref generator = Ref::borrow(generators_.back().get());
  live.pop_back();
  if (yielded) {
    cpython::leave_suspended_frame(thread_, take_last(), delegates);
  } else {
    drop_last();
  }
  if (asked) add_attribute_context(asked.get(), names_of(live.back()), calling(live.back()));
  return generator ? live.back().finish_resumption(std::move(value), yielded) : live.back().finish_call(std::move(value));
}

// The innermost frame is finished (value null: it raised), or has yielded: callers take the result until one goes on running.
Ended Chain::finish_inner(Live& live, Ref value, Ref& result) {
  while (live.size() > 1) {
    if (leave_inner(live, std::move(value)) != Event::kRaised) return Ended::kRunning;
    value = Ref();
  }
  const bool yielded = live.back().yielded(), delegates = live.back().delegates();
  live.pop_back();
  if (yielded) {
    cpython::suspend_generator(thread_, take_last(), delegates);
  } else {
    drop_last();
  }
  result = std::move(value);
  return result ? Ended::kReturned : Ended::kRaised;
}

// The innermost frame's last step came to `event`: what that is for the chain, which is left as it may stand.
Ended Chain::settle(Live& live, Event event, Ref& result) {
  Ended ended = Ended::kRunning;
  if (event == Event::kReturned) {
    ended = finish_inner(live, live.back().take_result(), result);
  } else if (event == Event::kRaised) {
    ended = finish_inner(live, Ref(), result);
  } else if (event == Event::kHandOver) {
    live.end();
    result = finish_in_cpython(false);
    return result ? Ended::kReturned : Ended::kRaised;
  }
  live.end();
  return ended;
}

Ended Chain::step(Ref& result) {
  Live live(thread_, frames_);
  Event event = live.back().step();
  while (event == Event::kNext && !may_stop(live.back())) event = live.back().step();
  return settle(live, event, result);
}

// Until it jumps back and `stops()`; counts the instructions.
template <class Stops>
Ended Chain::run_to_some_back_jump(uint64_t& steps, Stops stops, Ref& result) {
  Live live(thread_, frames_);
  Activation& frame = live.back();
  while (true) {
    const int32_t index = frame.next();
    const Event event = frame.step();
    steps++;
    const bool jumped_back = event == Event::kNext && frame.next() <= index && frame.at_boundary();
    if (event == Event::kCaught || (event == Event::kNext && !(jumped_back && stops(frame)))) continue;
    return settle(live, event, result);
  }
}

Ended Chain::run_to_back_jump(int32_t* head, Ref& result) {
  uint64_t steps = 0;
  return run_to_some_back_jump(steps, [&](const Activation& frame) { return *head = frame.next(), true; }, result);
}

Ended Chain::run_for(const Stopwatch& watch, double limit, double& seconds, Ref& result) {
  // An instruction takes our evaluator so much longer than CPython's; so many are run between two looks at the clock, at least.
  constexpr double kOnTop = 1e-8;
  constexpr uint64_t kBetweenLooks = 256;
  uint64_t steps = 0, looked = 0;
  const auto taken = [&] { return watch.seconds() - kOnTop * static_cast<double>(steps); };
  const auto is_over = [&](const Activation&) {
    if (steps < looked + kBetweenLooks) return false;
    looked = steps;
    return taken() > limit;
  };
  const Ended ended = run_to_some_back_jump(steps, is_over, result);
  seconds = taken();
  return ended;
}

Ended Chain::run_within(int32_t first, int32_t last, int32_t to, Ref& result) {
  Live live(thread_, frames_);
  Activation& frame = live.back();
  Event event = Event::kNext;
  do {
    event = frame.step();
  } while (event == Event::kCaught || (event == Event::kNext && (!may_stop(frame) || (frame.next() != to && frame.next() >= first && frame.next() <= last))));
  return settle(live, event, result);
}

Ended Chain::leave_hidden(Ref& result) {
  // What eval() and exec() run has another dict of names each time, so that nothing recorded from there would serve again.
  const auto is_left = [&](cpython::Frame* frame) {
    const bool in_dict = frame != frames_[0] && !(cpython::code_of(frame).as<PyCodeObject>()->co_flags & CO_OPTIMIZED);
    return in_dict || cpython::is_hidden(cpython::code_of(frame));
  };
  while (std::any_of(frames_.begin(), frames_.end(), is_left)) {
    Live live(thread_, frames_);
    const Ended ended = settle(live, live.back().run(), result);
    if (ended != Ended::kRunning) return ended;
  }
  return Ended::kRunning;
}

Ended Chain::throw_into(Ref& result) {
  Live live(thread_, frames_);
  return settle(live, live.back().throw_in(), result);
}

Ref Chain::throw_here() {
  cpython::Frame* frame = frames_.back();
  const bytecode::Code& code = *cpython::decoded(cpython::code_of(frame));
  const bytecode::Instruction& instruction = code.instructions[code.index_of_unit[cpython::next_unit(frame)]];
  // CPython looks for the handler of the instruction before the next one. Whoever throws into a generator's frame of 3.13 is to
  // have set it there.
  const bool behind = cpython::layout::kPointerToNext || !cpython::belongs_to_generator(frame);
  cpython::set_next(frame, instruction.end - (behind ? 0 : 1), cpython::depth_of(frame));
  return finish_in_cpython(true);
}

// CPython's evaluator counts the call itself.
Ref Chain::run_outermost_in_cpython(cpython::Frame* frame, bool raise) {
  const bool of_generator = cpython::belongs_to_generator(frame);
  cpython::leave_recursion(thread_);
  Ref value = of_generator ? cpython::run_in_cpython_in_place(thread_, frame, raise) : cpython::run_in_cpython(thread_, frame, raise);
  cpython::resume_recursion(thread_);
  return value;
}

bool Chain::ends_in_call() const {
  return frames_.size() > 1 && !generators_.back() && (cpython::code_of(frames_.back()).as<PyCodeObject>()->co_flags & CO_OPTIMIZED);
}

Ended Chain::finish_call(const std::function<Ref(cpython::Frame*)>& finish, Ref& result) {
  cpython::Frame* const frame = take_last();
  Live live(thread_, frames_, true);
  const Ref asked = asked_for_attribute(frame, calling(live.back()));
  Ref value = finish(frame);
  if (asked && !value) add_attribute_context(asked.get(), names_of(live.back()), calling(live.back()));
  return settle(live, live.back().finish_call(std::move(value)), result);
}

// What comes of the rest of a frame that was taken off the chain, for the one behind it, which is live.
static Event run_taken_in_cpython(PyThreadState* thread, Live& live, cpython::Frame* frame, PyObject* generator, bool raise) {
  const Ref asked = generator ? Ref() : asked_for_attribute(frame, calling(live.back()));
  bool yielded = false;
  Ref value = generator ? cpython::run_generator_in_cpython(thread, frame, raise, yielded) : cpython::run_in_cpython(thread, frame, raise);
  if (asked && !value) add_attribute_context(asked.get(), names_of(live.back()), calling(live.back()));
  return generator ? live.back().finish_resumption(std::move(value), yielded) : live.back().finish_call(std::move(value));
}

Ended Chain::finish_last_in_cpython(Ref& result) {
  const Ref generator = Ref::borrow(generators_.back().get());
  cpython::Frame* const frame = take_last();
  if (frames_.empty()) {
    result = run_outermost_in_cpython(frame, false);
    return result ? Ended::kReturned : Ended::kRaised;
  }
  Live live(thread_, frames_, true);
  return settle(live, run_taken_in_cpython(thread_, live, frame, generator.get(), false), result);
}

Ref Chain::finish_in_cpython(bool raise) {
  while (true) {
    const Ref generator = Ref::borrow(generators_.back().get());
    cpython::Frame* frame = take_last();
    if (frames_.empty()) return run_outermost_in_cpython(frame, raise);
    Live live(thread_, frames_, true);
    const Event event = run_taken_in_cpython(thread_, live, frame, generator.get(), std::exchange(raise, false));
    Ref result;
    if (event == Event::kRaised) {
      if (finish_inner(live, Ref(), result) != Ended::kRunning) return result;
    }
    live.end();
  }
}

}  // namespace evalframe::runtime
