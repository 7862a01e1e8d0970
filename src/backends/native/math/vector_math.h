// Calls of elementary functions in generated code, with what LLVM's loop vectoriser must know to call their vector forms.
#pragma once

#include "backends/native/code/element.h"

namespace evalframe::native::math {

// One function for each row of vector_math.def, on floats or doubles. At most 2 ulp off; raises the flags that NumPy reports.
#define EVALFRAME_MATH1(name, c_name) Term name(const Term& x);
#define EVALFRAME_MATH2(name, c_name) Term name(const Term& x, const Term& y);
#include "backends/native/math/vector_math.def"

// A function of one argument for one number: the C library's, at most 2 ulp off, too, and three times as quick as one lane of a vector. Turns of a loop that LLVM
// puts into vectors take the vector form. Throws std::runtime_error where there is no such row.
Term of_one(ScalarOp op, const Term& x);

}  // namespace evalframe::native::math
