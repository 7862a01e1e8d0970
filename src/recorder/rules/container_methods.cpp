// Rules for methods of C's that are bound to containers of the recorded code's: add = row.append.
#include <string_view>

#include "core/builtins.h"
#include "cpython/objects.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

// A plan of an instruction that leaves nothing, as that of a call that gives None.
Plan giving_none(Plan plan) {
  if (plan.kind == Plan::Kind::kLabels) plan.kind = Plan::Kind::kConstant;
  return plan;
}

bool is_method_of(PyObject* method, PyTypeObject* type) {
  return (Py_IS_TYPE(method, &PyMethodDescr_Type) || Py_IS_TYPE(method, &PyWrapperDescr_Type)) && PyDescr_TYPE(method) == type;
}

}  // namespace

bool is_method_of_containers(PyObject* method) { return is_method_of(method, &PyDict_Type) || is_method_of(method, &PyList_Type); }

namespace {

// What an instance has of the list or dict that its class inherits from, as an object of that type.
Ref contents_of(PyObject* object) {
  Ref copy = PyDict_Check(object) ? cpython::copy_of_dict(object) : PyList_Check(object) ? Ref::steal(PyList_GetSlice(object, 0, PY_SSIZE_T_MAX)) : Ref();
  if (!copy) PyErr_Clear();
  return copy;
}

Plan call_of_method(Recorder& recorder, PyObject* method, Operated self, const std::vector<Operated>& given, bool keywords);

}  // namespace

Plan call_of_container_method(Recorder& recorder, PyObject* method, Operated self, const std::vector<Operated>& given, bool keywords) {
  const uint32_t contents = recorder.contents(self.label);
  if (!contents) return call_of_method(recorder, method, self, given, keywords);
  Ref exact = contents_of(self.object);
  if (!exact) return not_known(method);
  Plan plan = call_of_method(recorder, method, {contents, exact.get()}, given, keywords);
  plan.held.push_back(std::move(exact));
  return plan;
}

namespace {

Plan call_of_method(Recorder& recorder, PyObject* method, Operated self, const std::vector<Operated>& given, bool keywords) {
  const std::string_view name = PyUnicode_AsUTF8(reinterpret_cast<PyDescrObject*>(method)->d_name);
  const Value value = recorder.value(self.label);
  const size_t count = given.size();
  if (keywords) return not_known(method);
  if (is_method_of(method, &PyList_Type) && value.kind == Value::Kind::kList && name == "append" && count == 1) {
    std::vector<uint32_t> contents = recorder.copied_elements(value);
    contents.push_back(given[0].label);
    return plan_change(recorder, self.label, std::move(contents), plan_constant());
  }
  if (!is_method_of(method, &PyDict_Type) || !is_made_dict(value)) return not_known(method);
  const bool updates = name == "update" || name == "__init__";
  if (updates && count == 0) return plan_constant();
  if (updates && count == 1) {
    Plan plan = dict_union(recorder, self, given[0], true);
    if (plan.kind == Plan::Kind::kValue) plan.kind = Plan::Kind::kConstant;
    return plan;
  }
  if (name == "__setitem__" && count == 2) return giving_none(store_into_made(recorder, self, given[0], given[1]));
  if (name == "__delitem__" && count == 1) return giving_none(store_into_made(recorder, self, given[0], {0, nullptr}));
  if (name == "__getitem__" && count == 1) {
    const std::optional<bool> there = has_key(recorder, self, given[0]);
    return there && *there ? item_of_dict(recorder, self, given[0]) : not_known(method);
  }
  if (name == "pop" && (count == 1 || count == 2)) {
    const std::optional<bool> there = has_key(recorder, self, given[0]);
    if (there && !*there) return count == 2 ? plan_value(given[1].label) : plan_raise();
    const Plan popped = there ? item_of_dict(recorder, self, given[0]) : not_known(method);
    Plan plan = popped.kind == Plan::Kind::kValue ? store_into_made(recorder, self, given[0], {0, nullptr}) : not_known(method);
    if (plan.kind == Plan::Kind::kLabels) plan.kind = Plan::Kind::kValue, plan.label = popped.label;
    return plan;
  }
  if (name == "get" && (count == 1 || count == 2)) {
    const std::optional<bool> there = has_key(recorder, self, given[0]);
    if (there && *there) return item_of_dict(recorder, self, given[0]);
    if (there) return plan_value(count == 2 ? given[1].label : recorder.constant(Py_None));
  }
  return not_known(method);
}

// Whether counting stores into it as into a dict.
bool counts_as_dict(PyObject* mapping) {
  for (const char* const text : {"get", "__setitem__"}) {
    const Ref name = Ref::steal(PyUnicode_InternFromString(text));
    if (!name || _PyType_Lookup(Py_TYPE(mapping), name.get()) != _PyType_Lookup(&PyDict_Type, name.get())) return false;
  }
  return PyDict_Check(mapping) && !PyODict_Check(mapping);
}

}  // namespace

// _count_elements(mapping, iterable), where both are known.
std::optional<Plan> count_of_elements(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyCFunction_CheckExact(callable) || name_in_module(callable) != "_collections._count_elements" || call.count != 2 || call.keyword_names) return std::nullopt;
  Recorder& recorder = site.recorder;
  const uint32_t contents_label = recorder.contents(recorder.label(call.first));
  const Operated mapping{contents_label ? contents_label : recorder.label(call.first), site.frame.slot(call.first)}, from{recorder.label(call.first + 1), site.frame.slot(call.first + 1)};
  const Value value = recorder.value(mapping.label);
  const bool plain = is_made_dict(value) && counts_as_dict(mapping.object);
  if (!plain || recorder.is_iterator(from.label) || !is_known_flat(recorder, from.label, from.object)) return not_known(callable);
  const Ref elements = Ref::steal(PySequence_Tuple(from.object)), counts = cpython::copy_of_dict(mapping.object);
  if (!elements || !counts) return PyErr_Clear(), not_known(callable);
  std::vector<uint32_t> contents = recorder.copied_elements(value);
  PyObject *key = nullptr, *old = nullptr;
  size_t place = 0;
  for (Py_ssize_t at = 0; PyDict_Next(counts.get(), &at, &key, &old); place += 2) {
    if (!PyLong_CheckExact(old) || !recorder.known(contents[place + 1], old)) return not_known(callable);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements.get()); i++) {
    PyObject* const element = PyTuple_GET_ITEM(elements.get(), i);
    PyObject* const known = PyDict_GetItemWithError(counts.get(), element);
    const Ref one = Ref::steal(PyLong_FromLong(1));
    const Ref now = known ? Ref::steal(PyNumber_Add(known, one.get())) : Ref::borrow(one.get());
    if (!now || !is_immutable(element) || PyDict_SetItem(counts.get(), element, now.get()) < 0) return PyErr_Clear(), not_known(callable);
  }
  if (PyDict_GET_SIZE(counts.get()) > kMaxParts) return not_known(callable);
  place = 0;
  for (Py_ssize_t at = 0; PyDict_Next(counts.get(), &at, &key, &old); place += 2) {
    if (place >= contents.size()) contents.insert(contents.end(), {recorder.constant(key), 0});
    contents[place + 1] = recorder.constant(old);
  }
  return plan_change(recorder, mapping.label, std::move(contents), plan_constant());
}

}  // namespace evalframe::recorder
