// Tells who observes the thread of calls that captured code runs: one thing to them, as they aren't run instruction by instruction.
#pragma once

#include <span>

#include "cpython/codec.h"
#include "evaluator/observer.h"
#include "runtime/measure.h"

namespace evalframe::runtime {

// The observer to be told; null: there is none, which costs a call that is served a look at what is measured anyway.
inline evaluator::Observer* observer() { return Measure::what & Measure::kSteps ? evaluator::observer : nullptr; }

// What `run` gives. `by` gives the text that says what runs it; the slots are the first of a frame of the code object.
Ref watched(PyObject* code, std::span<PyObject* const> slots, const auto& by, const auto& run) {
  const bytecode::Code* const decoded = observer() ? cpython::decoded(code) : nullptr;
  if (!decoded) return PyErr_Occurred() ? (PyErr_Clear(), run()) : run();
  observer()->begins_captured(*decoded, slots, by());
  Ref result = run();
  if (observer()) observer()->ends_captured(result.get());
  return result;
}

}  // namespace evalframe::runtime
