// Rules for copy.copy and copy.deepcopy of what is known element by element: containers are made anew, arrays are copied by nodes. What
// else there is has a say in how it is copied; the functions are followed then, as any are.
#include <algorithm>
#include <string>

#include "cpython/attributes.h"
#include "frontends/numpy/calls.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

namespace {

using evaluator::Activation;

class Copying {
 public:
  Copying(Recorder& recorder, bool deep) : recorder_(recorder), deep_(deep) {}

  // The copy's value; 0: not known.
  uint32_t copy(const Operated& of) {
    if (is_kept(of)) return of.label;
    for (const auto& [label, made] : made_) {
      if (label == of.label) return made;
    }
    const uint32_t made = is_distinct(of) ? fresh(of) : 0;
    made_.emplace_back(of.label, made);
    return made;
  }

 private:
  bool is_kept(const Operated& of) const {
    PyObject* const object = of.object;
    const bool immutable = PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) ||
                           PyBool_Check(object) || PyComplex_CheckExact(object) || object == Py_None || PyType_Check(object) || PyFunction_Check(object);
    if (recorder_.value(of.label).kind == Value::Kind::kNode) return immutable && recorder_.is_number(of.label, object);
    return immutable && fixes_type(recorder_, of.label, object);
  }

  // One object that stands in two places has one copy.
  bool is_distinct(const Operated& of) {
    for (const auto& [label, object] : sources_) {
      if (object == of.object || (recorder_.value(of.label).kind == Value::Kind::kSource && !fixes_identity(recorder_, {label, object}, of))) return false;
    }
    // What another node gave may be an object from outside.
    const Value value = recorder_.value(of.label);
    if (value.kind == Value::Kind::kNode) return is_new(recorder_.recording().graph.nodes[value.a]);
    if (value.kind == Value::Kind::kSource) sources_.emplace_back(of.label, of.object);
    return true;
  }

  static bool is_new(const graph::Node& node) {
    constexpr int kFirstInPlace = 13;
    return node.form == graph::Form::kUnary || (node.form == graph::Form::kBinary && node.code < kFirstInPlace);
  }

  uint32_t part(const Operated& of) { return deep_ ? copy(of) : of.label; }

  uint32_t fresh(const Operated& of) {
    const Value value = recorder_.value(of.label);
    if (numpy::is_exact_array(of.object)) return numpy::is_array(of.object) ? array(of) : 0;
    if (++depth_ > 16) return 0;
    uint32_t made = 0;
    if (PyList_CheckExact(of.object) || PyTuple_CheckExact(of.object)) made = sequence(of);
    if (PyDict_CheckExact(of.object)) made = dict(of);
    if (value.kind == Value::Kind::kReplayed && PySet_CheckExact(of.object) && !holds_placed(of.object)) made = recorder_.container(Value::Kind::kReplayed, recorder_.copied_elements(value));
    if (value.kind == Value::Kind::kInstance) made = instance(of);
    depth_--;
    return made;
  }

