// The usual case of an instruction, done with the evaluator's state in registers; all else is its handler's.
#pragma once

#include "cpython/attributes.h"
#include "evaluator/handlers.h"

#define EVALFRAME_INLINE [[gnu::always_inline]]

namespace evalframe::evaluator {

// What Activation::run keeps in variables of its own. No function that isn't inlined is given it, so the compiler has it in
// registers.
struct Registers {
  PyObject** top;           // of the stack: the first free entry
  const Instruction* next;  // behind the one that runs
  cpython::Frame* frame;
  PyCodeObject* code;
  PyObject* const* constants;
  PyObject* const* names;
  const Instruction* instructions;
  bytecode::Note* notes;
  PyThreadState* const thread;
  const cpython::BreakerCell breaker;
  const unsigned char* trace_cells;
  Activation& activation;
  // What an instruction that switches leaves to run(): the frame to go on in, or the value to take back to the caller's.
  cpython::EnteredFrame callee;
  PyObject* result;

  EVALFRAME_INLINE explicit Registers(Activation& a) : thread(a.thread_), breaker(a.breaker_), activation(a) { take_up(); }
  // The frame that the activation has up now.
  EVALFRAME_INLINE void take_up() {
    take_up_code();
    trace_cells = activation.trace_cells_;
    take();
  }
  EVALFRAME_INLINE void take_up_code() {
    const bytecode::Code& decoded = *activation.code_;
    frame = activation.frame_;
    code = decoded.code.as<PyCodeObject>();
    constants = reinterpret_cast<PyTupleObject*>(code->co_consts)->ob_item;
    names = reinterpret_cast<PyTupleObject*>(code->co_names)->ob_item;
    instructions = decoded.instructions.data();
    notes = decoded.notes.get();
  }
  // Into `callee`, which begins or goes on.
  EVALFRAME_INLINE void enter() {
    activation.remember_caller(next, top);
    activation.frame_ = callee.frame;
    activation.code_ = callee.code;
    take_up_code();
    top = base() + std::exchange(cpython::depth_of(frame), -1);
    next = instructions + callee.code->index_of_unit[static_cast<size_t>(running().unit() + layout::kPointerToNext)];
  }
  // Back to the caller, behind its call.
  EVALFRAME_INLINE void go_on_in_caller(cpython::Frame* caller) {
    activation.go_on_in_caller(caller);
    take_up_code();
    take();
  }

  EVALFRAME_INLINE PyObject** base() const { return cpython::slot_base(frame); }
  EVALFRAME_INLINE cpython::RunningCell running() const { return cpython::running_cell(frame, code); }
  EVALFRAME_INLINE bool may_be_traced() const { return cpython::may_be_traced(trace_cells, code); }
  // Back to where handlers find it, `now` being run; and taken from there.
  EVALFRAME_INLINE void put_back(const Instruction* now) {
    activation.stack_pointer_ = top;
    activation.current_ = activation.handled_at_ = now;
    activation.next_ = next;
  }
  EVALFRAME_INLINE void take() {
    top = activation.stack_pointer_;
    next = activation.next_;
  }

  EVALFRAME_INLINE void push(PyObject* owned) { *top++ = owned; }
  EVALFRAME_INLINE PyObject* pop() { return *--top; }
  EVALFRAME_INLINE PyObject*& peek(int distance) { return top[-distance]; }
  EVALFRAME_INLINE void drop(int count) {
    top -= count;
    for (int index = 0; index < count; ++index) cpython::xdecref(top[index]);
  }
  // The entries are consumed, the result takes their place.
  EVALFRAME_INLINE void replace(int count, PyObject* result) {
    drop(count);
    push(result);
  }
  EVALFRAME_INLINE void jump(const Instruction& i) { next = instructions + i.target; }
  EVALFRAME_INLINE PyObject* name(const Instruction& i) const { return names[i.arg]; }
  EVALFRAME_INLINE bytecode::Note& note(const Instruction& i) const {
    // Notes and instructions are of one size: no division.
    static_assert(sizeof(bytecode::Note) == sizeof(Instruction));
    const auto distance = reinterpret_cast<const char*>(&i) - reinterpret_cast<const char*>(instructions);
    return *reinterpret_cast<bytecode::Note*>(reinterpret_cast<char*>(notes) + distance);
  }
};

// kHandOver: nothing was done, the handler is to do it. Otherwise as handlers.
template <bytecode::Op op>
EVALFRAME_INLINE inline Outcome quick(Registers&, const Instruction&) {
  return Outcome::kHandOver;
}
// What is quick without running or dropping anything: where the frame is needn't be known.
constexpr bool is_silent(bytecode::Op op) {
  using enum bytecode::Op;
  constexpr bytecode::Op kSilent[] = {
      NOP, RESUME, PUSH_NULL, COPY, SWAP, LOAD_CONST, LOAD_FAST, LOAD_FAST_CHECK,
      LOAD_CLOSURE, LOAD_DEREF, LOAD_GLOBAL, JUMP_FORWARD, JUMP_BACKWARD, JUMP_BACKWARD_NO_INTERRUPT};
  for (const bytecode::Op silent : kSilent) {
    if (op == silent) return true;
  }
  return false;
}
// What always leaves the frame (kReturned: with r.result), and what may enter another one (kSwitched: r.callee).
constexpr bool returns(bytecode::Op op) { return op == bytecode::Op::RETURN_VALUE || op == bytecode::Op::RETURN_CONST; }
constexpr bool yields(bytecode::Op op) { return op == bytecode::Op::YIELD_VALUE; }
constexpr bool may_enter(bytecode::Op op) {
  using enum bytecode::Op;
  return op == CALL || op == CALL_KW || op == CALL_FUNCTION_EX || op == FOR_ITER || op == SEND;
}
// The handler is about to run: notes down for the next time what `quick` could have used.
template <bytecode::Op op>
EVALFRAME_INLINE inline void learn(const Registers&, const Instruction&) {}

#define EVALFRAME_QUICK(name) \
  template <>                 \
  EVALFRAME_INLINE inline Outcome quick<bytecode::Op::name>([[maybe_unused]] Registers& r, [[maybe_unused]] const Instruction& i)
#define EVALFRAME_LEARN(name) \
  template <>                 \
  EVALFRAME_INLINE inline void learn<bytecode::Op::name>(const Registers& r, const Instruction& i)

}  // namespace evalframe::evaluator
