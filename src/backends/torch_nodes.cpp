#include "backends/torch_nodes.h"

#include <algorithm>

#include "bytecode/operators.h"
#include "core/object_text.h"
#include "cpython/codec.h"
#include "frontends/torch/calls.h"

namespace evalframe::backends {

using graph::Form, graph::Graph, graph::Kind, graph::Node, graph::Operand;

namespace {

bool is_operation(const Graph& graph, const Node& node) {
  if (node.form == Form::kCall) {
    PyObject* const callable = graph.constants[node.callable].get();
    const torch::CallKind kind = torch::call_kind(callable);
    if (kind == torch::CallKind::kOperation || kind == torch::CallKind::kState) return true;
    return torch::is_builtin_operation(callable) && (node.meta.kind == Kind::kTensor || node.meta.kind == Kind::kObject);
  }
  if (node.meta.kind == Kind::kTensor) return true;
  const Operand* const operands = graph.operands_of(node);
  const auto is_tensor = [&](Operand operand) {
    const graph::Meta* const meta = graph.meta_of(operand);
    return meta && meta->kind == Kind::kTensor;
  };
  if (std::any_of(operands, operands + node.count, is_tensor)) return true;
  // Tuples in what an operation has given.
  const bool is_item = node.form == Form::kGetItem && operands[0].space == Operand::Space::kNode;
  return is_item && is_operation(graph, graph.nodes[operands[0].index]);
}

}  // namespace

Effect torch_effect_of(const Graph& graph, const Node& node) {
  switch (node.form) {
    case Form::kTuple: case Form::kList: case Form::kSlice: return Effect::kDerived;
    case Form::kCheck: case Form::kCheckMeta: case Form::kTruth: case Form::kIterator: return Effect::kEffect;
    case Form::kCall: case Form::kBinary: case Form::kUnary: case Form::kCompare: case Form::kGetItem: case Form::kSetItem: case Form::kGetAttr: break;
  }
  return is_operation(graph, node) ? Effect::kPure : Effect::kEffect;
}

bool acts_on_tensors(const Graph& graph, const Node& node) {
  if (node.form == Form::kSetItem) return true;
  if (node.form == Form::kBinary) return node.code >= bytecode::kBinaryOps;
  if (node.form != Form::kCall) return false;
  for (uint16_t i = 0; i < node.keywords; i++) {
    const std::string_view name = utf8(PyTuple_GET_ITEM(graph.constants[node.keyword_names].get(), i));
    if (name == "out" || name == "inplace" || name == "generator") return true;
  }
  PyObject* const callable = graph.constants[node.callable].get();
  if (torch::is_builtin_operation(callable)) return std::string_view(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name).starts_with("i");
  return torch::has_effect(callable) && !torch::changes_gradient_mode(callable);
}

bool is_handled(const Graph& graph, const Node& node) {
  int32_t frame = node.origin.frame, instruction = node.origin.instruction;
  while (frame >= 0) {
    const graph::Frame& of = graph.frames[static_cast<size_t>(frame)];
    const bytecode::Code* const code = cpython::decoded(of.code);
    if (!code || (instruction >= 0 && code->handler(instruction))) return true;
    instruction = of.call_instruction;
    frame = of.parent;
  }
  return false;
}

}  // namespace evalframe::backends
