// New arrays for results. Memory of large ones comes back here when NumPy frees it, and stays for the next: the page faults of new
// memory take longer than most kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ref.h"
#include "graph/graph.h"

namespace evalframe::native {

// An array that owns its data, not initialised. strides: in bytes, of an order without gaps; null for C order. Null, with an
// exception, where there is no memory.
Ref new_result(graph::DType dtype, int rank, const int64_t* sizes, const int64_t* strides);

// Bytes of memory that isn't used that are kept at most for what comes next: 256 MiB, or a sixteenth of the machine's.
size_t most_kept_memory();

// From here on the C library, too, keeps memory that is freed for what comes next, up to 64 MiB: a NumPy call that isn't part of a
// kernel then costs what it would in a program that runs longer. Nothing where the environment says how it is to be, or the library
// isn't glibc.
void keep_freed_memory();

}  // namespace evalframe::native
