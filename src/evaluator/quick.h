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
  PyObject** base;
  PyObject* const* constants;
  PyObject* const* names;
  cpython::Frame* frame;
  const Instruction* instructions;
  bytecode::Note* notes;
  PyThreadState* const thread;
  const cpython::BreakerCell breaker;
  Activation& activation;

  EVALFRAME_INLINE explicit Registers(Activation& a) : thread(a.thread_), breaker(a.breaker_), activation(a) { take_up(); }
  // Another frame is up.
  EVALFRAME_INLINE void take_up() {
    const Activation& a = activation;
    base = a.base_;
    constants = reinterpret_cast<PyTupleObject*>(Handlers::code(a)->co_consts)->ob_item;
    names = reinterpret_cast<PyTupleObject*>(Handlers::code(a)->co_names)->ob_item;
    frame = a.frame_;
    instructions = a.code_->instructions.data();
    notes = a.notes_;
    take();
  }
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
    for (int index = 0; index < count; ++index) Py_XDECREF(top[index]);
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
// What may leave the frame for its caller's, and so puts the registers back first; what may leave it for another one's at all.
constexpr bool returns(bytecode::Op op) {
  using enum bytecode::Op;
  return op == RETURN_VALUE || op == RETURN_CONST || op == YIELD_VALUE;
}
constexpr bool switches(bytecode::Op op) {
  using enum bytecode::Op;
  return returns(op) || op == CALL || op == CALL_KW || op == FOR_ITER || op == SEND;
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
