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

bool preserves_random_state(const Graph& graph, const Node& begin) {
  const graph::Operand preserves = *graph.operands_of(begin);
  return preserves.space == graph::Operand::Space::kConstant && graph.constants[preserves.index].get() == Py_True;
}

// Whether the node may be run once more as part of a module that node `begin` begins. What is written into must be the function's own: a module's
// inputs are kept, and looked at for changes. Numbers that are to be others then are so in torch's own way alone.
bool is_part_of_module(const Graph& graph, const Node& node, backends::Effect effect, int32_t begin) {
  if (effect == backends::Effect::kEffect || effect == backends::Effect::kApart || effect == backends::Effect::kCheck) return false;
  if (backends::only_draws(graph, node)) return preserves_random_state(graph, graph.nodes[static_cast<size_t>(begin)]) || !backends::acts_on_tensors(graph, node);
  return !backends::acts_on_tensors(graph, node) || backends::writes_into_new(graph, node, begin);
}

}  // namespace

bool drop_for_checkpoints(const recorder::Recording& recording) {
  const Graph& graph = recording.graph;
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return step_of(graph, node) != 0; })) return false;
  const std::vector<backends::Effect> effects = backends::torch_effects_of(graph);
  struct Open {
    size_t number;
    int32_t begin;
    bool whole;
  };
  std::vector<Open> open;
  size_t count = 0;
  bool drops = false;
  const auto refuse = [&](const Open& one) { drops = true, torch::follow_no_more(one.number); };
  for (size_t i = 0; i < graph.nodes.size(); i++) {
    const int step = step_of(graph, graph.nodes[i]);
    if (step > 0) open.push_back({count++, static_cast<int32_t>(i), true});
    for (Open& one : open) one.whole = one.whole && (step != 0 || is_part_of_module(graph, graph.nodes[i], effects[i], one.begin));
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
