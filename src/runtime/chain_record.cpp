// Runs and records a chain of frames, up to a break, a return or an exception.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "bytecode/stack.h"
#include "cpython/generators.h"
#include "cpython/iterators.h"
#include "cpython/objects.h"
#include "frontends/torch/bodies.h"
#include "recorder/recorder.h"
#include "runtime/bind_followed.h"
#include "runtime/chain.h"
#include "runtime/live.h"
#include "runtime/measure.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

using evaluator::Activation, evaluator::Event;
using recorder::Break, recorder::Plan, recorder::Recorder;

namespace {

// Where the operands of a call begin on the stack.
int first_operand(const Activation& frame) {
  const bytecode::Instruction& call = frame.instruction();
  if (call.op == bytecode::Op::CALL_FUNCTION_EX) return frame.depth() - 3 - (call.arg & 1);
  if (call.op == bytecode::Op::WITH_EXCEPT_START || call.op == bytecode::Op::FOR_ITER) return frame.depth();
  if (call.op != bytecode::Op::CALL && call.op != bytecode::Op::CALL_KW) return frame.depth() - bytecode::stack_effect(call).takes;
  return frame.depth() - call.arg - 2 - (call.op == bytecode::Op::CALL_KW ? 1 : 0);
}

// The exception that is set, which stays set.
Ref pending_exception() {
  Ref exception = cpython::take_raised();
  cpython::set_raised(Ref::borrow(exception.get()));
  return exception;
}

}  // namespace

// Begins the call that the plan says. False: the recording stops in front of it. again: another call of the same instruction.
bool Chain::follow(Live& live, Recorder& recorder, Plan& plan, bool again) {
  Activation& caller = live.back();
  const Borrowed function = plan.function;
  const auto* callee_code = reinterpret_cast<PyFunctionObject*>(function.get())->func_code;
  const bytecode::Code* decoded = cpython::decoded(const_cast<PyObject*>(callee_code));
  if (!decoded) PyErr_Clear();
  Bound bound;
  // At the limit of recursion the call is made as it is, and fails.
  const bool fits = decoded && live.size() < Recorder::kMaxInlineDepth && cpython::may_recurse(thread_);
  if (!fits || !bind_followed(recorder, plan, bound)) {
    recorder.stop(Break::kUnknownCall, "a call whose arguments aren't bound plainly");
    return false;
  }
  const Ref held = Ref::borrow(function);
  cpython::Frame* callee = cpython::push_frame(thread_, function);
  if (!callee) {
    PyErr_Clear();
    recorder.stop(Break::kTooLong, "no memory for a frame");
    return false;
  }
  cpython::Slots into = cpython::slots(callee);
  for (size_t i = 0; i < bound.objects.size(); i++) into.put(static_cast<int>(i), std::move(bound.objects[i]));
  cpython::set_next(callee, 0, decoded->code.as<PyCodeObject>()->co_nlocalsplus);
  if (plan.names) cpython::set_locals_dict(callee, Ref::borrow(plan.namespace_dict));
  const int base = again ? caller.depth() - 1 : first_operand(caller);
  if (again) {
    caller.replace_rest(std::move(plan.kept[0].first));
  } else {
    caller.begin_call(base);
  }
  for (size_t i = 0; i < plan.kept.size(); i++) {
    if (!again || i > 0) caller.keep(std::move(plan.kept[i].first));
    recorder.set_label(base + static_cast<int>(i), plan.kept[i].second);
  }
  const int depth = caller.depth();
  add(callee);
  live.push(thread_, callee, *decoded);
  recorder.pushed(caller, live.back(), plan, bound.labels, depth);
  return true;
}

// An exception is on its way in the innermost frame, whose step came to `event`. known: to the recorder, too.
Ended Chain::pass_on(Live& live, Recorder& recorder, bool known, Event event, Place from, Ref& result, bool& stepped_past_exception) {
  const bool caught = event == Event::kCaught;
  if (known && !caught) return unwind_recorded(live, recorder, result, stepped_past_exception);
  if (known) {
    recorder.caught(live.back(), from.instruction, from.depth);
    return Ended::kRunning;
  }
  recorder.stop(Break::kException);
  stepped_past_exception = true;
  return caught ? Ended::kRunning : finish_inner(live, Ref(), result);
}

