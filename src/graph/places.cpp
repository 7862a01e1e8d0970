#include "graph/places.h"

#include <algorithm>

#include "bytecode/operators.h"

namespace evalframe::graph {

bool are_same(const Graph& graph, Operand a, Operand b) {
  if (a == b) return true;
  if (a.space == Operand::Space::kConstant && b.space == Operand::Space::kConstant) {
    // Of ints, slices, None and the like.
    const auto constant = [&](Operand of) { return graph.constants[static_cast<size_t>(of.index)].get(); };
    const int equal = PyObject_RichCompareBool(constant(a), constant(b), Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1 && Py_TYPE(constant(a)) == Py_TYPE(constant(b));
  }
  if (a.space != Operand::Space::kNode || b.space != Operand::Space::kNode) return false;
  const Node &one = graph.nodes[static_cast<size_t>(a.index)], &other = graph.nodes[static_cast<size_t>(b.index)];
  if (one.form != other.form || (one.form != Form::kTuple && one.form != Form::kSlice) || one.count != other.count) return false;
  const Operand* const parts = graph.operands_of(one);
  return std::equal(parts, parts + one.count, graph.operands_of(other), [&](Operand x, Operand y) { return are_same(graph, x, y); });
}

bool are_same_place(const Graph& graph, const Node& one, const Node& other) {
  const Operand* const places = graph.operands_of(one);
  return std::equal(places, places + 2, graph.operands_of(other), [&](Operand a, Operand b) { return are_same(graph, a, b); });
}

bool stores_itself(const Graph& graph, const Node& node) {
  const auto node_of = [&](Operand of) { return of.space == Operand::Space::kNode ? &graph.nodes[static_cast<size_t>(of.index)] : nullptr; };
  const Node* const changed = node_of(graph.operands_of(node)[2]);
  if (!changed || changed->form != Form::kBinary || changed->code < bytecode::kBinaryOps) return false;
  const Node* const taken = node_of(graph.operands_of(*changed)[0]);
  return taken && taken->form == Form::kGetItem && are_same_place(graph, node, *taken);
}

}  // namespace evalframe::graph