  uint32_t array(const Operated& of) {
    static PyObject* const method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(of.object)), "copy");
    static PyObject* const names = Py_BuildValue("(s)", "order");
    const Ref order = Ref::steal(PyUnicode_InternFromString("K"));
    const Ref copied = Ref::steal(PyObject_CallMethod(of.object, "copy", "O", order.get()));
    const graph::Operand operand = recorder_.operand(of.label, of.object);
    if (!copied || !operand) return PyErr_Clear(), 0;
    Plan plan;
    plan.callable = method;
    plan.keyword_names = names;
    plan.keywords = 1;
    plan.operands = {operand, graph::Operand::constant(recorder_.value(recorder_.constant(order.get())).a)};
    return recorder_.node_value(recorder_.add_node(plan, copied.get()), false);
  }

  uint32_t sequence(const Operated& of) {
    const std::optional<std::vector<uint32_t>> parts = parts_of(recorder_, of.label, of.object);
    const bool tuple = PyTuple_CheckExact(of.object);
    if (!parts || static_cast<Py_ssize_t>(parts->size()) != PySequence_Fast_GET_SIZE(of.object)) return 0;
    if (tuple && !deep_) return of.label;
    std::vector<uint32_t> copies;
    for (size_t i = 0; i < parts->size(); i++) {
      copies.push_back(part({(*parts)[i], PySequence_Fast_GET_ITEM(of.object, static_cast<Py_ssize_t>(i))}));
      if (!copies.back()) return 0;
    }
    // A tuple of what isn't copied is given as it is.
    if (tuple && copies == *parts) return of.label;
    return recorder_.container(tuple ? Value::Kind::kTuple : Value::Kind::kList, std::move(copies));
  }

  uint32_t dict(const Operated& of) {
    const Value value = recorder_.value(of.label);
    const bool source = value.kind == Value::Kind::kSource && !recorder_.keys_vary(value.a) && PyDict_GET_SIZE(of.object) <= kMaxParts && require_keys(recorder_, value, of.object);
    if (value.kind != Value::Kind::kDict && !source) return 0;
    std::vector<uint32_t> copies;
    PyObject *key = nullptr, *item = nullptr;
    const std::vector<uint32_t> parts = source ? std::vector<uint32_t>{} : recorder_.copied_elements(value);
    for (Py_ssize_t at = 0; PyDict_Next(of.object, &at, &key, &item);) {
      if (PyTuple_Check(key) || !is_immutable(key)) return 0;
      const size_t i = copies.size();
      copies.push_back(source ? recorder_.constant(key) : parts[i]);
      copies.push_back(part({source ? key_source(recorder_, value, key) : parts[i + 1], item}));
      if (!copies.back()) return 0;
    }
    return recorder_.container(Value::Kind::kDict, std::move(copies));
  }

  // Of a class that leaves it to object how its instances are copied.
  uint32_t instance(const Operated& of) {
    PyTypeObject* const type = Py_TYPE(of.object);
    for (const char* const text : {"__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__new__"}) {
      const Ref name = Ref::steal(PyUnicode_InternFromString(text));
      if (!name || _PyType_Lookup(type, name.get()) != _PyType_Lookup(&PyBaseObject_Type, name.get())) return 0;
    }
    const bool plain = cpython::looks_up_plainly(type) && type->tp_setattro == PyObject_GenericSetAttr && type->tp_dictoffset != 0 && !is_in_table(type);
    const Value value = recorder_.value(of.label);
    const std::vector<uint32_t> parts = recorder_.copied_elements(value);
    if (!plain || !fixes_class(recorder_, value, of.object)) return 0;
    const uint32_t made = recorder_.instance(type);
    std::vector<uint32_t> copies;
    for (size_t i = 0; i < parts.size(); i += 2) {
      PyObject* const name = recorder_.constant_of(parts[i]);
      PyObject* const attribute = name ? cpython::own_value(of.object, name) : nullptr;
      const uint32_t copied = attribute ? part({parts[i + 1], attribute}) : 0;
      if (!copied) return 0;
      copies.insert(copies.end(), {parts[i], copied});
    }
    if (!copies.empty()) recorder_.replace(recorder_.value(made), copies);
    return made;
  }

  // copyreg.dispatch_table has another way for the class; none may be added meanwhile.
  bool is_in_table(PyTypeObject* type) {
    const Ref module = Ref::steal(PyImport_ImportModule("copyreg"));
    const Ref table = module ? Ref::steal(PyObject_GetAttrString(module.get(), "dispatch_table")) : Ref();
    if (!table || !PyDict_CheckExact(table.get())) return PyErr_Clear(), true;
    const int found = PyDict_Contains(table.get(), reinterpret_cast<PyObject*>(type));
    if (found) return PyErr_Clear(), true;
    recorder_.guards().require_name(table.get(), reinterpret_cast<PyObject*>(type), nullptr);
    return false;
  }

  Recorder& recorder_;
  const bool deep_;
  int depth_ = 0;
  std::vector<std::pair<uint32_t, uint32_t>> made_;
  std::vector<std::pair<uint32_t, PyObject*>> sources_;
};

}  // namespace

std::optional<Plan> copying_call(const Site& site, const Activation::CallSite& call, PyObject* callable) {
  if (!PyFunction_Check(callable) || call.count != 1 || call.keyword_names) return std::nullopt;
  const std::string name = name_in_library(callable);
  if (name != "copy.copy" && name != "copy.deepcopy") return std::nullopt;
  const uint32_t copied = Copying(site.recorder, name == "copy.deepcopy").copy({site.recorder.label(call.first), site.frame.slot(call.first)});
  if (!copied) return std::nullopt;
  site.recorder.guards().require_function(callable);
  return plan_value(copied);
}

}  // namespace evalframe::recorder
