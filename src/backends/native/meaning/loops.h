// Which of a ufunc's loops NumPy takes for arguments of some types, by its own rules (NEP 50): the ufunc itself is asked.
#pragma once

#include "backends/native/meaning/meaning.h"

namespace evalframe::native {

// Types of the inputs, which are all the same, and of the result; kNone where there is no such loop.
struct Loop {
  DType in = DType::kNone;
  DType out = DType::kNone;
};

// metas: of `count` arguments. dtype: the argument of that name (kNone: none). casting: likewise, borrowed (null: none).
Loop loop_of(PyObject* ufunc, const Meta* const* metas, int count, DType dtype = DType::kNone, PyObject* casting = nullptr);

// float64 from np.float64, "f8", float ... as NumPy reads a dtype argument; kNone for what kernels don't know.
DType dtype_argument(PyObject* object);

}  // namespace evalframe::native
