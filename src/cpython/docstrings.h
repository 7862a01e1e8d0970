// How code objects say that they have a docstring.
#pragma once

#include <Python.h>

namespace evalframe::cpython {

// The flag of code objects whose first constant is a docstring (3.14); 0: the first constant of any function is its docstring or None.
constexpr int kDocstringFlag = PY_VERSION_HEX >= 0x030E0000 ? 0x4000000 : 0;

}  // namespace evalframe::cpython
