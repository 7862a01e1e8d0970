// The evaluator's loop, one step of it, unwinding, and the calls that a driver runs itself.
#include "evaluator/activation.h"

#include "core/check.h"
#include "cpython/caches.h"
#include "cpython/codec.h"
#include "cpython/entry_frame.h"
#include "cpython/generators.h"
#include "cpython/tracing.h"
#include "evaluator/counts.h"
#include "evaluator/handlers.h"
#include "evaluator/opcodes/calls.h"
#include "evaluator/opcodes/containers.h"
#include "evaluator/opcodes/control.h"
#include "evaluator/opcodes/exceptions.h"
#include "evaluator/opcodes/generators.h"
#include "evaluator/opcodes/imports.h"
#include "evaluator/opcodes/matching.h"
#include "evaluator/opcodes/operators.h"
#include "evaluator/opcodes/variables.h"
#include "evaluator/quick/attributes.h"
#include "evaluator/quick/calls.h"
#include "evaluator/quick/control.h"
#include "evaluator/quick/operators.h"
#include "evaluator/quick/variables.h"

namespace evalframe::evaluator {

using bytecode::Op;
using cpython::ExceptionEvent;

namespace {

bytecode::Note* notes_of(const bytecode::Code& code) {
  if (!code.notes) code.notes = std::make_unique<bytecode::Note[]>(code.instructions.size());
  return code.notes.get();
}

}  // namespace

Activation::Activation(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code)
    : Activation(thread, cpython::entered_frame(thread, frame, code), cpython::breaker_cell(thread), cpython::stack_limit()) {
  CHECK(stack_pointer_ >= base_);
  link_.link(thread, frame);
  cpython::set_depth(frame_, -1);
  traced_ = trace_cells_.may_be_traced() && cpython::is_traced(thread_, frame_);
}

Activation::Activation(const Activation& caller, const cpython::EnteredFrame& entered)
    : Activation(caller.thread_, entered, caller.breaker_, caller.stack_limit_) {}

Activation::Activation(PyThreadState* thread, const cpython::EnteredFrame& entered, cpython::BreakerCell breaker, uintptr_t stack_limit)
    : thread_(thread),
      frame_(entered.frame),
      code_(entered.code),
      base_(entered.base),
      stack_pointer_(base_ + entered.depth),
      next_(entered.code->index_of_unit[static_cast<size_t>(entered.unit)]),
      current_(next_),
      handled_at_(next_),
      running_(entered.running),
      notes_(notes_of(*entered.code)),
      trace_cells_(entered.trace_cells),
      breaker_(breaker),
      stack_limit_(stack_limit) {}

Activation::~Activation() = default;

int Activation::depth() const { return static_cast<int>(stack_pointer_ - base_); }

void Activation::save() { cpython::set_next(frame_, instruction().offset, depth()); }

Event Activation::step() {
  using Handler = Outcome (*)(Activation&, const Instruction&);
  static constexpr Handler kHandlers[] = {
#define EVALFRAME_INSTRUCTION(name, argument, flow) [](Activation& a, const Instruction& i) { return Handlers::name(a, i); },
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
  };
  if (traced_ && at_boundary()) return Event::kHandOver;
  const Instruction& now = instruction();
  current_ = handled_at_ = next_++;
  running_.set(cpython::own_unit(now));
  return conclude(static_cast<uint8_t>(kHandlers[static_cast<size_t>(now.op)](*this, now)));
}

Event Activation::run() {
  static const void* const labels[] = {
#define EVALFRAME_INSTRUCTION(name, argument, flow) &&run_##name,
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
  };
  Registers r(*this);
  const cpython::RunningCell running = running_;
  const cpython::TraceCells trace_cells = trace_cells_;
  const Instruction* now;
  Outcome outcome;

next:
  if (traced_ && at_boundary()) return Event::kHandOver;
  now = r.next++;
  goto* labels[static_cast<size_t>(now->op)];

#define EVALFRAME_INSTRUCTION(name, argument, flow)                                            \
  run_##name : if (!is_silent(Op::name)) running.set(cpython::own_unit(*now, Op::name));       \
  outcome = quick<Op::name>(r, *now);                                                          \
  if (outcome == Outcome::kHandOver) {                                                         \
    if (is_silent(Op::name)) running.set(cpython::own_unit(*now, Op::name));                   \
    learn<Op::name>(r, *now);                                                                  \
    r.put_back(now);                                                                           \
    outcome = Handlers::name(*this, *now);                                                     \
    if (__builtin_expect(outcome > Outcome::kRan, 0)) goto concluded;                          \
    if (outcome == Outcome::kRan && trace_cells.may_be_traced()) goto concluded;               \
    r.take();                                                                                  \
  } else if (__builtin_expect(outcome > Outcome::kRan, 0) ||                                   \
             (outcome == Outcome::kRan && __builtin_expect(trace_cells.may_be_traced(), 0))) { \
    r.put_back(now);                                                                           \
    goto concluded;                                                                            \
  }                                                                                            \
  now = r.next++;                                                                              \
  goto* labels[static_cast<size_t>(now->op)];
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION

concluded:
  const Event event = conclude(static_cast<uint8_t>(outcome));
  if (event != Event::kNext && event != Event::kCaught) return event;
  r.take();
  goto next;
}

Event Activation::conclude(uint8_t outcome) {
  switch (static_cast<Outcome>(outcome)) {
    case Outcome::kDone: return Event::kNext;
    case Outcome::kRan:
      traced_ = trace_cells_.may_be_traced() && cpython::is_traced(thread_, frame_);
      return Event::kNext;
    case Outcome::kRaised: return unwind(true);
    case Outcome::kReraised: return unwind(false);
    case Outcome::kReturned:
      if (yielded_) {
        save();
      } else {
        cpython::set_depth(frame_, depth());
      }
      return Event::kReturned;
    case Outcome::kServe: return conclude(static_cast<uint8_t>(Handlers::service_breaker(*this)));
    case Outcome::kHandOver:
      next_ = current_;
      // The second half of a fused instruction is never left to CPython: its handlers don't ask for it.
      CHECK(at_boundary());
      return Event::kHandOver;
  }
  __builtin_unreachable();
}

void Activation::drop_to(PyObject** stack_pointer) {
  while (stack_pointer_ > stack_pointer) Py_XDECREF(*--stack_pointer_);
}

Event Activation::unwind(bool add_entry) {
  CHECK(PyErr_Occurred());
  if (add_entry) cpython::add_traceback_entry(thread_, frame_);
  const bool told = trace_cells_.may_be_traced() && cpython::is_traced(thread_, frame_);
  if (told) cpython::tell_tools(thread_, frame_, add_entry ? ExceptionEvent::kRaise : ExceptionEvent::kReraise);
  const auto* const code = reinterpret_cast<PyCodeObject*>(code_->code.get());
  PyObject** const stack = base_ + code->co_nlocalsplus;
  const bytecode::ExceptionRegion* const handler = code_->handler(handled_at_);
  if (!handler) {
    drop_to(stack);
    if (told) cpython::tell_tools(thread_, frame_, ExceptionEvent::kUnwind);
    cpython::set_depth(frame_, depth());
    return Event::kRaised;
  }
  drop_to(stack + handler->depth);
  if (handler->push_lasti) {
    PyObject* const unit = PyLong_FromLong(static_cast<long>((*running_.cell - running_.code) / 2));
    if (!unit) return unwind(false);  // with the MemoryError now
    Handlers::push(*this, unit);
  }
  if (told) cpython::tell_tools(thread_, frame_, ExceptionEvent::kHandled);
  Handlers::push(*this, cpython::take_raised());
  next_ = handler->target;
  traced_ = trace_cells_.may_be_traced() && cpython::is_traced(thread_, frame_);
  return Event::kCaught;
}

Event Activation::throw_in() {
  // As in CPython: at the unit before the one to go on with.
  const int unit = instruction().offset - 1;
  handled_at_ = unit < 0 ? next_ : code_->index_of_unit[static_cast<size_t>(unit)];
  return unwind(true);
}

std::optional<Activation::CallSite> Activation::call_site() const {
  const Instruction& call = instruction();
  if (call.op != Op::CALL && call.op != Op::CALL_KW) return std::nullopt;
  const int names_on_stack = call.op == Op::CALL_KW;
  const int first = depth() - names_on_stack - call.arg;
  const bool has_self = slot(layout::kSelfAfterCallable ? first - 1 : first - 2) != nullptr;
  const int callable = layout::kSelfAfterCallable || has_self ? first - 2 : first - 1;
  Borrowed names;
  if (names_on_stack) {
    names = slot(depth() - 1);
  } else if (call.arg2 >= 0) {
    names = PyTuple_GET_ITEM(reinterpret_cast<PyCodeObject*>(code_->code.get())->co_consts, call.arg2);
  }
  return CallSite{callable, first - has_self, call.arg + has_self, names};
}

void Activation::begin_call(int slots_from) {
  running_.set(cpython::own_unit(instruction()));
  current_ = handled_at_ = next_++;
  drop_to(base_ + slots_from);
  cpython::set_depth(frame_, depth());
}

void Activation::stay_in_call() { running_.set(cpython::own_unit(code_->instructions[next_ - 1])); }

Borrowed Activation::instance_mark() {
  static PyObject* const mark = PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return mark;
}

void Activation::keep(Ref object) {
  Handlers::push(*this, std::move(object));
  cpython::set_depth(frame_, depth());
}

bool Activation::keeps_instance() const {
  return depth() > reinterpret_cast<PyCodeObject*>(code_->code.get())->co_nlocalsplus && stack_pointer_[-1] == instance_mark().get();
}

Event Activation::finish_call(Ref result) {
  cpython::set_depth(frame_, -1);
  stay_in_call();
  // Also where the frame was suspended by another Activation: the call is the instruction that raises.
  current_ = handled_at_ = next_ - 1;
  if (!result) return unwind(true);
  if (keeps_instance()) {
    drop_to(stack_pointer_ - 1);
    if (result.get() != Py_None) {
      PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result.get())->tp_name);
      return unwind(true);
    }
  } else if (takes_result()) {
    Handlers::push(*this, std::move(result));
  }
  result = Ref();
  return conclude(static_cast<uint8_t>(Handlers::service_breaker(*this)));
}

