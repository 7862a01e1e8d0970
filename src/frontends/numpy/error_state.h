// What NumPy does about floating-point conditions at present: numpy.errstate.
#pragma once

namespace evalframe::numpy {

// Conditions about which something is done, as NPY_FPE_* bits (1 divide by zero, 2 overflow, 4 underflow, 8 invalid). Runs no Python code.
int reported_conditions();

}  // namespace evalframe::numpy
