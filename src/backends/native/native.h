// The native backend: a graph's element-wise operations, reductions and views as compiled kernels, all else as calls.
#pragma once

#include <memory>

#include "backends/executable.h"

namespace evalframe::native {

// `graph` must outlive the executable. Throws std::runtime_error with the reason if it can't be made.
std::unique_ptr<backends::Executable> make_executable(const graph::Graph& graph, backends::ExitAt exit_at);

}  // namespace evalframe::native
