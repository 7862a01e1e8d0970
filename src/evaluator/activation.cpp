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
#include "evaluator/labels.h"
#include "evaluator/observer.h"
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
#include "evaluator/rest.h"

namespace evalframe::evaluator {

using bytecode::Op;
using cpython::ExceptionEvent;

EVALFRAME_INLINE inline Activation::Activation(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code, bool linked)
    : thread_(thread), frame_(frame), code_(&code), trace_cells_(cpython::trace_cells(thread)), breaker_(cpython::breaker_cell(thread)) {
  CHECK(cpython::depth_of(frame) >= 0);
  if (!code.notes) prepare(code);
  find_position();
  current_ = handled_at_ = next_;
  if (!linked) link_.link(thread, frame);
  traced_ = is_traced();
}
Activation::Activation(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code) : Activation(thread, frame, code, false) {}

Activation::~Activation() = default;

void Activation::save() { cpython::set_next(frame_, instruction().offset, depth()); }

namespace {

// Out of line, so that run() keeps its registers.
#define EVALFRAME_INSTRUCTION(name, argument, flow) \
  [[gnu::noinline]] Outcome handle_##name(Activation& a, const Instruction& i) { return Handlers::name(a, i); }
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION

}  // namespace

Event Activation::run_handler(const Instruction& now) {
  using Handler = Outcome (*)(Activation&, const Instruction&);
  static constexpr Handler kHandlers[] = {
#define EVALFRAME_INSTRUCTION(name, argument, flow) handle_##name,
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
  };
  return conclude(static_cast<uint8_t>(kHandlers[static_cast<size_t>(now.op)](*this, now)));
}

Event Activation::step() {
  if (traced_ && at_boundary()) return Event::kHandOver;
  const Instruction& now = instruction();
  current_ = handled_at_ = next_++;
  running().set(cpython::own_unit(now));
  return run_handler(now);
}

// Not part of who calls it: it has its registers for itself.
[[gnu::noinline]] Event Activation::run() {
  static const void* const labels[] = {
#define EVALFRAME_INSTRUCTION(name, argument, flow) &&run_##name,
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
#define EVALFRAME_SHAPE(name, instruction, assumption) &&run_##name,
#define EVALFRAME_PAIR(first, second) &&run_##first##_##second,
#include "evaluator/shapes.def"
#undef EVALFRAME_SHAPE
#undef EVALFRAME_PAIR
  };
  Registers r(*this);
  const Instruction* now;
  Outcome outcome;

next:
  if (traced_ && at_boundary()) {
    outcome = Outcome::kHandOver;
    current_ = next_;
    goto concluded;
  }

#define EVALFRAME_RUN_NEXT \
  now = r.next++;          \
  goto* labels[now->label]
#define EVALFRAME_RUN(name)                                                                   \
  if (!is_silent(Op::name)) r.running().set(cpython::own_unit(*now, Op::name));               \
  outcome = quick<Op::name>(r, *now);                                                         \
  if (outcome == Outcome::kHandOver) {                                                        \
    if (is_silent(Op::name)) r.running().set(cpython::own_unit(*now, Op::name));              \
    learn<Op::name>(r, *now);                                                                 \
    r.put_back(now);                                                                          \
    outcome = handle_##name(*this, *now);                                                     \
    if (__builtin_expect(outcome > Outcome::kRan, 0)) goto concluded;                         \
    if (outcome == Outcome::kRan && __builtin_expect(r.may_be_traced(), 0)) goto concluded;   \
    r.take();                                                                                 \
  } else if (returns(Op::name)) {                                                             \
    goto returned;                                                                            \
  } else if (yields(Op::name)) {                                                              \
    goto yielded;                                                                             \
  } else if (may_enter(Op::name) && outcome == Outcome::kSwitched) {                          \
    goto entered;                                                                             \
  } else if (__builtin_expect(outcome > Outcome::kRan, 0) ||                                  \
             (outcome == Outcome::kRan && __builtin_expect(r.may_be_traced(), 0))) {          \
    r.put_back(now);                                                                          \
    goto concluded;                                                                           \
  }

  EVALFRAME_RUN_NEXT;

#define EVALFRAME_INSTRUCTION(name, argument, flow) \
  run_##name : EVALFRAME_RUN(name) EVALFRAME_RUN_NEXT;
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION
#define EVALFRAME_SHAPE(name, instruction, assumption)                    \
  run_##name : {                                                          \
    [[maybe_unused]] const Instruction &i = *now, &then = *r.next;        \
    if (!(assumption)) __builtin_unreachable();                           \
  }                                                                       \
  EVALFRAME_RUN(instruction) EVALFRAME_RUN_NEXT;
#define EVALFRAME_PAIR(first, second)                                     \
  run_##first##_##second : EVALFRAME_RUN(first) now = r.next++;           \
  EVALFRAME_RUN(second) EVALFRAME_RUN_NEXT;
#include "evaluator/shapes.def"
#undef EVALFRAME_SHAPE
#undef EVALFRAME_PAIR

entered:
  r.enter();
  EVALFRAME_RUN_NEXT;

returned:
  if (returns_to_caller()) {
    const bool made_instance = makes_instance();
    r.go_on_in_caller(cpython::leave_call(r.thread, r.frame, static_cast<int>(r.top - r.base())));
    if (!made_instance) {
      r.push(r.result);
      if (__builtin_expect(!r.may_be_traced(), 1)) {
        EVALFRAME_RUN_NEXT;
      }
      stack_pointer_ = r.top;
      traced_ = is_traced();
      goto next;
    }
    outcome = static_cast<Outcome>(give_instance(Ref::steal(r.result)));
  } else {
    r.put_back(now);
    result_ = Ref::steal(r.result);
    outcome = Outcome::kReturned;
  }
  goto concluded;

yielded:
  r.put_back(now);
  outcome = static_cast<Outcome>(yield_value(r.result, *now));
#undef EVALFRAME_RUN
#undef EVALFRAME_RUN_NEXT

concluded : {
  Event event = conclude(static_cast<uint8_t>(outcome));
  while (entered_ > 0 && event != Event::kNext && event != Event::kCaught) event = leave(event);
  if (event != Event::kNext && event != Event::kCaught) return event;
}
  r.take_up();
  goto next;
}

