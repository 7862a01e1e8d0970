// The native backend: a graph's element-wise operations, reductions and views as compiled kernels, all else as calls.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/executable.h"

namespace evalframe::native {

// `graph` must outlive the executable. exact: elementary functions are called as they are, so that every bit is NumPy's.
// Throws std::runtime_error with the reason if it can't be made.
std::unique_ptr<backends::Executable> make_executable(const graph::Graph& graph, backends::ExitAt exit_at, backends::Wishes wishes = {});

// How often kernels that weren't worth compiling yet have been left to calls, by all executables: what was served so tells nothing of later runs.
uint64_t runs_that_waited();

}  // namespace evalframe::native
