// What NumPy raises because shapes don't fit: recorded on, with checks in the graph that the shapes are those.
#include <algorithm>
#include <string_view>

#include "bytecode/operators.h"
#include "recorder/recorder.h"

namespace evalframe::recorder {

namespace {

using graph::Form;
using graph::Kind;
using graph::Operand;

constexpr std::string_view kTexts[] = {
#define EVALFRAME_SHAPE_ERROR(text) text,
#include "recorder/shape_errors.def"
#undef EVALFRAME_SHAPE_ERROR
};

// Others begin so for other reasons.
bool is_shape_error(PyObject* exception) {
  PyObject* const arguments = reinterpret_cast<PyBaseExceptionObject*>(exception)->args;
  if (!Py_IS_TYPE(exception, reinterpret_cast<PyTypeObject*>(PyExc_ValueError)) || !arguments || PyTuple_GET_SIZE(arguments) != 1) return false;
  PyObject* const text = PyTuple_GET_ITEM(arguments, 0);
  const char* const utf8 = PyUnicode_CheckExact(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (!utf8) return PyErr_Clear(), false;
  return std::any_of(std::begin(kTexts), std::end(kTexts), [&](std::string_view start) { return std::string_view(utf8).starts_with(start); });
}

// What writes nowhere: whether that may be written to is looked at before.
bool only_reads(const Plan& plan) {
  if (plan.form == Form::kBinary) return plan.code < bytecode::kBinaryOps;
  return plan.form == Form::kCompare || (plan.form == Form::kCall && !plan.keyword_names);
}

}  // namespace

// The arrays among what the operand is made of; false: there is something else that may have a part in it.
bool Recorder::collect_arrays(Operand operand, std::vector<Operand>& arrays) const {
  if (operand.space == Operand::Space::kConstant) return true;
  const graph::Graph& graph = recording_->graph;
  const graph::Meta& meta = *graph.meta_of(operand);
  if (meta.kind == Kind::kArray) return arrays.push_back(operand), true;
  if (meta.kind == Kind::kNumpyScalar || meta.kind == Kind::kFloat) return true;
  if (operand.space != Operand::Space::kNode) return false;
  const graph::Node& node = graph.nodes[static_cast<size_t>(operand.index)];
  if (node.form != Form::kTuple && node.form != Form::kList) return false;
  const Operand* const parts = graph.operands_of(node);
  return std::all_of(parts, parts + node.count, [&](Operand part) { return collect_arrays(part, arrays); });
}

// The instruction is run again where a check fails.
bool Recorder::fixes_shapes(const Plan& plan, PyObject* exception) {
  std::vector<Operand> arrays;
  if (plan.kind != Plan::Kind::kNode || !only_reads(plan) || !is_shape_error(exception)) return false;
  if (!std::all_of(plan.operands.begin(), plan.operands.end(), [&](Operand operand) { return collect_arrays(operand, arrays); })) return false;
  for (const Operand array : arrays) {
    const graph::Meta meta = *recording_->graph.meta_of(array);
    const Ref shape = Ref::steal(PyTuple_New(meta.rank)), name = Ref::steal(PyUnicode_InternFromString("shape"));
    if (!shape || !name) return PyErr_Clear(), false;
    for (int i = 0; i < meta.rank; i++) PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(recording_->graph.sizes[meta.shape + static_cast<size_t>(i)]));
    check_constant(node_value(add_plain_node(Form::kGetAttr, 0, name.get(), {array}, shape.get()), true), shape.get());
  }
  return !arrays.empty();
}

}  // namespace evalframe::recorder
