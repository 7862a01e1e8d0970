// Elementary functions as branch-free IR that LLVM's loop vectoriser widens; at most 2 ulp, NumPy's flags.
#pragma once

#include "backends/native/emitter.h"

namespace evalframe::native::math {

// All take and return double; conditions that the arithmetic itself doesn't raise are reported to the emitter.
Term cbrt(const Term& x);
Term exp(const Term& x);
Term exp2(const Term& x);
Term expm1(const Term& x);
Term log(const Term& x);
Term log2(const Term& x);
Term log10(const Term& x);
Term log1p(const Term& x);
Term sin(const Term& x);
Term cos(const Term& x);
Term tan(const Term& x);
Term arcsin(const Term& x);
Term arccos(const Term& x);
Term arctan(const Term& x);
Term sinh(const Term& x);
Term cosh(const Term& x);
Term tanh(const Term& x);
Term erf(const Term& x);
Term power(const Term& x, const Term& y);
Term arctan2(const Term& y, const Term& x);
Term hypot(const Term& x, const Term& y);

}  // namespace evalframe::native::math
