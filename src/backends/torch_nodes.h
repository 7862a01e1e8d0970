// What torch's backends may be given of a graph, and what may not be done twice.
#pragma once

#include "backends/effects.h"
#include "graph/graph.h"

namespace evalframe::backends {

// By node. kPure: one of torch's operations, to be handed over, in order; kDerived: a container that stands in the arguments of
// such, or a number that follows from sizes; kHeld: a check of such numbers; kApart: what sees no tensor, and no operation sees; kEffect: all else, which
// is run by the recorded calls between them.
std::vector<Effect> torch_effects_of(const graph::Graph& graph);
// Whether the node looks into a cache of functools.lru_cache whose keys are data: nobody sees from which frame.
bool runs_no_code(const graph::Graph& graph, const graph::Node& node);
// Whether transformations of torch.func begin or end between these nodes.
bool transforms(const graph::Graph& graph, int32_t begin, int32_t end);
// ... or a level of forward mode.
bool enters_dual_level(const graph::Graph& graph, int32_t begin, int32_t end);
// Whether it is a graph for tensors of several sizes.
bool varies(const graph::Graph& graph);
// Whether it writes into a tensor that is there already, or draws random numbers.
bool acts_on_tensors(const graph::Graph& graph, const graph::Node& node);
// Whether that is all: no tensor that is there already is another one behind it.
bool only_draws(const graph::Graph& graph, const graph::Node& node);
// Whether it writes into a tensor that an operator has made from node `begin` on, and that nobody else has: doing both again does no harm.
bool writes_into_new(const graph::Graph& graph, const graph::Node& node, int32_t begin);
// Whether one of its frames handles an exception that the node raises, by more than the end of a `with` of torch's.
bool is_handled(const graph::Graph& graph, const graph::Node& node);

}  // namespace evalframe::backends