// Lets the generator of the plan go on.
Ended Chain::resume(Live& live, Recorder& recorder, Plan& plan, Ref& result, bool& stepped_past_exception) {
  Activation& caller = live.back();
  if (live.size() >= Recorder::kMaxInlineDepth || !cpython::may_recurse(thread_)) return recorder.stop(Break::kTooLong, "generators in one another"), Ended::kRunning;
  Ref generator = Ref::borrow(plan.arguments[0]), sent = Ref::borrow(plan.arguments[1]);
  // What is sent goes to the generator.
  const bool by_call = plan.resumes != evaluator::Resumes::kNone;
  const bool let_go = plan.resumes == evaluator::Resumes::kLetGo;
  const int base = let_go ? caller.depth() : by_call ? first_operand(caller) : caller.depth() - (caller.instruction().op == bytecode::Op::SEND ? 1 : 0);
  if (!let_go) caller.begin_call(base);
  if (by_call) {
    caller.keep(std::move(plan.kept[0].first));
    recorder.set_label(base, plan.kept[0].second);
  }
  const int depth = caller.depth();
  // CPython sends None where it throws, too, and so have handlers one more on the stack.
  push_generator(Ref::borrow(generator.get()), Ref::borrow(plan.thrown ? Py_None : sent.get()));
  live.push(thread_, frames_.back(), *cpython::decoded(cpython::code_of(frames_.back())));
  recorder.went_on(caller, live.back(), plan, depth);
  if (!plan.thrown) return Ended::kRunning;
  const int depth_before = live.back().depth();
  cpython::set_thrown(generator.get(), std::move(sent));
  const Event event = live.back().throw_in();
  const Ref raised = event == Event::kCaught ? Ref::borrow(live.back().slot(live.back().depth() - 1)) : pending_exception();
  return pass_on(live, recorder, recorder.thrown(plan, raised.get()), event, {live.back().handled_at(), depth_before}, result, stepped_past_exception);
}

// The innermost frame, a generator's, has ended: the call that resumed it raises StopIteration.
Ended Chain::stop_iteration(Live& live, Recorder& recorder, Ref value, Ref& result, bool& stepped_past_exception) {
  recorder.returned(live.back(), false);
  const Activation& caller = live[live.size() - 2];
  const Place call{caller.next() - 1, caller.depth()};
  const Event event = leave_inner(live, std::move(value));
  const Ref raised = event == Event::kCaught ? Ref::borrow(live.back().slot(live.back().depth() - 1)) : pending_exception();
  return pass_on(live, recorder, recorder.stopped_iteration(raised.get()), event, call, result, stepped_past_exception);
}

// The innermost frame has returned, or yielded: its caller goes on.
Ended Chain::return_recorded(Live& live, Recorder& recorder, Ref& result, bool& stepped_past_exception) {
  Ref value = live.back().take_result();
  if (live.size() > 1 && live.back().code().instructions[live.back().next() - 1].op == bytecode::Op::RETURN_GENERATOR) recorder.made_generator(value.get());
  if (const std::unique_ptr<Plan> next = recorder.take_follow_up()) {
    recorder.returned(live.back(), false);
    live.pop_back();
    cpython::pop_frame(thread_, take_last());
    if (follow(live, recorder, *next, true)) return Ended::kRunning;
    stepped_past_exception = true;
    const Event event = live.back().finish_call(std::move(value));
    return event == Event::kRaised ? finish_inner(live, Ref(), result) : Ended::kRunning;
  }
  const Activation* const caller = live.size() > 1 ? &live[live.size() - 2] : nullptr;
  const bool yielded = live.back().yielded();
  const bool takes_result = caller && (generators_.back() ? caller->takes_from_generator(yielded) : caller->takes_result());
  if (!yielded && recorder.resumes() == evaluator::Resumes::kStop) return stop_iteration(live, recorder, std::move(value), result, stepped_past_exception);
  if (caller && caller->refuses(value.get(), yielded)) {
    recorder.stop(Break::kException);
    stepped_past_exception = true;
  } else if (yielded) {
    recorder.yielded(live.back());
  } else {
    recorder.returned(live.back(), !caller);
  }
  if (!caller) return finish_inner(live, std::move(value), result);
  const Event event = leave_inner(live, std::move(value));
  if (event != Event::kNext && !stepped_past_exception) {
    // The handler of a signal, which had its turn behind the call, has raised.
    recorder.stop(Break::kException);
    stepped_past_exception = true;
  }
  if (event == Event::kRaised) return finish_inner(live, Ref(), result);
  if (!stepped_past_exception) recorder.resumed(live.back(), takes_result);
  return Ended::kRunning;
}