// As the frame tells.
EVALFRAME_INLINE inline void Activation::find_position() {
  stack_pointer_ = base() + std::exchange(cpython::depth_of(frame_), -1);
  next_ = instruction_at(running().unit() + layout::kPointerToNext);
}

EVALFRAME_INLINE inline void Activation::remember_caller(const Instruction* next, PyObject** stack_pointer) {
  cpython::set_depth(frame_, static_cast<int>(stack_pointer - base()));
  callers_[entered_ % kRemembered] = {code_, next, stack_pointer};
  ++entered_;
  if (entered_ - remembered_from_ > kRemembered) ++remembered_from_;
  ++counts.evaluated;
}

// Behind the instruction that called.
EVALFRAME_INLINE inline void Activation::go_on_in_caller(cpython::Frame* caller) {
  --entered_;
  frame_ = caller;
  traced_ = false;
  if (__builtin_expect(entered_ >= remembered_from_, 1)) {
    const Caller& remembered = callers_[entered_ % kRemembered];
    code_ = remembered.code;
    next_ = remembered.next;
    stack_pointer_ = remembered.stack_pointer;
    cpython::set_depth(frame_, -1);
  } else {
    remembered_from_ = entered_;
    code_ = cpython::decoded_before(cpython::code_of(frame_).as<PyCodeObject>());
    find_position();
    next_ = instruction_at(running().unit()) + 1;
  }
  current_ = handled_at_ = next_ - 1;
}

EVALFRAME_INLINE inline bool Activation::returns_to_caller() const { return entered_ > 0 && !cpython::belongs_to_generator(frame_); }

