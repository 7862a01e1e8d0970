#include "recorder/bodies.h"

#include <algorithm>
#include <utility>

#include "frontends/torch/bodies.h"

namespace evalframe::recorder {

using graph::Form, graph::Graph, graph::Node, graph::Operand;

namespace {

PyObject* callable_of(const Graph& graph, const Node& node) { return node.form == Form::kCall ? graph.constants[static_cast<size_t>(node.callable)].get() : nullptr; }

bool is_check(const Node& node) { return node.form == Form::kCheck || node.form == Form::kCheckMeta; }

}  // namespace

const Bodies::Body* Bodies::open() const {
  const auto found = std::find_if(all_.rbegin(), all_.rend(), [](const Body& body) { return body.end < 0; });
  return found == all_.rend() ? nullptr : &*found;
}

bool Bodies::end(int32_t node, std::vector<int32_t> results) {
  Body* const body = const_cast<Body*>(open());
  if (!body || std::any_of(results.begin(), results.end(), [&](int32_t result) { return result < body->begin.nodes; })) return false;
  body->end = node;
  body->results = std::move(results);
  return true;
}

const Bodies::Outer* Bodies::outer(Operand operand) const {
  const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const Outer& one) { return one.operand == operand; });
  return found == seen_.end() ? nullptr : &*found;
}

void Bodies::see(Operand operand, uint32_t label, PyObject* object) {
  const bool is_value = operand.space == Operand::Space::kInput || operand.space == Operand::Space::kNode;
  if (is_value && !outer(operand)) seen_.push_back({operand, label, Ref::borrow(object)});
}

bool Bodies::is_taken(int32_t node) const {
  return std::any_of(taken_.begin(), taken_.end(), [node](const auto& range) { return node >= range.first && node < range.second; });
}

// Those that its module has. None: it has checks, behind which it is left.
std::optional<std::vector<int32_t>> Bodies::nodes_of(const Body& body, const Graph& graph) const {
  std::vector<int32_t> nodes;
  for (int32_t node = body.begin.nodes; node < body.end; node++) {
    const Node& of = graph.nodes[static_cast<size_t>(node)];
    if (is_check(of)) return std::nullopt;
    if (!is_taken(node) && callable_of(graph, of) != torch::body_input()) nodes.push_back(node);
  }
  return nodes;
}

std::vector<int32_t> Bodies::inputs_of(const Body& body, const Graph& graph) const {
  std::vector<int32_t> inputs;
  for (int32_t node = body.begin.nodes; node < body.end; node++) {
    if (!is_taken(node) && callable_of(graph, graph.nodes[static_cast<size_t>(node)]) == torch::body_input()) inputs.push_back(node);
  }
  return inputs;
}

// What the function takes from around it is one of its arguments, where it is the same.
void Bodies::take_by_inputs(const Body& body, const std::vector<int32_t>& nodes, Graph& graph) const {
  for (const int32_t input : inputs_of(body, graph)) {
    const Operand given = *graph.operands_of(graph.nodes[static_cast<size_t>(input)]);
    for (const int32_t node : nodes) {
      const Node& own = graph.nodes[static_cast<size_t>(node)];
      const auto first = graph.operands.begin() + own.operands;
      std::replace(first, first + own.count, given, Operand::node(input));
    }
  }
}

std::optional<Bodies::Taken> Bodies::take(size_t count, Graph& graph, const OfBodies& backends) {
  if (count == 0 || count > all_.size()) return std::nullopt;
  const auto first = all_.end() - static_cast<std::ptrdiff_t>(count);
  if (std::any_of(first, all_.end(), [](const Body& body) { return body.end < 0; })) return std::nullopt;
  Taken taken;
  std::vector<Operand> outer_operands;
  std::vector<std::vector<int32_t>> nodes;
  for (auto body = first; body != all_.end(); ++body) {
    std::optional<std::vector<int32_t>> of = nodes_of(*body, graph);
    if (!of) return std::nullopt;
    take_by_inputs(*body, *of, graph);
    for (const int32_t node : *of) {
      const Node& own = graph.nodes[static_cast<size_t>(node)];
      for (const Operand* operand = graph.operands_of(own); operand != graph.operands_of(own) + own.count; operand++) {
        const bool inside = operand->space == Operand::Space::kNode && operand->index >= body->begin.nodes;
        if (inside || operand->space == Operand::Space::kConstant || std::ranges::find(outer_operands, *operand) != outer_operands.end()) continue;
        const Outer* const around = outer(*operand);
        const graph::Meta* const meta = graph.meta_of(*operand);
        const bool in_another = operand->space == Operand::Space::kNode && operand->index >= first->begin.nodes;
        if (!around || in_another || !meta || meta->kind != graph::Kind::kTensor) return std::nullopt;
        outer_operands.push_back(*operand);
        taken.outer.push_back(around);
      }
    }
    nodes.push_back(*std::move(of));
  }
  for (size_t i = 0; i < count; i++) {
    const Body& body = first[static_cast<std::ptrdiff_t>(i)];
    std::vector<Operand> inputs;
    for (const int32_t input : inputs_of(body, graph)) inputs.push_back(Operand::node(input));
    inputs.insert(inputs.end(), outer_operands.begin(), outer_operands.end());
    for (const int32_t result : body.results) {
      if (!std::ranges::binary_search(nodes[i], result)) return std::nullopt;  // an input itself
    }
    taken.told.push_back(backends.told(graph, nodes[i], inputs, body.results));
    if (!taken.told.back()) return std::nullopt;
  }
  for (auto body = first; body != all_.end(); ++body) {
    for (int32_t node = body->begin.nodes; node < body->end; node++) {
      Node& own = graph.nodes[static_cast<size_t>(node)];
      own = {.form = Form::kTuple, .operands = own.operands, .origin = own.origin};
    }
    taken_.emplace_back(body->begin.nodes, body->end);
  }
  all_.erase(first, all_.end());
  return taken;
}

void Bodies::give_up(const std::string& why) const {
  for (const Body& body : all_) torch::follow_body_no_more(body.function.get(), why);
}

int Bodies::traverse(visitproc visit, void* arg) const {
  for (const Body& body : all_) Py_VISIT(body.function.get());
  for (const Outer& outer : seen_) Py_VISIT(outer.object.get());
  return 0;
}

}  // namespace evalframe::recorder
