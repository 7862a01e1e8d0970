// Runs one node by doing what the program did: the call, operator or subscript that its form names.
#pragma once

#include "graph/graph.h"

namespace evalframe::backends {

// operands: borrowed, one for each of the node's. Null with an exception set if it raised. kCheck and kCheckMeta give True or False.
Ref call_node(const graph::Graph& graph, const graph::Node& node, PyObject* const* operands);

// Whether a kCheck or kCheckMeta node lets the run go on; leaves no exception.
bool check_holds(const graph::Graph& graph, const graph::Node& node, PyObject* const* operands);

// Whether an object is of the kind, dtype and rank that were recorded, so that what was learnt from them still holds.
bool matches(const graph::Meta& meta, PyObject* object);

}  // namespace evalframe::backends
