// Which subscripts of a graph name the same elements.
#pragma once

#include "graph/graph.h"

namespace evalframe::graph {

// Whether both are the same node, or are made of the same constants and nodes.
bool are_same(const Graph& graph, Operand one, Operand other);
// Whether both subscripts name the same element, or part, by the same array and indices.
bool are_same_place(const Graph& graph, const Node& one, const Node& other);

// x[i] += y: what the node stores is the part itself, which was changed in place.
bool stores_itself(const Graph& graph, const Node& node);

}  // namespace evalframe::graph
