// A builder of graphs for tests: each node is run when it is added, as a recording would, and the graph can then be run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "backends/native/native.h"
#include "backends/node_call.h"
#include "module/bindings.h"

namespace nb = nanobind;

namespace evalframe {

namespace {

using graph::Form;
using graph::Operand;

Form form_named(const std::string& name) {
#define EVALFRAME_FORM(form, text, operands, codes) \
  if (name == text) return Form::form;
#include "graph/forms.def"
#undef EVALFRAME_FORM
  throw nb::value_error(("there is no form " + name).c_str());
}

// An operand as Python holds it: the space in the upper bits.
int64_t encode(Operand operand) { return static_cast<int64_t>(operand.space) << 32 | operand.index; }
Operand decode(int64_t handle) {
  return {static_cast<Operand::Space>(handle >> 32), static_cast<int32_t>(handle & 0xffffffff)};
}

struct Positions final : backends::Position {
  std::vector<int32_t> nodes;
  void at(int32_t node) override { nodes.push_back(node); }
  void in(graph::Origin) override {}
};

class GraphBuilder {
 public:
  int64_t input(nb::object example, const std::string& name) {
    const Operand operand = Operand::input(static_cast<int32_t>(graph_.inputs.size()));
    graph_.inputs.push_back({graph::meta_of(example.ptr(), graph_.sizes), name});
    inputs_.push_back(Ref::borrow(example.ptr()));
    return encode(operand);
  }

  int64_t constant(nb::object value) {
    graph_.constants.push_back(Ref::borrow(value.ptr()));
    return encode(Operand::constant(static_cast<int32_t>(graph_.constants.size()) - 1));
  }

  int64_t node(const std::string& form, nb::object callable, const std::vector<int64_t>& operands, nb::object names, int code) {
    graph::Node made{form_named(form)};
    made.code = static_cast<uint8_t>(code);
    made.operands = static_cast<uint32_t>(graph_.operands.size());
    made.count = static_cast<uint32_t>(operands.size());
    if (!callable.is_none()) made.callable = decode(constant(callable)).index;
    if (!names.is_none()) {
      made.keywords = static_cast<uint16_t>(PyTuple_Size(names.ptr()));
      made.keyword_names = decode(constant(names)).index;
    }
    std::vector<PyObject*> values;
    for (const int64_t handle : operands) {
      graph_.operands.push_back(decode(handle));
      values.push_back(value(decode(handle)));
    }
    graph_.nodes.push_back(made);
    Ref result = backends::call_node(graph_, made, values.data());
    if (!result) throw nb::python_error();
    graph_.nodes.back().meta = graph::meta_of(result.get(), graph_.sizes);
    nodes_.push_back(std::move(result));
    return encode(Operand::node(static_cast<int32_t>(graph_.nodes.size()) - 1));
  }

  void compile(const std::vector<int64_t>& outputs) {
    const std::string error = graph::verify(graph_);
    if (!error.empty()) throw std::runtime_error(error);
    outputs_.clear();
    for (const int64_t handle : outputs) outputs_.push_back(decode(handle));
    executable_ = native::make_executable(graph_, [this](int32_t node) { return exit_at(node); });
  }

  nb::tuple run(nb::list inputs, int leave_before) {
    if (!executable_) throw std::runtime_error("compile() first");
    std::vector<Ref> held;
    std::vector<PyObject*> values;
    for (nb::handle input : inputs) {
      held.push_back(Ref::borrow(input.ptr()));
      values.push_back(input.ptr());
    }
    Positions positions;
    backends::Outcome outcome = executable_->run(values.data(), positions, leave_before);
    if (outcome.raised) throw nb::python_error();
    nb::list results;
    for (Ref& result : outcome.values) results.append(nb::steal(result.release()));
    return nb::make_tuple(outcome.node, results, positions.nodes);
  }

  std::string print() const { return graph::print(graph_); }
  std::string text() const { return executable_ ? executable_->text() : ""; }

 private:
  PyObject* value(Operand operand) const {
    switch (operand.space) {
      case Operand::Space::kInput: return inputs_.at(operand.index).get();
      case Operand::Space::kNode: return nodes_.at(operand.index).get();
      case Operand::Space::kConstant: return graph_.constants.at(operand.index).get();
      case Operand::Space::kNone: break;
    }
    throw nb::value_error("no such operand");
  }

  // At the end the outputs; before that, all that a node behind it or an output needs.
  graph::ExitPoint exit_at(int32_t node) const {
    graph::ExitPoint exit{node, {}};
    if (node == static_cast<int32_t>(graph_.nodes.size())) {
      exit.values = outputs_;
      return exit;
    }
    auto need = [&](Operand operand) {
      const bool before = operand.space == Operand::Space::kNode && operand.index < node;
      if (before && std::find(exit.values.begin(), exit.values.end(), operand) == exit.values.end()) exit.values.push_back(operand);
    };
    for (size_t i = node; i < graph_.nodes.size(); i++) {
      for (uint32_t j = 0; j < graph_.nodes[i].count; j++) need(graph_.operands_of(graph_.nodes[i])[j]);
    }
    for (const Operand operand : outputs_) need(operand);
    return exit;
  }

  graph::Graph graph_;
  std::vector<Ref> inputs_, nodes_;
  std::vector<Operand> outputs_;
  std::unique_ptr<backends::Executable> executable_;
};

}  // namespace

void bind_graph_builder(nb::module_& module) {
  nb::class_<GraphBuilder>(module, "GraphBuilder")
      .def(nb::init<>())
      .def("input", &GraphBuilder::input, nb::arg("example"), nb::arg("name") = "x")
      .def("constant", &GraphBuilder::constant, nb::arg("value").none())
      .def("node", &GraphBuilder::node, nb::arg("form"), nb::arg("callable").none(), nb::arg("operands"),
           nb::arg("keywords").none() = nb::none(), nb::arg("code") = 0)
      .def("compile", &GraphBuilder::compile)
      .def("run", &GraphBuilder::run, nb::arg("inputs"), nb::arg("leave_before") = -1)
      .def("print", &GraphBuilder::print)
      .def("text", &GraphBuilder::text);
}

}  // namespace evalframe
