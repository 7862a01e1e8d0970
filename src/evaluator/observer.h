// Who watches frames of a thread run in our evaluator, instruction by instruction. The evaluator knows no more of them than this.
#pragma once

#include <span>
#include <string>

#include "evaluator/activation.h"

namespace evalframe::evaluator {

class Observer {
 public:
  virtual ~Observer() = default;
  // A frame begins, or a generator's goes on: before anything of it runs. `throwing`: with the exception that is set.
  virtual void begins(const Activation& activation, bool throwing) = 0;
  // The next instruction is about to run. `caught`: the last one raised, and this is its handler.
  virtual void steps(const Activation& activation, bool caught) = 0;
  // It has returned, yielded, raised (the exception is set) or is handed over to CPython.
  virtual void ends(const Activation& activation, Event event, PyObject* result) = 0;
  // A call that what was captured of its function runs, not instruction by instruction; `slots` are the first of a frame of the code, the
  // others are empty; `by` says what runs it.
  virtual void begins_captured(const bytecode::Code& code, std::span<PyObject* const> slots, const std::string& by) = 0;
  // It has come to its end; result null: it raised, and the exception is set.
  virtual void ends_captured(PyObject* result) = 0;
};

// Of this thread, or null. Looked at where a frame is begun by other than our own loop, and while there is one in each step.
inline constinit thread_local Observer* observer = nullptr;

}  // namespace evalframe::evaluator
