// The reference backend: runs a graph by making the very calls that were recorded, in their order.
// Slow as NumPy itself, exact by construction; the yardstick for every other backend and their way out.
#pragma once

#include "backends/executable.h"

namespace evalframe::backends {

// `graph` must outlive the executable. Wishes are nothing to it: all bits are NumPy's, and nothing is compiled.
std::unique_ptr<Executable> make_reference(const graph::Graph& graph, ExitAt exit_at, Wishes wishes = {});

}  // namespace evalframe::backends
