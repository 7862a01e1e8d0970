// One frame being run by our evaluator, one canonical instruction at a time.
//
// The frame is always a valid CPython frame at an instruction boundary: it can be handed over to CPython's evaluator there.
#pragma once

#include <optional>

#include "bytecode/instruction.h"
#include "cpython/frame.h"
#include "cpython/python_call.h"
#include "evaluator/rest.h"

namespace evalframe::evaluator {

enum class Event : uint8_t {
  kNext,      // the instruction is done; `next()` is the one to run now (after an exception that the frame handles: its handler)
  kCaught,    // it raised and the frame's exception table has a handler: the stack is unwound, `next()` is the handler
  kReturned,  // the frame is finished; `take_result()` has its value
  kRaised,    // it raised and the frame doesn't handle it: the traceback entry is added, the exception is set
  kHandOver,  // nothing was done: the instruction isn't ours (or a tracer became active); CPython must go on from here
};

// Lives on the C stack, linked as the thread's current frame while it exists. Doesn't own the frame.
class Activation {
 public:
  // `frame`: filled, not linked. Starts at the frame's next instruction.
  Activation(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code);
  // linked: it's the thread's current frame already, and stays that.
  Activation(PyThreadState* thread, cpython::Frame* frame, const bytecode::Code& code, bool linked);
  ~Activation();

  cpython::Frame* frame() const { return frame_; }
  const bytecode::Code& code() const { return *code_; }
  const bytecode::Instruction& instruction() const { return *next_; }
  int32_t next() const { return index(next_); }  // of the next instruction
  int depth() const { return static_cast<int>(stack_pointer_ - base()); }  // slots in use: localsplus + stack
  PyObject* slot(int index) const { return base()[index]; }  // borrowed; index as in cpython::Slots
  PyObject** slots() const { return base(); }
  PyThreadState* thread() const { return thread_; }
  bool traced() const { return traced_; }      // a tracer is active: handed over at the next boundary

  // Runs the next instruction. Calls of Python functions run to their end inside it.
  Event step();
  // Runs until the frame is finished or must be handed over (never kNext or kCaught).
  Event run();
  Ref take_result() { return std::move(result_); }
  // After kReturned: the frame is a generator's and has yielded the result.
  bool yielded() const { return yielded_; }
  bool delegates() const { return delegates_; }  // ... from a `yield from` or an `await`
  // Instead of the first step: raises the exception that is set where the generator waits. kCaught or kRaised.
  Event throw_in();
  int32_t handled_at() const { return index(handled_at_); }

  // --- calls that the driver wants to run itself (next is CALL, CALL_KW or CALL_FUNCTION_EX; LOAD_ATTR or STORE_ATTR, of
  // a property; BEFORE_WITH) -------------------------------------------------------------------------------------------------------
  // Where the operands of the CALL stand. `callable` and `first` are slot indices; a bound self is among the arguments.
  struct CallSite {
    int callable, first, count;   // positional arguments in slots first .. first + count - 1 (keyword values last)
    Borrowed keyword_names;       // tuple or null
    int keywords() const { return keyword_names ? static_cast<int>(PyTuple_GET_SIZE(keyword_names.get())) : 0; }
  };
  std::optional<CallSite> call_site() const;   // none for CALL_FUNCTION_EX and other instructions
  // Takes the operands of the CALL off the stack and makes the callee's frame: `function` with `arguments` bound as
  // CPython binds them (defaults, keyword-only ones; the caller has checked that they fit, in localsplus order).
  // This activation is then suspended in the call: set_next of its frame is behind the CALL.
  void begin_call(int slots_from);
  // Behind begin_call: what the instruction leaves below the call's result. Is the call that of a class, and the callee its
  // __init__, it is the new instance, which is the result, and above it a mark that no program can have there.
  void keep(Ref object);
  static Borrowed instance_mark();
  // Whether the instruction behind which the frame is suspended pushes what the callee gives.
  bool takes_result() const { return !is_store(next_[-1].op) && !keeps_instance(); }
  // Whether it is an error that the callee gives this.
  bool refuses(PyObject* result, bool yielded) const;
  // Whether the instruction has yet to go on when the callee is done (evaluator/rest.h).
  bool keeps_rest() const;
  // Of a call that has resumed a generator.
  Resumes resumes() const { return keeps_rest() ? resumes_generator(stack_pointer_[-1]) : Resumes::kNone; }
  // Another callee is asked, with another rest.
  void replace_rest(Ref rest);
  // For a frame that was suspended in a call before this activation: tracebacks and f_lineno tell of the call.
  void stay_in_call();
  // The call is over: pushes the result, if the instruction has one, or (null) unwinds with the exception that is set: kNext, kCaught or kRaised.
  Event finish_call(Ref result);
  // The same where the callee was a generator that the instruction has resumed: it has yielded the result, or returned it.
  Event finish_resumption(Ref result, bool yielded);
  // Whether it pushes what the generator gives.
  bool takes_from_generator(bool yielded) const;

