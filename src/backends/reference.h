// The reference backend: runs a graph by making the very calls that were recorded, in their order.
// Slow as NumPy itself, exact by construction; the yardstick for every other backend and their way out.
#pragma once

#include "backends/executable.h"

namespace evalframe::backends {

// `graph` must outlive the executable. `exact` is nothing to it: all bits are NumPy's.
std::unique_ptr<Executable> make_reference(const graph::Graph& graph, ExitAt exit_at, bool exact = true);

}  // namespace evalframe::backends