// The innermost frame doesn't handle the exception that is set: its callers are asked.
Ended Chain::unwind_recorded(Live& live, Recorder& recorder, Ref& result, bool& stepped_past_exception) {
  while (live.size() > 1) {
    if (!recorder.unwound(live.back(), pending_exception().get())) break;
    const int32_t call = live[live.size() - 2].next() - 1;
    const int depth = live[live.size() - 2].depth();
    const bool takes_result = live[live.size() - 2].takes_from_generator(false);
    const bytecode::Op calling = live[live.size() - 2].code().instructions[call].op;
    const bool asks_attribute = calling == bytecode::Op::LOAD_ATTR || calling == bytecode::Op::LOAD_METHOD;
    const Ref exception = pending_exception();
    const Event event = leave_inner(live, Ref());
    Activation& caller = live.back();
    if (event == Event::kNext) return recorder.resumed(caller, takes_result), Ended::kRunning;  // it was to end
    const bool caught = event == Event::kCaught;
    const Ref now = caught ? Ref::borrow(caller.slot(caller.depth() - 1)) : pending_exception();
    // An AttributeError then knows its object and name, which the recording doesn't.
    const bool changed = asks_attribute && PyErr_GivenExceptionMatches(now.get(), PyExc_AttributeError);
    if (now.get() != exception.get() || changed || !recorder.passed(now.get())) {
      recorder.stop(Break::kException);
      stepped_past_exception = true;
      return caught ? Ended::kRunning : finish_inner(live, Ref(), result);
    }
    if (!caught) continue;
    recorder.caught(caller, call, depth);
    return Ended::kRunning;
  }
  // It leaves the recording where it was raised last.
  recorder.stop(Break::kException);
  stepped_past_exception = true;
  return finish_inner(live, Ref(), result);
}

// The recording ends in a function that one of torch's operators is given: it may be one that nobody was to call, and goes no further.
Ended Chain::leave_bodies(Live& live, Recorder& recorder, Ended ended, Ref& result) {
  const recorder::Recording& recording = recorder.recorded();
  recorder.bodies().give_up(recording.why == Break::kOperator ? recording.why_detail : reason(recording.why) + (recording.why_detail.empty() ? "" : ": " + recording.why_detail));
  if (ended != Ended::kRunning || !recorder.bodies().is_within(live.size()) || !live.back().at_boundary()) return ended;
  cpython::set_raised(Ref::steal(PyObject_CallNoArgs(torch::body_left())));
  return live.back().throw_in() == Event::kRaised ? finish_inner(live, Ref(), result) : ended;
}

// Runs the instruction that the plan is for, and tells the recorder what became of it. held: what the frame lets go where the instruction
// raises and the frame has no handler.
inline Ended Chain::step_recorded(Live& live, Recorder& recorder, const Plan& plan, Ref& result, bool& stepped_past_exception,
                                  std::vector<recorder::Unfinished>* held) {
  Activation& frame = live.back();
  const Place from{frame.next(), frame.depth()};
  const Event event = frame.step();
  if (event == Event::kRaised && held) {
    const PendingException pending;
    held->clear();
  }
  if (event != Event::kNext || plan.kind == Plan::Kind::kRaise) return end_step(live, recorder, plan, event, from, result, stepped_past_exception);
  recorder.after(frame, plan, from.instruction, from.depth);
  return Ended::kRunning;
}

// The step has left the frame, or raised, or it should have.
Ended Chain::end_step(Live& live, Recorder& recorder, const Plan& plan, Event event, Place from, Ref& result, bool& stepped_past_exception) {
  Activation& frame = live.back();
  switch (event) {
    case Event::kNext:
      recorder.stop(Break::kException);
      stepped_past_exception = true;
      return Ended::kRunning;
    case Event::kReturned: return return_recorded(live, recorder, result, stepped_past_exception);
    case Event::kCaught:
      if (recorder.raised(frame, plan, frame.slot(frame.depth() - 1))) {
        recorder.caught(frame, from.instruction, from.depth);
        return Ended::kRunning;
      }
      recorder.stop(Break::kException);
      stepped_past_exception = true;
      return Ended::kRunning;
    case Event::kRaised:
      if (recorder.raised(frame, plan, pending_exception().get())) return unwind_recorded(live, recorder, result, stepped_past_exception);
      recorder.stop(Break::kException);
      stepped_past_exception = true;
      return finish_inner(live, Ref(), result);
    case Event::kHandOver:
      recorder.stop(Break::kInstruction, bytecode::name(frame.code().instructions[from.instruction].op));
      return Ended::kRunning;
  }
  return Ended::kRunning;
}