EVALFRAME_INLINE inline bool Activation::makes_instance() const {
  return cpython::mark_of(frame_) == cpython::kMakesInstance && !cpython::belongs_to_generator(frame_);
}

uint8_t Activation::yield_value(PyObject* value, const Instruction& i) {
  if (entered_ == 0) {
    result_ = Ref::steal(value);
    return static_cast<uint8_t>(Handlers::suspend(*this, i));
  }
  save();
  cpython::leave_suspended(thread_, frame_, Handlers::delegates(i));
  go_on_in_caller(cpython::current_frame(thread_));
  Handlers::push(*this, value);
  traced_ = is_traced();
  return static_cast<uint8_t>(Outcome::kSwitched);
}

// The callee is finished, has yielded, or is to be handed over: its caller goes on.
Event Activation::leave(Event event) {
  const bool of_generator = cpython::belongs_to_generator(frame_), made_instance = makes_instance();
  bool yielded = std::exchange(yielded_, false);
  Ref result = std::move(result_);
  if (event == Event::kHandOver) {
    count_hand_over(*this);
    save();
    result = of_generator ? cpython::leave_generator_to_cpython(thread_, frame_, yielded) : cpython::leave_call_to_cpython(thread_, frame_);
  } else if (!of_generator) {
    cpython::leave_call(thread_, frame_, depth());
  } else if (yielded) {
    cpython::leave_suspended(thread_, frame_, delegates_);
  } else {
    cpython::leave_finished(thread_, frame_, depth());
  }
  go_on_in_caller(cpython::current_frame(thread_));
  if (!result && made_instance) drop_instance();
  if (!result) return unwind(true, true);
  return made_instance ? conclude(give_instance(std::move(result))) : give_result(std::move(result), yielded);
}

Event Activation::give_result(Ref result, bool yielded) {
  const Instruction& now = *current_;
  const bool resumed_generator = now.op == Op::FOR_ITER || now.op == Op::SEND;
  if (resumed_generator && !yielded) {
    next_ = begin() + now.target + (now.op == Op::FOR_ITER ? layout::kForIterSkip : 0);
    if (now.op == Op::FOR_ITER) result = Ref();
    if (now.op == Op::FOR_ITER || layout::kSendPopsReceiver) Handlers::drop(*this, 1);
  }
  if (result) Handlers::push(*this, std::move(result));
  return conclude(static_cast<uint8_t>(Outcome::kRan));
}

// The callee was the __init__ of a new instance: [instance, class, arguments or NULLs] is on the stack.
uint8_t Activation::give_instance(Ref result) {
  if (!gives_instance(result)) {
    result.reset();
    drop_instance();
    return static_cast<uint8_t>(Outcome::kRaised);
  }
  Handlers::drop(*this, current_->arg + 1);
  traced_ = is_traced();
  return static_cast<uint8_t>(Outcome::kSwitched);
}
void Activation::drop_instance() { Handlers::drop(*this, current_->arg + 2); }

