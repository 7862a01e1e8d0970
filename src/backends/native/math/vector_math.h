// Calls of elementary functions in generated code, with what LLVM's loop vectoriser must know to call their vector forms.
#pragma once

#include <string>
#include <vector>

#include "backends/native/code/element.h"

namespace evalframe::native::math {

// The attribute of a call, or declaration, of a scalar function whose vector forms are those of `operation` (and "x", and how many numbers they take), which are declared. The first
// argument's type is the result's. Empty where there are no vectors.
std::string vector_forms(Emitter& emitter, const std::string& operation, const std::string& scalar, const std::vector<std::string>& arguments);

// One function for each row of vector_math.def, on floats or doubles. At most 2 ulp off; raises the flags that NumPy reports.
#define EVALFRAME_MATH1(name, c_name) Term name(const Term& x);
#define EVALFRAME_MATH2(name, c_name) Term name(const Term& x, const Term& y);
#include "backends/native/math/vector_math.def"

// A function of one argument for one number: the C library's, at most 2 ulp off, too, and three times as quick as one lane of a vector. Turns of a loop that LLVM
// puts into vectors take the vector form. Throws std::runtime_error where there is no such row.
Term of_one(ScalarOp op, const Term& x);

}  // namespace evalframe::native::math
