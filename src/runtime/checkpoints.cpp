#include "runtime/checkpoints.h"

#include <algorithm>
#include <vector>

#include "backends/effects.h"
#include "backends/torch_nodes.h"
#include "cpython/frame.h"
#include "frontends/torch/checkpoints.h"

namespace evalframe::runtime {

using graph::Graph, graph::Node;

namespace {

int step_of(const Graph& graph, const Node& node) {
  return node.form == graph::Form::kCall ? torch::checkpoint_step(graph.constants[node.callable].get()) : 0;
}

// Whether a backend's function may run the node as part of what it was made for.
bool is_part_of_function(const Graph& graph, const Node& node, backends::Effect effect, size_t begin) {
  if (effect == backends::Effect::kEffect || effect == backends::Effect::kApart) return false;
  const bool writes = backends::acts_on_tensors(graph, node) && !backends::only_draws(graph, node) && !backends::writes_into_new(graph, node, static_cast<int32_t>(begin));
  return !(writes && backends::is_handled(graph, node));
}

}  // namespace

bool drop_for_checkpoints(const recorder::Recording& recording) {
  const Graph& graph = recording.graph;
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return step_of(graph, node) != 0; })) return false;
  const std::vector<backends::Effect> effects = backends::torch_effects_of(graph);
  struct Open {
    size_t number, begin;
    bool whole;
  };
  std::vector<Open> open;
  size_t count = 0;
  bool drops = false;
  const auto refuse = [&](const Open& one) { drops = true, torch::follow_no_more(one.number); };
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    const int step = step_of(graph, graph.nodes[i]);
    if (step > 0) open.push_back({count++, i, true});
    if (step == 0 && !open.empty() && !is_part_of_function(graph, graph.nodes[i], effects[i], open.front().begin)) {
      for (Open& one : open) one.whole = false;
    }
    if (step >= 0 || open.empty()) continue;
    if (!open.back().whole) refuse(open.back());
    open.pop_back();
  }
  for (const Open& one : open) refuse(one);
  return drops;
}

size_t checkpoints_within(const Chain& chain, const recorder::Recording& recording) {
  const Graph& graph = recording.graph;
  const auto begin = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return step_of(graph, node) > 0; });
  if (begin == graph.nodes.end()) return 0;
  const Borrowed code = graph.frames[begin->origin.frame].code;
  const auto& frames = chain.frames();
  return static_cast<size_t>(std::count_if(frames.begin(), frames.end(), [&](cpython::Frame* frame) { return cpython::code_of(frame) == code; }));
}

}  // namespace evalframe::runtime
