// How NumPy rounds products of complex numbers, which depends on the processor and, in some types, on the layout: NumPy is asked.
#pragma once

#include "graph/graph.h"

namespace evalframe::native {

enum class Products {
  kSeparate,  // a.real * b.real - a.imag * b.imag, each of the three operations rounded
  kFused,     // the first multiplication is not rounded (an FMA)
  kMixed,     // fused in most loops
};

// dtype: complex64 or complex128.
Products products_of(graph::DType dtype);

}  // namespace evalframe::native