Event Activation::conclude(uint8_t outcome) {
  switch (static_cast<Outcome>(outcome)) {
    case Outcome::kDone: return Event::kNext;
    case Outcome::kRan:
      traced_ = is_traced();
      return Event::kNext;
    case Outcome::kSwitched: return Event::kNext;
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
  while (stack_pointer_ > stack_pointer) cpython::xdecref(*--stack_pointer_);
}

Event Activation::unwind(bool add_entry, bool by_callee) {
  CHECK(PyErr_Occurred());
  if (add_entry) cpython::add_traceback_entry(thread_, frame_);
  const bool told = is_traced();
  const int told_at = told ? cpython::unit_told(*current_, by_callee) : 0;
  if (told) cpython::tell_tools(thread_, frame_, add_entry ? ExceptionEvent::kRaise : ExceptionEvent::kReraise, told_at);
  const auto* const code = reinterpret_cast<PyCodeObject*>(code_->code.get());
  PyObject** const stack = base() + code->co_nlocalsplus;
  const bytecode::ExceptionRegion* const handler = code_->handler(index(handled_at_));
  if (!handler) {
    drop_to(stack);
    if (told) cpython::tell_tools(thread_, frame_, ExceptionEvent::kUnwind, told_at);
    cpython::set_depth(frame_, depth());
    return Event::kRaised;
  }
  drop_to(stack + handler->depth);
  if (handler->push_lasti) {
    PyObject* const unit = PyLong_FromLong(running().unit());
    if (!unit) return unwind(false);  // with the MemoryError now
    Handlers::push(*this, unit);
  }
  if (told) cpython::tell_tools(thread_, frame_, ExceptionEvent::kHandled, code_->instructions[static_cast<size_t>(handler->target)].offset);
  Handlers::push(*this, cpython::take_caught());
  next_ = begin() + handler->target;
  traced_ = is_traced();
  return Event::kCaught;
}

Event Activation::throw_in() {
  // As in CPython: at the unit before the one to go on with.
  const int unit = instruction().offset - 1;
  handled_at_ = unit < 0 ? next_ : instruction_at(unit);
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
  running().set(cpython::own_unit(instruction()));
  current_ = handled_at_ = next_++;
  drop_to(base() + slots_from);
  cpython::set_depth(frame_, depth());
}

void Activation::stay_in_call() { running().set(cpython::own_unit(next_[-1])); }

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

bool Activation::keeps_rest() const {
  return depth() > reinterpret_cast<PyCodeObject*>(code_->code.get())->co_nlocalsplus && is_rest(stack_pointer_[-1]);
}

void Activation::replace_rest(Ref rest) {
  const Ref old = Ref::steal(std::exchange(stack_pointer_[-1], rest.release()));
}

// The operands are back on the stack when the instruction goes on: they are let go in CPython's order.
Event Activation::finish_rest(Ref result) {
  Ref rest = Handlers::pop(*this);
  const Instruction& now = *current_;
  if (PyTuple_GET_ITEM(rest.get(), 0) == Py_None) {
    rest.reset(), result.reset();
    Handlers::push(*this, Ref::borrow(Py_None));
    return conclude(static_cast<uint8_t>(Handlers::service_breaker(*this)));
  }
  if (is_rest_of_construction(rest.get())) {
    Ref value = finish_construction(rest.get(), std::move(result));
    rest.reset();
    if (!value) return unwind(true);
    Handlers::push(*this, std::move(value));
    return conclude(static_cast<uint8_t>(Handlers::service_breaker(*this)));
  }
  if (is_rest_of_operator(rest.get())) {
    for (int i : {2, 3}) Handlers::push(*this, Ref::borrow(PyTuple_GET_ITEM(rest.get(), i)));
    Ref value = finish_operator(rest.get(), {now.op == Op::COMPARE_OP, now.arg}, std::move(result));
    const bool as_bool = now.op == Op::COMPARE_OP && now.arg2 > 0 && (now.arg2 & layout::kCompareAsBool);
    if (value && as_bool && !PyBool_Check(value.get())) {
      const int truth = PyObject_IsTrue(value.get());
      value = truth < 0 ? Ref() : Ref::borrow(truth ? Py_True : Py_False);
    }
    rest.reset();
    return conclude(static_cast<uint8_t>(Handlers::replace(*this, 2, value.release())));
  }
  constexpr Py_ssize_t kOperands = 2;
  const long position = PyLong_AsLong(PyTuple_GET_ITEM(rest.get(), 1));
  PyObject* const operand = PyTuple_GET_ITEM(rest.get(), kOperands + position);
  Ref replaced = stand_in(PyTuple_GET_ITEM(rest.get(), 0), result.get(), operand);
  if (!replaced) return unwind(true);
  PyObject** const place = stack_pointer_ + position;
  for (Py_ssize_t i = kOperands; i < PyTuple_GET_SIZE(rest.get()); i++) {
    PyObject* const other = PyTuple_GET_ITEM(rest.get(), i);
    Handlers::push(*this, i - kOperands == position ? Ref::borrow(replaced.get()) : other == rest_type() ? Ref() : Ref::borrow(other));
  }
  rest.reset();
  const Event event = run_handler(now);
  // What the instruction leaves where it stands is the operand itself.
  if (event == Event::kNext && place < stack_pointer_ && *place == replaced.get()) {
    Ref::steal(std::exchange(*place, Ref::borrow(operand).release()));
  }
  return event;
}

Event Activation::finish_call(Ref result) {
  cpython::set_depth(frame_, -1);
  stay_in_call();
  // Also where the frame was suspended by another Activation: the call is the instruction that raises.
  current_ = handled_at_ = next_ - 1;
  if (!result && current_->op == Op::FOR_ITER && PyErr_ExceptionMatches(PyExc_StopIteration)) {
    PyErr_Clear();
    return give_result(Ref::borrow(Py_None), false);
  }
  if (!result) return unwind(true, true);
  if (gets_iterator() && !PyIter_Check(result.get())) {
    PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'", Py_TYPE(result.get())->tp_name);
    result.reset();
    return unwind(true);
  }
  if (keeps_rest()) return finish_rest(std::move(result));
  if (keeps_instance()) {
    drop_to(stack_pointer_ - 1);
    if (!gives_instance(result)) return unwind(true);
  } else if (takes_result()) {
    // [NULL, value] or, in 3.13, [value, NULL]
    const bool method = current_->op == Op::LOAD_METHOD;
    if (method && !layout::kSelfAfterCallable) Handlers::push(*this, Ref());
    Handlers::push(*this, std::move(result));
    if (method && layout::kSelfAfterCallable) Handlers::push(*this, Ref());
  }
  result = Ref();
  return conclude(static_cast<uint8_t>(Handlers::service_breaker(*this)));
}

bool Activation::refuses(PyObject* result, bool yielded) const {
  const bool ends = resumes() == Resumes::kClose || resumes() == Resumes::kLetGo;
  return ends ? yielded : (keeps_instance() && result != Py_None) || (gets_iterator() && !PyIter_Check(result));
}

bool Activation::takes_from_generator(bool yielded) const {
  return resumes() == Resumes::kNone ? yielded || next_[-1].op != Op::FOR_ITER : resumes() != Resumes::kLetGo;
}

// As builtin_next, gen_send_ex and gen_close do.
Event Activation::finish_resuming_call(Ref result, bool yielded) {
  const Ref rest = Handlers::pop(*this);
  const Resumes resumes = resumes_generator(rest.get());
  PyObject* const object = PyTuple_GET_ITEM(rest.get(), 1);
  const bool ends = resumes == Resumes::kClose || resumes == Resumes::kLetGo;
  if (ends && yielded) {
    PyErr_Format(PyExc_RuntimeError, "%s ignored GeneratorExit", PyCoro_CheckExact(object) ? "coroutine" : "generator");
    result.reset();
  } else if (ends && !result && (PyErr_ExceptionMatches(PyExc_StopIteration) || PyErr_ExceptionMatches(PyExc_GeneratorExit))) {
    PyErr_Clear();
    result = Ref::borrow(Py_None);
  } else if (ends && result && !layout::kCloseGivesResult) {
    result = Ref::borrow(Py_None);
  } else if (resumes == Resumes::kDefault && result && !yielded) {
    result = Ref::borrow(object);
  } else if (resumes == Resumes::kStop && result && !yielded) {
    cpython::set_stop_iteration(std::move(result));
  }
  if (resumes == Resumes::kLetGo && !result) PyErr_WriteUnraisable(object);
  if (!result && resumes != Resumes::kLetGo) return unwind(true);
  if (resumes != Resumes::kLetGo) Handlers::push(*this, std::move(result));
  return conclude(static_cast<uint8_t>(Handlers::service_breaker(*this)));
}

Event Activation::finish_resumption(Ref result, bool yielded) {
  cpython::set_depth(frame_, -1);
  stay_in_call();
  current_ = handled_at_ = next_ - 1;
  if (keeps_rest()) return finish_resuming_call(std::move(result), yielded);
  return result ? give_result(std::move(result), yielded) : unwind(true, true);
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

PyObject* left_to_cpython(PyThreadState* thread, cpython::Frame* frame, bool throwing, Owner owner) {
  if (owner == Owner::kCaller) return cpython::run_in_cpython_in_place(thread, frame, throwing).release();
  return cpython::run_in_cpython(thread, frame, throwing).release();
}
void drop(PyThreadState* thread, cpython::Frame* frame, Owner owner) {
  owner == Owner::kCaller ? cpython::finish_frame(thread, frame) : cpython::pop_frame(thread, frame);
}

// Callees are evaluations of their own here, and watched as this one is. The observer may leave at any step.
[[gnu::noinline]] Event run_observed(Activation& activation, bool throwing) {
  observer->begins(activation, throwing);
  Event event = throwing ? activation.throw_in() : Event::kNext;
  while (event == Event::kNext || event == Event::kCaught) {
    if (!observer) return activation.run();
    observer->steps(activation, event == Event::kCaught);
    event = activation.step();
  }
  return event;
}

// The frame is the thread's current one, or the Activation makes it that.
struct Evaluation {
  PyObject* result;
  Event event;
  bool yielded, delegates;

  EVALFRAME_INLINE Evaluation(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code, bool throwing, bool linked) {
    ++counts.evaluated;
    Activation activation(thread, frame, code, linked);
    if (__builtin_expect(observer != nullptr, 0)) {
      event = run_observed(activation, throwing);
    } else {
      event = throwing ? activation.throw_in() : Event::kNext;
      if (event != Event::kRaised) event = activation.run();
    }
    if (event == Event::kHandOver) {
      count_hand_over(activation);
      activation.save();
    }
    result = activation.take_result().release();
    yielded = activation.yielded();
    delegates = activation.delegates();
    if (__builtin_expect(observer != nullptr, 0)) observer->ends(activation, event, result);
  }
};

PyObject* evaluate_frame(PyThreadState* thread, cpython::Frame* frame, bool throwing, Owner owner) {
  const bytecode::Code* code = cpython::enter_given(thread, frame);
  const bool entered = code != nullptr;
  if (!entered) {
    code = decoded_quietly(frame, throwing);
    const bool traced = cpython::is_traced(thread, frame);
    if (!code || traced) {
      ++(traced ? counts.traced : counts.not_decoded);
      return left_to_cpython(thread, frame, throwing, owner);
    }
    if (!cpython::enter_recursion(thread)) {
      drop(thread, frame, owner);
      return nullptr;
    }
  }
  const Evaluation done(thread, frame, *code, throwing, entered);
  entered ? cpython::leave_given(thread, frame) : cpython::leave_recursion(thread);
  if (done.event == Event::kHandOver) return left_to_cpython(thread, frame, false, owner);
  if (done.yielded) {
    cpython::suspend_generator(thread, frame, done.delegates);
  } else {
    drop(thread, frame, owner);
  }
  return done.result;
}

}  // namespace

Ref evaluate(PyThreadState* thread, cpython::Frame* frame, bool throwing) {
  return Ref::steal(evaluate_frame(thread, frame, throwing, Owner::kEvaluator));
}
PyObject* evaluate_in_place(PyThreadState* thread, cpython::Frame* frame, bool throwing) {
  return evaluate_frame(thread, frame, throwing, Owner::kCaller);
}

DeepEvaluation::DeepEvaluation() : outer_(std::exchange(deep_evaluation, true)) {}
DeepEvaluation::~DeepEvaluation() { deep_evaluation = outer_; }

}  // namespace evalframe::evaluator
