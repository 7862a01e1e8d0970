// Steps, records and finishes chains of frames.
#include "runtime/chain.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "bytecode/stack.h"
#include "core/check.h"
#include "cpython/codec.h"
#include "recorder/recorder.h"

namespace evalframe::runtime {

using evaluator::Activation;
using evaluator::Event;

// The activations of a chain's frames, outermost first. Most chains have one frame: it takes no memory of its own.
class Live {
 public:
  // The callers stay in their calls; `calling`: so does the innermost.
  Live(PyThreadState* thread, const std::vector<cpython::Frame*>& frames, bool calling = false) {
    for (cpython::Frame* frame : frames) push(thread, frame, *cpython::decoded(cpython::code_of(frame)));
    for (size_t i = 0; i + (calling ? 0 : 1) < size(); i++) (*this)[i].stay_in_call();
  }
  void push(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code) {
    if (outermost_) {
      inner_.push_back(std::make_unique<Activation>(thread, frame, code));
    } else {
      outermost_.emplace(thread, frame, code);
    }
  }
  bool empty() const { return !outermost_; }
  size_t size() const { return outermost_ ? 1 + inner_.size() : 0; }
  Activation& operator[](size_t i) { return i ? *inner_[i - 1] : *outermost_; }
  Activation& back() { return inner_.empty() ? *outermost_ : *inner_.back(); }
  // Innermost first, as they were linked last.
  void pop_back() {
    if (inner_.empty()) {
      outermost_.reset();
    } else {
      inner_.pop_back();
    }
  }