namespace {

// Whether the frame stands behind an instruction that has done no more than to let something go, or behind a call whose frame has.
bool lets_go_only(const Activation& frame, bytecode::Op last) {
  using enum bytecode::Op;
  if (frame.next() == 0 || !frame.at_boundary()) return false;
  const bytecode::Op before = frame.code().instructions[frame.next() - 1].op;
  if (last == RETURN_VALUE || last == RETURN_CONST || last == YIELD_VALUE) return before == CALL || before == CALL_KW || before == CALL_FUNCTION_EX;
  return before == last && (last == POP_TOP || last == STORE_FAST || last == DELETE_FAST || last == STORE_DEREF || last == DELETE_DEREF);
}

}  // namespace

// Behind an instruction: the only one of the generators that nobody else holds any more is closed here, as CPython has closed it
// in the midst of the instruction. Of more than one, nobody knows the order: they are let go, which the recorder notices.
Ended Chain::close_let_go(Live& live, Recorder& recorder, std::vector<recorder::Unfinished> held, bytecode::Op last, Ref& result, bool& stepped_past_exception) {
  const auto is_gone = [&](const recorder::Unfinished& generator) { return Py_REFCNT(generator.object.get()) == 1 && recorder.is_unfinished(generator.value); };
  const auto found = std::find_if(held.begin(), held.end(), is_gone);
  if (found == held.end() || std::count_if(held.begin(), held.end(), is_gone) > 1 || !lets_go_only(live.back(), last)) return Ended::kRunning;
  Plan plan = letting_go(recorder, *found);
  return plan.kind == Plan::Kind::kResume ? resume(live, recorder, plan, result, stepped_past_exception) : Ended::kRunning;
}

// The same of an instruction that may let a generator go which the recorded code has made.
Ended Chain::step_among_generators(Live& live, Recorder& recorder, const Plan& plan, Ref& result, bool& stepped_past_exception) {
  const bytecode::Op op = live.back().instruction().op;
  std::vector<recorder::Unfinished> held = recorder.unfinished();
  if (op == bytecode::Op::YIELD_VALUE) held.push_back({recorder.running_generator(), Ref::borrow(generators_.back().get())});
  Ended ended = step_recorded(live, recorder, plan, result, stepped_past_exception, &held);
  if (!held.empty() && !recorder.stopped()) ended = close_let_go(live, recorder, std::move(held), op, result, stepped_past_exception);
  held.clear();
  if (recorder.has_let_go()) stepped_past_exception = true;
  return ended;
}

namespace {

// Where a turn of a loop is the end of a recording, so that those that follow are a graph of their own, or native code: one graph for very many nodes isn't
// worth what it costs, and one for as many turns as there are this time serves no other number of them.
class Turns {
 public:
  explicit Turns(LongLoops& known) : known_(known) {}

  // Asked before each instruction, with the nodes that stand before it: what loop it is; null: it isn't the end.
  const char* ended_by(const Activation& frame, const std::vector<graph::Node>& nodes) {
    const bytecode::Instruction& instruction = frame.instruction();
    if (instruction.op == bytecode::Op::FOR_ITER) begin_ = nodes.size();
    if (instruction.target < 0 || instruction.target > frame.next()) return nullptr;
    const bool steps = frame.code().instructions[static_cast<size_t>(instruction.target)].op == bytecode::Op::FOR_ITER;
    if (steps) return is_of_long_range(frame, nodes.size()) ? "range" : nullptr;
    return is_of_long_while(frame, nodes) ? "while" : nullptr;
  }

 private:
  static constexpr Py_ssize_t kMostNodes = 512;
  static constexpr int kMostTurns = 8;

