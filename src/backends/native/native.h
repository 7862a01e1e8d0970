// The native backend: a graph's element-wise operations, reductions and views as compiled kernels, all else as calls.
#pragma once

#include <memory>

#include "backends/executable.h"

namespace evalframe::native {

// `graph` must outlive the executable. exact: elementary functions are called as they are, so that every bit is NumPy's.
// Throws std::runtime_error with the reason if it can't be made.
std::unique_ptr<backends::Executable> make_executable(const graph::Graph& graph, backends::ExitAt exit_at, bool exact = false);

}  // namespace evalframe::native
