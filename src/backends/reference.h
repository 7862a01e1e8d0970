// The reference backend: runs a graph by making the very calls that were recorded, in their order.
// Slow as NumPy itself, exact by construction; the yardstick for every other backend and their way out.
#pragma once

#include "backends/executable.h"

namespace evalframe::backends {

// Runs one node: a new reference, or null with an exception. operands: borrowed objects in the node's order.
// Not for kCheck and kCheckMeta, which `check_holds` answers.
PyObject* run_node(const graph::Graph& graph, const graph::Node& node, PyObject* const* operands);
// Whether a kCheck or kCheckMeta node lets the run go on.
bool check_holds(const graph::Graph& graph, const graph::Node& node, PyObject* const* operands);

// `graph` and `exit_at` must outlive the executable.
std::unique_ptr<Executable> make_reference(const graph::Graph& graph, ExitAt exit_at);

}  // namespace evalframe::backends
