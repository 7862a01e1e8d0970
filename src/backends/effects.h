// What running a node does besides making its result: whether it may be run twice, or by other means.
#pragma once

#include "graph/graph.h"

namespace evalframe::backends {

enum class Effect : uint8_t {
  kPure,     // makes a new array or number from its operands, and does nothing else
  kDerived,  // a view, a container or a fact of its operands: cheap, and its identity or memory is theirs
  kCheck,    // may leave the graph
  kHeld,     // may leave the graph, but not where what was compiled is run, as that asks for it first
  kApart,    // asks for something, or has an effect, that only others of its kind see: it may be done behind what is computed; may leave the graph
  kEffect,   // writes into something, or nothing is known about it
};

Effect effect_of(const graph::Graph& graph, const graph::Node& node);

}  // namespace evalframe::backends