namespace {

// The decoded form, null where there is none; keeps an exception that is to be thrown in.
const bytecode::Code* decoded_quietly(cpython::Frame* frame, bool throwing) {
  Ref thrown = throwing ? cpython::take_raised() : Ref();
  const bytecode::Code* const code = cpython::decoded(cpython::code_of(frame));
  if (!code) PyErr_Clear();
  if (thrown) cpython::set_raised(std::move(thrown));
  return code;
}

// Who drops the frame in the end.
enum class Owner : uint8_t { kEvaluator, kCaller };

Ref left_to_cpython(PyThreadState* thread, cpython::Frame* frame, bool throwing, Owner owner) {
  return owner == Owner::kCaller ? cpython::run_in_cpython_in_place(thread, frame, throwing) : cpython::run_in_cpython(thread, frame, throwing);
}
void drop(PyThreadState* thread, cpython::Frame* frame, Owner owner) {
  owner == Owner::kCaller ? cpython::finish_frame(thread, frame) : cpython::pop_frame(thread, frame);
}

Ref evaluate_frame(PyThreadState* thread, cpython::Frame* frame, bool throwing, Owner owner) {
  const bytecode::Code* code = cpython::decoded_before(cpython::code_of(frame).as<PyCodeObject>());
  if (!code) code = decoded_quietly(frame, throwing);
  const bool traced = cpython::is_traced(thread, frame);
  if (!code || traced) {
    ++(traced ? counts.traced : counts.not_decoded);
    return left_to_cpython(thread, frame, throwing, owner);
  }
  if (!cpython::enter_recursion(thread)) {
    drop(thread, frame, owner);
    return Ref();
  }
  ++counts.evaluated;
  Ref result;
  Event event;
  bool yielded, delegates;
  {
    Activation activation(thread, frame, *code);
    event = throwing ? activation.throw_in() : Event::kNext;
    if (event != Event::kRaised) event = activation.run();
    if (event == Event::kHandOver) {
      count_hand_over(activation);
      activation.save();
    }
    result = activation.take_result();
    yielded = activation.yielded();
    delegates = activation.delegates();
  }
  cpython::leave_recursion(thread);
  if (event == Event::kHandOver) return left_to_cpython(thread, frame, false, owner);
  if (yielded) {
    cpython::suspend_generator(thread, frame, delegates);
  } else {
    drop(thread, frame, owner);
  }
  return result;
}

}  // namespace

Ref evaluate(PyThreadState* thread, cpython::Frame* frame, bool throwing) {
  return evaluate_frame(thread, frame, throwing, Owner::kEvaluator);
}
Ref evaluate_in_place(PyThreadState* thread, cpython::Frame* frame, bool throwing) {
  return evaluate_frame(thread, frame, throwing, Owner::kCaller);
}

PyObject* Handlers::run_entered(const Activation& caller, const cpython::EnteredFrame& entered) {
  ++counts.evaluated;
  PyThreadState* const thread = caller.thread_;
  Activation callee(caller, entered);
  const Event event = callee.run();
  if (event == Event::kHandOver) {
    count_hand_over(callee);
    callee.save();
    return cpython::leave_call_to_cpython(thread, entered.frame).release();
  }
  cpython::leave_call(thread, entered.frame, callee.depth());
  return callee.result_.release();
}

DeepEvaluation::DeepEvaluation() : outer_(std::exchange(deep_evaluation, true)) {}
DeepEvaluation::~DeepEvaluation() { deep_evaluation = outer_; }

}  // namespace evalframe::evaluator