  bool is_of_long_range(const Activation& frame, size_t nodes) const {
    PyObject* const iterator = frame.depth() > 0 ? frame.slot(frame.depth() - 1) : nullptr;
    if (!iterator || Py_TYPE(iterator) != &PyRangeIter_Type || nodes == begin_) return false;
    const Ref last = cpython::ahead(iterator, kMostNodes / static_cast<Py_ssize_t>(nodes - begin_));
    if (!last) PyErr_Clear();
    return static_cast<bool>(last);
  }

  // One that makes arrays, for as long as numbers say that aren't known.
  bool is_of_long_while(const Activation& frame, const std::vector<graph::Node>& nodes) {
    const int32_t head = frame.instruction().target;
    const std::pair<PyObject*, int32_t> loop{frame.code().code.get(), head};
    if (known_.count(loop)) return true;
    While& turns = whiles_[head];
    whiles_.erase(whiles_.upper_bound(head), whiles_.end());  // those within begin anew
    const auto turn = std::next(nodes.begin(), static_cast<std::ptrdiff_t>(std::exchange(turns.begin, nodes.size())));
    if (++turns.count <= kMostTurns) return false;
    const auto makes_array = [](const graph::Node& node) { return node.meta.kind == graph::Kind::kArray; };
    const auto asks = [](const graph::Node& node) { return node.form == graph::Form::kCheck; };
    return std::any_of(turn, nodes.end(), makes_array) && std::any_of(turn, nodes.end(), asks) && known_.insert(loop).second;
  }

  struct While {
    int count = 0;
    size_t begin = 0;
  };
  LongLoops& known_;
  std::map<int32_t, While> whiles_;
  size_t begin_ = 0;
};

}  // namespace

Ended Chain::record(const guards::Paths& varying, Ref& result, std::unique_ptr<recorder::Recording>& recording, bool& stepped_past_exception,
                    recorder::Purpose purpose, LongLoops* long_loops) {
  const Stopwatch watch;
  stepped_past_exception = false;
  Live live(thread_, frames_);
  std::vector<const Activation*> view;
  for (size_t i = 0; i < live.size(); i++) view.push_back(&live[i]);
  Recorder recorder(view, varying, purpose);
  Ended ended = Ended::kRunning;
  std::optional<Turns> turns_of;
  if (long_loops) turns_of.emplace(*long_loops);
  const auto step = [&](const Plan& plan) {
    const Ended now = recorder.has_generators() ? step_among_generators(live, recorder, plan, result, stepped_past_exception)
                                                : step_recorded(live, recorder, plan, result, stepped_past_exception);
    if (recorder.has_stepped_past()) stepped_past_exception = true;
    return now;
  };
  const auto calls_itself = [&] {
    for (size_t i = 0; i + 1 < live.size(); i++) {
      if (live[i].code().code.get() == live.back().code().code.get()) return true;
    }
    return false;
  };
  while (!recorder.stopped()) {
    if (recorder.has_let_end(live.back())) {
      stepped_past_exception = true;
      break;
    }
    recorder.begin(live.back());
    if (cpython::is_traced(thread_)) {
      recorder.stop(Break::kInstruction, "tracing is on");
      break;
    }
    if (recorder.is_barren() && live.back().at_boundary() && calls_itself()) {
      recorder.recording().is_barren = true;
      recorder.stop(Break::kBarrenCall);
      break;
    }
    if (const Plan* const quick = recorder.quick_plan(live.back())) {
      ended = step(*quick);
      continue;
    }
    if (const char* const loop = turns_of && live.size() == 1 ? turns_of->ended_by(live.back(), recorder.recorded().graph.nodes) : nullptr) {
      recorder.stop(Break::kLoop, loop);
      break;
    }
    Plan plan = recorder.before(live.back());
    if (plan.kind == Plan::Kind::kBreak) {
      recorder.stop(plan.why, std::move(plan.detail));
    } else if (plan.kind == Plan::Kind::kInline) {
      follow(live, recorder, plan);
    } else if (plan.kind == Plan::Kind::kResume) {
      ended = resume(live, recorder, plan, result, stepped_past_exception);
    } else {
      ended = step(plan);
    }
  }
  const bool leaves_bodies = recorder.bodies().any();
  if (leaves_bodies) ended = leave_bodies(live, recorder, ended, result);
  live.end();
  recording = recorder.finish();
  recording->leaves_bodies = leaves_bodies;
  recording->seconds = watch.seconds();
  return ended;
}

}  // namespace evalframe::runtime
