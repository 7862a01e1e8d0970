// The handlers' common ground: what an instruction can lead to, and the moves on the frame's stack.
#pragma once

#include "bytecode/instruction.h"
#include "cpython/frame.h"
#include "cpython/layout.h"
#include "cpython/objects.h"
#include "cpython/python_call.h"
#include "cpython/refcounts.h"
#include "evaluator/activation.h"

namespace evalframe::evaluator {

using bytecode::Instruction;
namespace layout = cpython::layout;

enum class Outcome : uint8_t {
  kDone,      // nothing but the evaluator ran
  kRan,       // done; other code may have run, and switched a tracer on
  kSwitched,  // run(): another frame is up, a callee's or the caller's
  kRaised,    // an exception is set; the frame is to be put on its traceback
  kReraised,  // an exception is set, its traceback is complete
  kReturned,  // the result is taken
  kServe,     // done; the breaker is set: others are to have their turn
  kHandOver,  // nothing was done: CPython is to run this instruction
};

// Drops a reference. Where it was the last one, any code may have run.
[[gnu::always_inline]] inline Outcome let_go(PyObject* object) { return cpython::decref(object) ? Outcome::kRan : Outcome::kDone; }
// Null: nothing.
[[gnu::always_inline]] inline Outcome let_go_if_any(PyObject* object) { return object ? let_go(object) : Outcome::kDone; }

// Handlers check, then act: one that gives kHandOver has changed nothing. One that gives kRaised may leave its operands
// on the stack, unwinding drops them.
struct Handlers {
#define EVALFRAME_INSTRUCTION(name, argument, flow) static inline Outcome name(Activation& a, const Instruction& i);
#include "bytecode/instructions.def"
#undef EVALFRAME_INSTRUCTION

  // --- the stack ---------------------------------------------------------------------------------------------------
  static void push(Activation& a, PyObject* owned) { *a.stack_pointer_++ = owned; }
  static void push(Activation& a, Ref value) { *a.stack_pointer_++ = value.release(); }
  static PyObject* pop_owned(Activation& a) { return *--a.stack_pointer_; }
  static Ref pop(Activation& a) { return Ref::steal(*--a.stack_pointer_); }
  // The entry `distance` from the top, 1 being the top.
  static PyObject*& peek(Activation& a, int distance) { return a.stack_pointer_[-distance]; }
  // Drops `count` operands in the order in which they were pushed, as CPython does.
  static void drop(Activation& a, int count) {
    PyObject** const operands = a.stack_pointer_ -= count;
    for (int index = 0; index < count; ++index) cpython::xdecref(operands[index]);
  }
  // The entries below are consumed and the result takes their place; null: raised.
  static Outcome replace(Activation& a, int count, PyObject* result) {
    drop(a, count);
    if (!result) return Outcome::kRaised;
    push(a, result);
    return Outcome::kRan;
  }
  // The same where CPython drops the last one first.
  static Outcome replace_backwards(Activation& a, int count, PyObject* result) {
    a.drop_to(a.stack_pointer_ - count);
    return replace(a, 0, result);
  }
  // The same where nothing but the evaluator has run, and dropping the entries runs nothing either: numbers.
  static Outcome replace_quietly(Activation& a, int count, PyObject* result) {
    if (!result) return Outcome::kRaised;
    drop(a, count);
    push(a, result);
    return Outcome::kDone;
  }
  static Outcome consume(Activation& a, int count, bool ok) {
    drop(a, count);
    return ok ? Outcome::kRan : Outcome::kRaised;
  }

  // --- the frame ---------------------------------------------------------------------------------------------------
  static PyObject*& local(Activation& a, int index) { return a.base()[index]; }
  static PyCodeObject* code(const Activation& a) { return reinterpret_cast<PyCodeObject*>(a.code_->code.get()); }
  static PyObject* name(Activation& a, const Instruction& i) { return PyTuple_GET_ITEM(code(a)->co_names, i.arg); }
  static PyObject* constant(Activation& a, int index) { return PyTuple_GET_ITEM(code(a)->co_consts, index); }
  static Outcome set_local(Activation& a, int index, PyObject* owned) { return let_go_if_any(std::exchange(a.base()[index], owned)); }
  static bool goes_back(const Activation& a, const Instruction& i) { return i.target <= a.index(a.current_); }
  static void jump(Activation& a, int32_t target) { a.next_ = a.begin() + target; }
  static PyThreadState* thread(Activation& a) { return a.thread_; }
  static cpython::Frame* frame(Activation& a) { return a.frame_; }
  static bytecode::Note& note(Activation& a) { return a.code_->notes[static_cast<size_t>(a.index(a.current_))]; }
  static void set_result(Activation& a, Ref result) { a.result_ = std::move(result); }
  // CPython looks the handler up at the unit before the next instruction; only up to 3.12 has it jumped by then.
  static void handle_before(Activation& a, int32_t target) {
    if (layout::k313) return;
    const int unit = a.code_->instructions[target].offset - 1;
    a.handled_at_ = unit < 0 ? a.begin() + target : a.instruction_at(unit);
  }
  static Outcome service_breaker(Activation& a) {
    if (!a.breaker_.is_set()) return Outcome::kRan;
    return cpython::service_breaker(a.thread_) ? Outcome::kRan : Outcome::kRaised;
  }
  // RERAISE: where the exception was raised first.
  static void set_running(Activation& a, int unit) { a.running().set(unit); }

  // The instruction is about to enter a Python function: f_lasti of the frame tells.
  static void stand_in_call(cpython::RunningCell running, const Instruction& i) {
    if (layout::kCallerStandsAtCaches) running.set(i.end - 1);
  }
  static bool delegates(const Instruction& i) { return layout::k313 && i.arg == 1; }
  static Outcome suspend(Activation& a, const Instruction& i) {
    a.yielded_ = true;
    a.delegates_ = delegates(i);
    return Outcome::kReturned;
  }

  // --- helpers of several opcode groups ----------------------------------------------------------------------------
  static Outcome raise_name_error(PyObject* type, const char* format, PyObject* name);
  static Outcome raise_unbound(Activation& a, int index);
  static Ref global_value(Activation& a, const Instruction& i, bool as_dict);
  static Ref noted_global(Activation& a, const Instruction& i);
  static PyObject* namespace_of(Activation& a);
  static Ref taken_slice(Activation& a);
  static void bind_hidden(Activation& a, PyObject* locals);
  static Outcome load_from(Activation& a, const Instruction& i, PyObject* shadowing, int taken);
  static Outcome branch(Activation& a, const Instruction& i, bool taken);
  static Outcome call_entries(Activation& a, int count, PyObject* keyword_names, int above);
  static Outcome finish(Activation& a, int entries, PyObject* result);
  static Outcome enter_context(Activation& a, const char* enter_name, const char* exit_name, const char* no_enter, const char* no_exit);
  static Outcome run_bound(Activation& a, int entries, cpython::Frame* callee);
};

}  // namespace evalframe::evaluator