 private:
  std::optional<Activation> outermost_;
  std::vector<std::unique_ptr<Activation>> inner_;
};

namespace {

void deactivate(Live& live) {
  for (size_t i = 0; i < live.size(); i++) live[i].save();
  while (!live.empty()) live.pop_back();
}

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

void Chain::add(cpython::Frame* frame) {
  if (!frames_.empty()) cpython::resume_recursion(thread_);
  frames_.push_back(frame);
}

cpython::Frame* Chain::take_last() {
  cpython::Frame* frame = frames_.back();
  frames_.pop_back();
  if (!frames_.empty()) cpython::leave_recursion(thread_);
  return frame;
}

void Chain::refill(size_t index, const bytecode::Code& code, std::vector<std::pair<int, Ref>> changed, int depth, int32_t next, std::vector<Ref>& old) {
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

void Chain::drop() { drop_to(0); }

void Chain::drop_to(size_t count) {
  while (frames_.size() > count) cpython::pop_frame(thread_, take_last());
}

bool Chain::is_held() const { return (!frames_.empty() && cpython::has_frame_object(frames_[0])) || is_callee_held(); }

bool Chain::is_callee_held() const {
  for (size_t i = 1; i < frames_.size(); i++) {
    if (cpython::has_frame_object(frames_[i])) return true;
  }
  return false;
}

// The innermost frame is finished (value null: it raised): callers take the result until one goes on running.
Ended Chain::finish_inner(Live& live, Ref value, Ref& result) {
  while (true) {
    live.pop_back();
    cpython::pop_frame(thread_, take_last());
    if (live.empty()) {
      result = std::move(value);
      return result ? Ended::kReturned : Ended::kRaised;
    }
    const Event event = live.back().finish_call(std::move(value));
    if (event != Event::kRaised) return Ended::kRunning;
    value = Ref();
  }
}

// The innermost frame's last step came to `event`: what that is for the chain, which is left as it may stand.
Ended Chain::settle(Live& live, Event event, Ref& result) {
  Ended ended = Ended::kRunning;
  if (event == Event::kReturned) {
    ended = finish_inner(live, live.back().take_result(), result);
  } else if (event == Event::kRaised) {
    ended = finish_inner(live, Ref(), result);
  } else if (event == Event::kHandOver) {
    deactivate(live);
    result = finish_in_cpython(false);
    return result ? Ended::kReturned : Ended::kRaised;
  }
  deactivate(live);
  return ended;
}

Ended Chain::step(Ref& result) {
  Live live(thread_, frames_);
  Event event = live.back().step();
  while (event == Event::kNext && !may_stop(live.back())) event = live.back().step();
  return settle(live, event, result);
}

Ended Chain::run_to_back_jump(int32_t* head, Ref& result) {
  Live live(thread_, frames_);
  while (true) {
    Activation& frame = live.back();
    const int32_t index = frame.next();
    const Event event = frame.step();
    if (event == Event::kCaught || (event == Event::kNext && (frame.next() > index || !frame.at_boundary()))) continue;
    if (event == Event::kNext) *head = frame.next();
    return settle(live, event, result);
  }
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

Ref Chain::throw_here() {
  cpython::Frame* frame = frames_.back();
  const bytecode::Code& code = *cpython::decoded(cpython::code_of(frame));
  const bytecode::Instruction& instruction = code.instructions[code.index_of_unit[cpython::next_unit(frame)]];
  // CPython looks for the handler of the instruction before the next one.
  cpython::set_next(frame, instruction.end, cpython::depth_of(frame));
  return finish_in_cpython(true);
}

Ref Chain::finish_in_cpython(bool raise) {
  while (true) {
    cpython::Frame* frame = take_last();
    const bool outermost = frames_.empty();
    Live live(thread_, frames_, true);
    // CPython's evaluator counts the call itself.
    if (outermost) cpython::leave_recursion(thread_);
    Ref value = cpython::run_in_cpython(thread_, frame, raise);
    if (outermost) cpython::resume_recursion(thread_);
    raise = false;
    if (outermost) return value;
    const Event event = live.back().finish_call(std::move(value));
    Ref result;
    if (event == Event::kRaised) {
      if (finish_inner(live, Ref(), result) != Ended::kRunning) return result;
    }
    deactivate(live);
  }
}

namespace {

// What a followed call's variables get, in the order of its parameters.
struct Bound {
  std::vector<Ref> objects;
  std::vector<uint32_t> labels;
};

bool same_name(PyObject* a, PyObject* b) { return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0); }

Ref default_of(Borrowed function, int parameter);

// Binds a call's arguments as CPython does. One object after the other; what is left over goes to *args and **keywords.
class Binding {
 public:
  Binding(recorder::Recorder& recorder, const recorder::Plan& plan)
      : recorder_(recorder), plan_(plan), function_(plan.function.as<PyFunctionObject>()),
        code_(reinterpret_cast<PyCodeObject*>(function_->func_code)), parameters_(code_->co_argcount + code_->co_kwonlyargcount) {}
  // False: the arguments don't fit, which CPython must say.
  bool bind(Bound& bound) {
    const size_t keywords = plan_.keyword_names ? static_cast<size_t>(PyTuple_GET_SIZE(plan_.keyword_names.get())) : 0;
    positional_ = plan_.arguments.size() - keywords;
    bound.objects.resize(parameters_);
    bound.labels.assign(parameters_, recorder::Recorder::kDefault);
    const size_t plain = std::min(positional_, static_cast<size_t>(code_->co_argcount));
    for (size_t i = 0; i < plain; i++) give(bound, i, i);
    if (positional_ > plain && !(code_->co_flags & CO_VARARGS)) return false;
    if (keywords && !bind_keywords(bound, keywords)) return false;
    for (int i = 0; i < parameters_; i++) {
      if (bound.objects[i]) continue;
      if (!has_default(i)) return false;
      bound.objects[i] = default_of(plan_.function, i);
    }
    return (!(code_->co_flags & CO_VARARGS) || add_rest(bound, plain)) && (!(code_->co_flags & CO_VARKEYWORDS) || add_keywords(bound));
  }

 private:
  void give(Bound& bound, size_t parameter, size_t argument) {
    bound.objects[parameter] = Ref::borrow(plan_.arguments[argument]);
    bound.labels[parameter] = plan_.contents[argument];
  }
  bool bind_keywords(Bound& bound, size_t keywords) {
    for (size_t k = 0; k < keywords; k++) {
      PyObject* const name = PyTuple_GET_ITEM(plan_.keyword_names.get(), k);
      int at = code_->co_posonlyargcount;
      while (at < parameters_ && !same_name(PyTuple_GET_ITEM(code_->co_localsplusnames, at), name)) at++;
      if (at < parameters_) {
        if (bound.objects[at]) return false;
        give(bound, at, positional_ + k);
      } else if (!PyUnicode_CheckExact(name) || !(code_->co_flags & CO_VARKEYWORDS)) {
        return false;
      } else {
        others_.push_back(k);
      }
    }
    return true;
  }
  bool has_default(int i) const {
    const int defaults = function_->func_defaults ? static_cast<int>(PyTuple_GET_SIZE(function_->func_defaults)) : 0;
    if (i < code_->co_argcount) return i >= code_->co_argcount - defaults;
    return function_->func_kwdefaults && PyDict_GetItemWithError(function_->func_kwdefaults, PyTuple_GET_ITEM(code_->co_localsplusnames, i));
  }
  bool add_rest(Bound& bound, size_t from) {
    Ref rest = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(positional_ - from)));
    if (!rest) return PyErr_Clear(), false;
    for (size_t i = from; i < positional_; i++) PyTuple_SET_ITEM(rest.get(), i - from, Ref::borrow(plan_.arguments[i]).release());
    // CPython has one empty tuple.
    const bool empty = positional_ == from;
    bound.labels.push_back(empty ? recorder_.constant(rest.get()) : recorder_.container(recorder::Value::Kind::kTuple, {plan_.contents.begin() + from, plan_.contents.begin() + positional_}));
    bound.objects.push_back(std::move(rest));
    return true;
  }
  bool add_keywords(Bound& bound) {
    Ref dict = Ref::steal(PyDict_New());
    std::vector<uint32_t> entries;
    for (const size_t k : others_) {
      PyObject* const name = PyTuple_GET_ITEM(plan_.keyword_names.get(), k);
      if (!dict || PyDict_SetItem(dict.get(), name, plan_.arguments[positional_ + k]) < 0) return PyErr_Clear(), false;
      entries.insert(entries.end(), {recorder_.constant(name), plan_.contents[positional_ + k]});
    }
    if (!dict) return PyErr_Clear(), false;
    bound.labels.push_back(recorder_.container(recorder::Value::Kind::kDict, std::move(entries)));
    bound.objects.push_back(std::move(dict));
    return true;
  }

  recorder::Recorder& recorder_;
  const recorder::Plan& plan_;
  const PyFunctionObject* function_;
  const PyCodeObject* code_;
  const int parameters_;
  size_t positional_ = 0;
  std::vector<size_t> others_;  // keywords that no parameter takes
};

// Where the operands of a call begin on the stack.
int first_operand(const Activation& frame) {
  const bytecode::Instruction& call = frame.instruction();
  if (call.op == bytecode::Op::CALL_FUNCTION_EX) return frame.depth() - 3 - (call.arg & 1);
  if (call.op == bytecode::Op::LOAD_ATTR || call.op == bytecode::Op::STORE_ATTR) return frame.depth() - bytecode::stack_effect(call).takes;
  return frame.depth() - call.arg - 2 - (call.op == bytecode::Op::CALL_KW ? 1 : 0);
}

Ref default_of(Borrowed function, int parameter) {
  const auto* callee = reinterpret_cast<PyFunctionObject*>(function.get());
  const auto* code = reinterpret_cast<PyCodeObject*>(callee->func_code);
  if (parameter < code->co_argcount) {
    const auto defaults = static_cast<int>(PyTuple_GET_SIZE(callee->func_defaults));
    return Ref::borrow(PyTuple_GET_ITEM(callee->func_defaults, parameter - (code->co_argcount - defaults)));
  }
  return Ref::borrow(PyDict_GetItemWithError(callee->func_kwdefaults, PyTuple_GET_ITEM(code->co_localsplusnames, parameter)));
}

}  // namespace

Ended Chain::record(const guards::Paths& varying, Ref& result, std::unique_ptr<recorder::Recording>& recording, bool& stepped_past_exception,
                    bool keep_inputs, int turns) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  stepped_past_exception = false;
  Live live(thread_, frames_);
  std::vector<const Activation*> view;
  for (size_t i = 0; i < live.size(); i++) view.push_back(&live[i]);
  recorder::Recorder recorder(view, varying, keep_inputs, turns);
  Ended ended = Ended::kRunning;
  while (!recorder.stopped()) {
    Activation& frame = live.back();
    if (cpython::is_traced(thread_)) {
      recorder.before(frame);
      recorder.stop(recorder::Break::kInstruction, "tracing is on");
      break;
    }
    recorder::Plan plan = recorder.before(frame);
    if (plan.kind == recorder::Plan::Kind::kInline) {
      Borrowed function = plan.function;
      const auto* code = reinterpret_cast<PyFunctionObject*>(function.get())->func_code;
      const bytecode::Code* decoded = cpython::decoded(const_cast<PyObject*>(code));
      if (!decoded) PyErr_Clear();
      Bound bound;
      // At the limit of recursion the call is made as it is, and fails.
      if (!decoded || live.size() >= recorder::Recorder::kMaxInlineDepth || !cpython::may_recurse(thread_) || !Binding(recorder, plan).bind(bound)) {
        recorder.stop(recorder::Break::kUnknownCall, "a call whose arguments aren't bound plainly");
        break;
      }
      const Ref held = Ref::borrow(function);
      cpython::Frame* callee = cpython::push_frame(thread_, function);
      if (!callee) {
        PyErr_Clear();
        recorder.stop(recorder::Break::kTooLong, "no memory for a frame");
        break;
      }
      cpython::Slots into = cpython::slots(callee);
      for (size_t i = 0; i < bound.objects.size(); i++) into.put(static_cast<int>(i), std::move(bound.objects[i]));
      cpython::set_next(callee, 0, decoded->code.as<PyCodeObject>()->co_nlocalsplus);
      const int base = first_operand(frame);
      frame.begin_call(base);
      add(callee);
      live.push(thread_, callee, *decoded);
      recorder.pushed(frame, live.back(), function, bound.labels, base);
      continue;
    }
    if (plan.kind == recorder::Plan::Kind::kBreak) {
      recorder.stop(plan.why, std::move(plan.detail));
      break;
    }
    const int32_t index = frame.next();
    const int depth = frame.depth();
    const Event event = frame.step();
    switch (event) {
      case Event::kNext:
        recorder.after(frame, plan, index, depth);
        break;
      case Event::kReturned: {
        Ref value = frame.take_result();
        recorder.returned(frame, live.size() == 1);
        ended = finish_inner(live, std::move(value), result);
        if (ended == Ended::kRunning) recorder.resumed(live.back());
        break;
      }
      case Event::kCaught:
        recorder.stop(recorder::Break::kException);
        stepped_past_exception = true;
        break;
      case Event::kRaised:
        recorder.stop(recorder::Break::kException);
        stepped_past_exception = true;
        ended = finish_inner(live, Ref(), result);
        break;
      case Event::kHandOver:
        recorder.stop(recorder::Break::kInstruction, bytecode::name(frame.code().instructions[index].op));
        break;
    }
  }
  deactivate(live);
  recording = recorder.finish();
  recording->seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return ended;
}

}  // namespace evalframe::runtime
