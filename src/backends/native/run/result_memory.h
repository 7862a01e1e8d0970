// New arrays for results. Memory of large ones comes back here when NumPy frees it, and stays for the next: the page faults of new
// memory take longer than most kernels.
#pragma once

#include <cstdint>

#include "core/ref.h"
#include "graph/graph.h"

namespace evalframe::native {

// An array that owns its data, not initialised. strides: in bytes, of an order without gaps; null for C order. Null, with an
// exception, where there is no memory.
Ref new_result(graph::DType dtype, int rank, const int64_t* sizes, const int64_t* strides);

}  // namespace evalframe::native
