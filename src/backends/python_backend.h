// A backend that is a Python callable: (graph, example inputs) -> function of the inputs that returns the outputs.
//
// It is given the stretches of a graph that have no effects. Such a stretch may be run twice, so that whatever can't be
// served by the function (an exit in the middle, an exception) is done again by the calls that were recorded.
#pragma once

#include "backends/executable.h"

namespace evalframe::backends {

// examples: an object for each graph input. `graph` and `exit_at` must outlive the executable. Null with a BackendError.
std::unique_ptr<Executable> make_python(const graph::Graph& graph, ExitAt exit_at, Borrowed backend, const std::string& name,
                                        const std::vector<Ref>& examples);

// The same for one that takes torch's graphs, whole: effects are in them, in order. What it gives None for is run by the recorded calls.
std::unique_ptr<Executable> make_torch(const graph::Graph& graph, ExitAt exit_at, Borrowed backend, const std::vector<Ref>& examples,
                                       bool records_gradients);

// Of what torch's higher-order operators call: recorder::OfBodies.
bool may_be_in_body(const graph::Graph& graph, const graph::Node& node, int32_t begin);
Ref tell_body(const graph::Graph& graph, const std::vector<int32_t>& nodes, const std::vector<graph::Operand>& inputs, const std::vector<int32_t>& outputs);

}  // namespace evalframe::backends
