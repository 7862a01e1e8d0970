// Elementary functions as branch-free IR that LLVM's loop vectoriser widens; at most 2 ulp, NumPy's flags.
#pragma once

#include "backends/native/emitter.h"

namespace evalframe::native::math {

// All take and return double; conditions that the arithmetic itself doesn't raise are reported to the emitter.
Term exp(const Term& x);
Term log(const Term& x);
// A call of the C library's function, for what has no form of its own.
Term library(const char* function, const Term& x);
Term library(const char* function, const Term& x, const Term& y);

}  // namespace evalframe::native::math
