// The usual case of an instruction, done with the evaluator's state in registers; all else is its handler's.
#pragma once

#include "cpython/attributes.h"
#include "evaluator/handlers.h"

namespace evalframe::evaluator {

// What Activation::run keeps in variables of its own. No pointer to it is ever taken, so the compiler has it in registers.
struct Registers {
  PyObject** top;           // of the stack: the first free entry
  const Instruction* next;  // behind the one that runs
  PyObject** const base;
  PyObject* const* const constants;
  PyObject* const* const names;
  cpython::Frame* const frame;
  PyThreadState* const thread;
  const cpython::BreakerCell breaker;
  const Instruction* const instructions;
  bytecode::Note* const notes;
  Activation& activation;

  explicit Registers(Activation& a)
      : top(a.stack_pointer_),
        next(a.code_->instructions.data() + a.next_),
        base(a.base_),
        constants(reinterpret_cast<PyTupleObject*>(Handlers::code(a)->co_consts)->ob_item),
        names(reinterpret_cast<PyTupleObject*>(Handlers::code(a)->co_names)->ob_item),
        frame(a.frame_),
        thread(a.thread_),
        breaker(a.breaker_),
        instructions(a.code_->instructions.data()),
        notes(a.notes_),
        activation(a) {}
  // Back to where handlers find it, `now` being run; and taken from there.
  void put_back(const Instruction* now) {
    activation.stack_pointer_ = top;
    activation.current_ = activation.handled_at_ = static_cast<int32_t>(now - instructions);
    activation.next_ = static_cast<int32_t>(next - instructions);
  }
  void take() {
    top = activation.stack_pointer_;
    next = instructions + activation.next_;
  }

  void push(PyObject* owned) { *top++ = owned; }
  PyObject* pop() { return *--top; }
  PyObject*& peek(int distance) { return top[-distance]; }
  void drop(int count) {
    for (; count > 0; --count) Py_XDECREF(*--top);
  }
  // The entries are consumed, the result takes their place.
  void replace(int count, PyObject* result) {
    drop(count);
    push(result);
  }
  void jump(const Instruction& i) { next = instructions + i.target; }
  PyObject* name(const Instruction& i) const { return names[i.arg]; }
  bytecode::Note& note(const Instruction& i) const {
    // Notes and instructions are of one size: no division.
    static_assert(sizeof(bytecode::Note) == sizeof(Instruction));
    const auto distance = reinterpret_cast<const char*>(&i) - reinterpret_cast<const char*>(instructions);
    return *reinterpret_cast<bytecode::Note*>(reinterpret_cast<char*>(notes) + distance);
  }
};

// kHandOver: nothing was done, the handler is to do it. Otherwise as handlers.
template <bytecode::Op op>
[[gnu::always_inline]] inline Outcome quick(Registers&, const Instruction&) {
  return Outcome::kHandOver;
}
// The handler is about to run: notes down for the next time what `quick` could have used.
template <bytecode::Op op>
[[gnu::always_inline]] inline void learn(const Registers&, const Instruction&) {}

#define EVALFRAME_QUICK(name) \
  template <>                 \
  [[gnu::always_inline]] inline Outcome quick<bytecode::Op::name>([[maybe_unused]] Registers& r, [[maybe_unused]] const Instruction& i)
#define EVALFRAME_LEARN(name) \
  template <>                 \
  [[gnu::always_inline]] inline void learn<bytecode::Op::name>(const Registers& r, const Instruction& i)

}  // namespace evalframe::evaluator
