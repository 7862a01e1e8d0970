// Runs graphs through the recorded calls.
#include "backends/reference.h"

#include "backends/node_call.h"

namespace evalframe::backends {

using graph::Form, graph::Graph, graph::Node, graph::Operand;

namespace {

class Reference final : public Executable {
 public:
  Reference(const Graph& graph, ExitAt exit_at)
      : graph_(graph), exit_at_(std::move(exit_at)), end_(exit_at_(static_cast<int32_t>(graph.nodes.size()))) {}

  Outcome run(PyObject* const* inputs, Position& position, int32_t leave_before) override {
    Results results(graph_.nodes.size());
    Few<PyObject*, 8> operands;
    const auto count = static_cast<int32_t>(graph_.nodes.size());
    if (drops_.empty()) plan_drops();
    for (int32_t i = 0; i < count; i++) {
      const Node& node = graph_.nodes[i];
      if (i == leave_before) return leave(i, false, inputs, results);
      const Operand* const given = graph_.operands_of(node);
      operands.resize(node.count);
      for (uint32_t k = 0; k < node.count; k++) operands[k] = object(given[k], inputs, results);
      if (node.form == Form::kCheck || node.form == Form::kCheckMeta) {
        if (!check_holds(graph_, node, operands.data())) return leave(i, false, inputs, results);
        results[i] = Ref::borrow(Py_None);
      } else {
        position.at(i);
        results[i] = call_node(graph_, node, operands.data());
        if (!results[i]) return leave(i, true, inputs, results);
      }
      for (int32_t dead : drops_[i]) results[dead].reset();
    }
    return leave(count, false, inputs, results);
  }

 private:
  using Results = Few<Ref, 32>;
  PyObject* object(Operand operand, PyObject* const* inputs, const Results& results) const {
    switch (operand.space) {
      case Operand::Space::kInput: return inputs[operand.index];
      case Operand::Space::kNode: return results[operand.index].get();
      case Operand::Space::kConstant: return graph_.constants[operand.index].get();
      case Operand::Space::kNone: return nullptr;
    }
    return nullptr;
  }

  Outcome leave(int32_t node, bool raised, PyObject* const* inputs, const Results& results) const {
    Outcome outcome;
    outcome.node = node;
    outcome.raised = raised;
    if (static_cast<size_t>(node) == graph_.nodes.size()) {
      add_values(end_, outcome.values, inputs, results);
    } else {
      add_values(exit_at_(node), outcome.values, inputs, results);
    }
    return outcome;
  }

  void add_values(const graph::ExitPoint& exit, ExitValues& values, PyObject* const* inputs, const Results& results) const {
    for (const Operand operand : exit.values) values.push_back(Ref::borrow(object(operand, inputs, results)));
  }

  // A result dies after the last node, or exit in front of a node, that needs it: as in the frame it came from.
  void plan_drops() {
    const auto count = static_cast<int32_t>(graph_.nodes.size());
    std::vector<int32_t> last(count);
    for (int32_t i = 0; i < count; i++) last[i] = i;
    auto use = [&](Operand operand, int32_t at) {
      if (operand.space == Operand::Space::kNode) last[operand.index] = std::max(last[operand.index], at);
    };
    for (int32_t i = 0; i <= count; i++) {
      if (i < count) {
        const Node& node = graph_.nodes[i];
        for (uint32_t k = 0; k < node.count; k++) use(graph_.operands_of(node)[k], i);
      }
      for (Operand operand : exit_at_(i).values) use(operand, i);
    }
    drops_.resize(count);
    for (int32_t i = 0; i < count; i++) {
      if (last[i] < count) drops_[last[i]].push_back(i);
    }
  }

  const Graph& graph_;
  ExitAt exit_at_;
  const graph::ExitPoint end_;  // where most runs are left
  std::vector<std::vector<int32_t>> drops_;  // by node: results that are dead behind it; from the first run on
};

}  // namespace

std::unique_ptr<Executable> make_reference(const Graph& graph, ExitAt exit_at, Wishes) {
  return std::make_unique<Reference>(graph, std::move(exit_at));
}

}  // namespace evalframe::backends
