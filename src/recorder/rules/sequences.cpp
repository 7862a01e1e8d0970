// Rules for iterators that ask for items by their numbers: those of arrays, and of instances that have a `__getitem__` alone.
#include "core/builtins.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

constexpr Py_ssize_t kMostRows = 32;  // that are read at once

bool has_rows(PyObject* array) { return PyArray_NDIM(numpy::as_array(array)) > 0; }
Py_ssize_t rows_of(PyObject* array) { return PyArray_DIM(numpy::as_array(array), 0); }

// An array from outside is asked for it by a guard, one of the graph's by a check in the graph. No node changes the shape of an array.
bool fixes_length(Recorder& recorder, const Operated& array) {
  const Value value = recorder.value(array.label);
  if (value.kind == Value::Kind::kSource && recorder.varies(value.a)) return false;
  const graph::Operand whole = recorder.operand(array.label, array.object);
  if (!whole) return false;
  if (value.kind == Value::Kind::kSource) {
    recorder.guards().require_length(value.a, array.object);
  } else {
    recorder.check_length(whole, array.object);
  }
  return true;
}

// The number of the next one; -1: it has ended.
Py_ssize_t next_number(const Recorder& recorder, uint32_t progress) {
  PyObject* const number = recorder.constant_of(recorder.elements(recorder.value(progress))[0]);
  return number && PyLong_CheckExact(number) ? PyLong_AsSsize_t(number) : -1;
}

}  // namespace

bool is_asked_by_number(Recorder& recorder, const Operated& object) {
  if (numpy::is_exact_array(object.object)) return true;
  const PyTypeObject* const type = Py_TYPE(object.object);
  return !type->tp_iter && PySequence_Check(object.object) && has_method(recorder, object, "__getitem__");
}

bool fixes_rows(Recorder& recorder, const Operated& array, Py_ssize_t most) {
  if (!numpy::is_exact_array(array.object) || !has_rows(array.object)) return false;
  return rows_of(array.object) <= most && fixes_length(recorder, array);
}

std::optional<std::vector<uint32_t>> parts_or_rows(Recorder& recorder, const Operated& of, std::vector<Ref>* rows) {
  if (!numpy::is_exact_array(of.object)) return parts_of(recorder, of.label, of.object);
  const graph::Operand whole = fixes_rows(recorder, of, kMostRows) ? recorder.operand(of.label, of.object) : graph::Operand{};
  if (!whole) return std::nullopt;
  std::vector<uint32_t> labels;
  for (Py_ssize_t i = 0; i < rows_of(of.object); i++) {
    const Ref key = Ref::steal(PyLong_FromSsize_t(i));
    Ref row = Ref::steal(PySequence_GetItem(of.object, i));
    if (!key || !row) return PyErr_Clear(), std::nullopt;
    const graph::Operand number = graph::Operand::constant(recorder.value(recorder.constant(key.get())).a);
    labels.push_back(recorder.node_value(recorder.add_plain_node(graph::Form::kGetItem, 0, nullptr, {whole, number}, row.get()), false));
    if (rows) rows->push_back(std::move(row));
  }
  return labels;
}

uint32_t iterator_by_number(Recorder& recorder, const Operated& object) {
  if (!is_asked_by_number(recorder, object)) return 0;
  if (numpy::is_exact_array(object.object) && !fixes_rows(recorder, object, kMaxParts)) return 0;
  return made_by_number(recorder, &PySeqIter_Type, object.label, 0);
}

std::optional<Py_ssize_t> rows_to_come(const Recorder& recorder, uint32_t progress, PyObject* array, bool backwards) {
  const Py_ssize_t number = next_number(recorder, progress);
  if (number < 0 || array == Py_None) return 0;
  if (!numpy::is_exact_array(array)) return std::nullopt;
  return backwards ? number + 1 : rows_of(array) - number;
}

std::optional<Plan> iteration_by_number(const Site& site, const Operated& object) {
  Recorder& recorder = site.recorder;
  if (!is_asked_by_number(recorder, object)) return std::nullopt;
  if (ends_here(recorder, object.object)) return plan_break(Break::kUnknownObject, "an operand whose end is told");
  const bool array = numpy::is_exact_array(object.object);
  if (array && !has_rows(object.object)) return recorder.operand(object.label, object.object) ? plan_raise() : plan_break(Break::kIterator, type_name(object.object));
  const bool is_long = array && rows_of(object.object) > recorder.most_turns(site.frame);
  const uint32_t made = is_long ? 0 : iterator_by_number(recorder, object);
  return made ? plan_value(made) : plan_break(Break::kLoop, type_name(object.object));
}

Plan item_of_array(const Site& site, PyObject* iterator, uint32_t progress, const Operated& array) {
  Recorder& recorder = site.recorder;
  const Py_ssize_t number = next_number(recorder, progress);
  const bool backwards = Py_IS_TYPE(iterator, &PyReversed_Type);
  const bool ends = number < 0 || array.object == Py_None || number >= rows_of(array.object);
  Plan plan = ends && site.instruction.op != bytecode::Op::FOR_ITER ? plan_raise() : Plan{};
  plan.changed = progress;
  if (ends) {
    plan.contents = {recorder.constant(Py_None)};
    return plan;
  }
  const Ref key = Ref::steal(PyLong_FromSsize_t(number)), next = Ref::steal(PyLong_FromSsize_t(backwards ? number - 1 : number + 1));
  plan.kind = Plan::Kind::kNode;
  plan.form = graph::Form::kGetItem;
  plan.operands = {recorder.operand(array.label, array.object), graph::Operand::constant(recorder.value(recorder.constant(key.get())).a)};
  if (!plan.operands[0]) return plan_break(Break::kUnknownObject, type_name(array.object));
  plan.contents = {recorder.constant(next.get())};
  return plan;
}

}  // namespace evalframe::recorder
