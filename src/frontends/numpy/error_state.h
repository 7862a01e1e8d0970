// What NumPy does about floating-point conditions at present: numpy.errstate.
#pragma once

#include "core/ref.h"

namespace evalframe::numpy {

// Conditions about which something is done, as NPY_FPE_* bits (1 divide by zero, 2 overflow, 4 underflow, 8 invalid). Runs no Python code.
int reported_conditions();
// Whether a function or log of the program's is told of some.
bool tells_program();
// Whether it will be, while the numpy.errstate is entered.
bool will_tell_program(PyObject* error_state);

// A state of numpy.errstate's in which these conditions raise FloatingPointError and the others are ignored. Null with an exception set.
Ref raising_state(int conditions);

// NumPy is in that state while it lives.
class InErrorState {
 public:
  explicit InErrorState(Borrowed state);
  ~InErrorState();
  InErrorState(const InErrorState&) = delete;
  InErrorState& operator=(const InErrorState&) = delete;
  // False with an exception set.
  bool is_entered() const { return static_cast<bool>(token_); }

 private:
  Ref variable_, token_;
};

}  // namespace evalframe::numpy