  // False between the halves of a fused instruction, where nothing can be handed over.
  bool at_boundary() const { return next_ == begin() || !(next_[-1].flags & bytecode::Instruction::kFusedWithNext); }

  // Writes the position into the frame so that CPython, or another Activation, can go on from here.
  void save();

 private:
  static constexpr bool is_store(bytecode::Op op) {
    using enum bytecode::Op;
    return op == STORE_ATTR || op == DELETE_ATTR || op == STORE_SUBSCR || op == STORE_SLICE || op == DELETE_SUBSCR;
  }
  bool keeps_instance() const;
  // Suspended in an instruction whose result has to be an iterator.
  bool gets_iterator() const { return next_[-1].op == bytecode::Op::GET_ITER || next_[-1].op == bytecode::Op::GET_YIELD_FROM_ITER; }
  Event run_handler(const bytecode::Instruction& now);
  Event finish_rest(Ref result);
  Event finish_resuming_call(Ref result, bool yielded);
  friend struct Handlers;
  friend struct Registers;
  PyObject** base() const { return cpython::slot_base(frame_); }
  cpython::RunningCell running() const { return cpython::running_cell(frame_); }
  bool may_be_traced() const { return cpython::may_be_traced(trace_cells_, code_->code.as<PyCodeObject>()); }
  bool is_traced() const { return may_be_traced() && cpython::is_traced(thread_, frame_); }
  const bytecode::Instruction* begin() const { return code_->instructions.data(); }
  int32_t index(const bytecode::Instruction* instruction) const { return static_cast<int32_t>(instruction - begin()); }
  // Of a code unit, whichever of the instruction's it is.
  const bytecode::Instruction* instruction_at(int unit) const { return begin() + code_->index_of_unit[static_cast<size_t>(unit)]; }
  Event conclude(uint8_t outcome);
  // --- run(): calls and generators don't take a level of C. The frame that is up is a callee's, until it ends -----------
  // A caller, for when its callee has ended. Not all are remembered: of others the frame tells.
  struct Caller {
    const bytecode::Code* code;
    const bytecode::Instruction* next;
    PyObject** stack_pointer;
  };
  static constexpr uint32_t kRemembered = 8;
  void find_position();
  void remember_caller(const bytecode::Instruction* next, PyObject** stack_pointer);
  void go_on_in_caller(cpython::Frame* caller);
  bool returns_to_caller() const;
  uint8_t yield_value(PyObject* value, const bytecode::Instruction& i);
  Event leave(Event event);
  bool makes_instance() const;
  Event give_result(Ref result, bool yielded);
  uint8_t give_instance(Ref result);
  void drop_instance();
  Event unwind(bool add_entry, bool by_callee = false);
  void drop_to(PyObject** stack_pointer);

  PyThreadState* thread_;
  uint32_t entered_ = 0;          // callees on top of the frame that was given
  uint32_t remembered_from_ = 0;  // the callers from this level on are remembered
  cpython::Frame* frame_;
  const bytecode::Code* code_;
  PyObject** stack_pointer_;
  const bytecode::Instruction* next_;
  const bytecode::Instruction* current_;     // the instruction being run
  const bytecode::Instruction* handled_at_;  // where its handler is looked up, should it raise
  bool yielded_ = false, delegates_ = false;
  bool traced_ = false;  // a tracer became active: hand over at the next boundary
  Ref result_;
  cpython::Link link_;
  const unsigned char* trace_cells_;
  cpython::BreakerCell breaker_;
  Caller callers_[kRemembered];
};

// Runs `frame` (filled, not linked) to its end: in our evaluator as far as it goes, then in CPython's. The frame is cleared
// and its space given back. The result, or null with an exception.
// A generator's frame runs until it yields or ends. throwing: the exception that is set is raised where it waits.
Ref evaluate(PyThreadState* thread, cpython::Frame* frame, bool throwing = false);
// The same of a frame that CPython's slot for frame evaluation was given: it's dropped by whom the running version expects to.
PyObject* evaluate_in_place(PyThreadState* thread, cpython::Frame* frame, bool throwing);

// While one lives, calls of Python functions by frames of this thread run in our evaluator too.
class DeepEvaluation {
 public:
  DeepEvaluation();
  ~DeepEvaluation();
  DeepEvaluation(const DeepEvaluation&) = delete;
  DeepEvaluation& operator=(const DeepEvaluation&) = delete;

 private:
  bool outer_;
};

}  // namespace evalframe::evaluator
