// What is known of values, and how they enter the graph: as constants, inputs or nodes.
#include "recorder/recorder.h"

#include <algorithm>
#include <cmath>

#include "core/builtins.h"
#include "core/check.h"
#include "cpython/objects.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "frontends/torch/names.h"
#include "frontends/torch/tensors.h"
#include "recorder/nan.h"
#include "recorder/rules/rules.h"

namespace evalframe::recorder {

using graph::Form;
using graph::Operand;

namespace {

// Types that are written in C, and NumPy's element types: there is one object of each.
bool is_singular(PyObject* object) {
  if (PyType_Check(object)) return Py_TYPE(object) == &PyType_Type && !PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_HEAPTYPE);
  return numpy::is_plain_dtype(object);
}

}  // namespace

bool has_immutable_elements(PyObject* set) {
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  for (Py_ssize_t at = 0; _PySet_NextEntry(set, &at, &element, &hash);) {
    if (!is_immutable(element)) return false;
  }
  return true;
}

bool is_immutable(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type || type == &PyUnicode_Type || object == Py_None) return true;
  if (is_singular(object)) return true;
  if (type == &PyFrozenSet_Type) return has_immutable_elements(object);
  if (torch::is_immutable(object)) return true;
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
      if (!is_immutable(PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
  }
  return type == &PyBytes_Type || type == &PyRange_Type || type == &PyComplex_Type || object == Py_Ellipsis || has_pure_type(object);
}

bool holds_nan(PyObject* object) {
  if (PyFloat_CheckExact(object)) return std::isnan(PyFloat_AS_DOUBLE(object));
  for (Py_ssize_t i = 0; PyTuple_CheckExact(object) && i < PyTuple_GET_SIZE(object); i++) {
    if (holds_nan(PyTuple_GET_ITEM(object, i))) return true;
  }
  return PyComplex_CheckExact(object) && (std::isnan(PyComplex_RealAsDouble(object)) || std::isnan(PyComplex_ImagAsDouble(object)));
}

// Whether objects that are equal, and of the same types, are the same to a program: frozensets may have other orders, and containers take
// the same NaN for an equal one.
static bool equality_says_all(PyObject* object) {
  if (holds_nan(object)) return false;
  if (torch::is_size(object)) return true;
  if (torch::is_immutable(object)) return false;
  if (PyFrozenSet_CheckExact(object) || (has_pure_type(object) && !PyBytes_CheckExact(object))) return false;
  for (Py_ssize_t i = 0; PyTuple_CheckExact(object) && i < PyTuple_GET_SIZE(object); i++) {
    if (!equality_says_all(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

bool tells_of_its_end(PyObject* object) {
  const PyTypeObject* const type = Py_TYPE(object);
  return type->tp_finalize || type->tp_del || (type->tp_weaklistoffset && *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + type->tp_weaklistoffset));
}

void Recorder::require_equal(int32_t source, Borrowed object) {
  equality_says_all(object.get()) ? guards().require_equal(source, object) : guards().require_identity(source, object);
}

bool Recorder::known(uint32_t index, Borrowed object) {
  const Value value = recording_->values[index];
  switch (value.kind) {
    case Value::Kind::kConstant: return is_immutable(object.get());
    case Value::Kind::kSource:
      if (!is_immutable(object.get())) return false;
      if (is_singular(object.get())) return guards().require_identity(value.a, object), true;
      if (guards::is_number(object) && varies(value.a)) return false;
      if (is_size_that_varies(value, object.get())) return false;
      require_equal(value.a, object);
      return true;
    case Value::Kind::kNode:
      if (!value.of_shapes || !is_immutable(object.get())) return false;
      check_constant(index, object);
      return true;
    case Value::Kind::kTuple: {
      if (!PyTuple_CheckExact(object.get())) return false;
      const std::vector<uint32_t> parts = copied_elements(value);
      for (size_t i = 0; i < parts.size(); i++) {
        if (!known(parts[i], PyTuple_GET_ITEM(object.get(), i))) return false;
      }
      return true;
    }
    case Value::Kind::kSlice: {
      auto* slice = reinterpret_cast<PySliceObject*>(object.get());
      const std::vector<uint32_t> parts = copied_elements(value);
      return known(parts[0], slice->start) && known(parts[1], slice->stop) && known(parts[2], slice->step);
    }
    case Value::Kind::kNull:
    case Value::Kind::kTruth:
    case Value::Kind::kOuterException:
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kList:
    case Value::Kind::kDict:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:
    case Value::Kind::kIterator: return false;
  }
  return false;
}

void Recorder::check_constant(uint32_t index, Borrowed object) {
  const int32_t node = recording_->values[index].a;
  if (!checked_.insert(node).second) return;
  recording_->graph.constants.push_back(Ref::borrow(object));
  const Operand wanted = Operand::constant(static_cast<int32_t>(recording_->graph.constants.size()) - 1);
  add_plain_node(Form::kCheck, 0, nullptr, {Operand::node(node), wanted}, Py_None);
}

void Recorder::check_call(Borrowed callable, Operand operand, Borrowed result) {
  Plan plan;
  plan.callable = callable;
  plan.operands = {operand};
  check_constant(node_value(add_node(plan, result), false), result);
}

void Recorder::fix_registrations() {
  if (std::exchange(fixes_registrations_, true)) return;
  const Ref module = Ref::steal(PyImport_ImportModule("_abc"));
  Plan plan;
  const Ref asks = module ? Ref::steal(PyObject_GetAttrString(module.get(), "get_cache_token")) : Ref();
  const Ref token = asks ? Ref::steal(PyObject_CallNoArgs(asks.get())) : Ref();
  CHECK(token);  // a module of C's, which abc has imported
  plan.callable = asks.get();
  check_constant(node_value(add_node(plan, token.get()), false), token.get());
}

void Recorder::check_length(Operand whole, Borrowed object) {
  check_call(builtin<"len">(), whole, Ref::steal(PyLong_FromSsize_t(PyObject_Size(object.get()))).get());
}

void Recorder::check_type(Operand whole, Borrowed object) { check_call(&PyType_Type, whole, Py_TYPE(object.get())); }

bool Recorder::check_truth(uint32_t index, Borrowed object) {
  if (!recording_->values[index].of_numbers && !is_input_number(index, object)) return false;
  if (PyBool_Check(object.get())) return check_constant(index, object), true;
  const Operand number = operand(index, object);
  const Borrowed truth = PyObject_IsTrue(object.get()) ? Py_True : Py_False;  // of an exact number: can't raise
  const int32_t node = add_plain_node(Form::kTruth, 0, nullptr, {number}, truth);
  check_constant(node_value(node, false, true), truth);
  return true;
}

bool Recorder::check_truth_in_call(uint32_t index, Borrowed object) {
  const Value::Kind kind = recording_->values[index].kind;
  if (!is_called_in_turn() || is_in_body() || (kind != Value::Kind::kNode && kind != Value::Kind::kTruth)) return false;
  if (!PyBool_Check(object.get()) && !PyArray_IsScalar(object.get(), Number) && !PyArray_IsScalar(object.get(), Bool)) return false;
  const Borrowed truth = PyObject_IsTrue(object.get()) ? Py_True : Py_False;  // of a number: can't raise
  const Operand number = operand(kind == Value::Kind::kTruth ? static_cast<uint32_t>(recording_->values[index].a) : index, object);
  const int32_t node = add_plain_node(Form::kTruth, 0, nullptr, {number}, truth);
  check_constant(node_value(node, false, true), truth);
  recording_->ways.push_back(truth.get() == Py_True);
  return true;
}

bool Recorder::check_truth_of_tensor(uint32_t index, PyObject* tensor) {
  if (is_in_body() || looks_at_transforms_ || !torch::is_plain(tensor)) return false;
  const std::vector<int64_t> sizes = torch::sizes_of(tensor);
  const bool has_one = sizes.empty() || (has_fixed_sizes(index, tensor) && std::ranges::all_of(sizes, [](int64_t size) { return size == 1; }));
  const Operand operand = has_one ? this->operand(index, tensor) : Operand();
  const int truth = operand ? PyObject_IsTrue(tensor) : -1;
  if (truth < 0) return PyErr_Clear(), false;
  const Borrowed known = truth ? Py_True : Py_False;
  const auto may_wait = static_cast<uint8_t>(torch::attribute(tensor, "is_cpu").get() == Py_True);
  check_constant(node_value(add_plain_node(Form::kTruth, may_wait, nullptr, {operand}, known), false, true), known);
  return true;
}

bool Recorder::varies(int32_t source) const {
  if (turn_.empty() && varying_.empty()) return false;
  const std::string path = recording_->guards.path(source);
  return (!turn_.empty() && (path[0] == 'n' || path.compare(0, turn_.size(), turn_) == 0)) || varying_.count(path) > 0;
}

bool Recorder::keys_vary(int32_t source) const { return !turn_.empty() && varying_.count(guards::path_of_keys(recording_->guards.path(source))) > 0; }

bool Recorder::parts_vary(int32_t source, Borrowed object) const {
  return PyDict_CheckExact(object.get()) || PySet_CheckExact(object.get()) ? keys_vary(source) : varies(source);
}

bool Recorder::is_input_number(uint32_t index, Borrowed object) const {
  const Value& value = recording_->values[index];
  if (value.kind != Value::Kind::kSource) return false;
  return (!purpose_.fixes_numbers && PyFloat_CheckExact(object.get())) || (guards::is_number(object) && varies(value.a));
}

bool Recorder::is_number(uint32_t index, Borrowed object) const {
  const Value& value = recording_->values[index];
  if (value.kind == Value::Kind::kNode) return value.of_numbers;
  const bool number = guards::is_number(object) || PyBool_Check(object.get());
  return number && (value.kind == Value::Kind::kConstant || value.kind == Value::Kind::kSource);
}

bool Recorder::is_graph_value(uint32_t index, Borrowed object) const {
  return recording_->values[index].kind == Value::Kind::kNode || numpy::is_array(object.get()) || torch::is_tensor(object.get());
}

// A bit for each dimension.
static uint64_t bits_of(const std::vector<uint8_t>& varies) {
  uint64_t bits = 0;
  for (size_t i = 0; i < std::min<size_t>(varies.size(), 64); i++) bits |= static_cast<uint64_t>(varies[i]) << i;
  return bits;
}

Operand Recorder::operand(uint32_t index, Borrowed object) {
  const Operand found = operand_of(index, object);
  if (bodies_.any()) bodies_.see(found, index, object.get());
  return found;
}

Operand Recorder::operand_of(uint32_t index, Borrowed borrowed) {
  const Value value = recording_->values[index];
  PyObject* object = borrowed.get();
  switch (value.kind) {
    case Value::Kind::kNull:
    case Value::Kind::kTruth:
    case Value::Kind::kOuterException:
    case Value::Kind::kException:
    case Value::Kind::kTraceback:
    case Value::Kind::kGenerator:
    case Value::Kind::kFrame:
    case Value::Kind::kDict:
    case Value::Kind::kMapping:
    case Value::Kind::kDeque:
    case Value::Kind::kMade:
    case Value::Kind::kReplayed:
    case Value::Kind::kCell:
    case Value::Kind::kFunction:
    case Value::Kind::kInstance:
    case Value::Kind::kIterator: return {};
    case Value::Kind::kNode: return note_size(object), Operand::node(value.a);
    case Value::Kind::kConstant: return value.b ? Operand{} : Operand::constant(value.a);
    case Value::Kind::kTuple:
    case Value::Kind::kList:
    case Value::Kind::kSlice: return container_operand(index, borrowed);
    case Value::Kind::kSource: break;
  }
  if (numpy::is_exact_array(object)) {
    guards().require_array(value.a, borrowed);
  } else if (torch::is_tensor(object)) {
    if (!torch::is_plain(object)) return {};
    depends_on_torch();
    std::vector<uint8_t> varies = sizes_that_vary(value.a, object);
    sizes_vary_ = sizes_vary_ || std::find(varies.begin(), varies.end(), 1) != varies.end();
    guards().require_tensor(value.a, borrowed, std::move(varies));
  } else if (purpose_.fixes_numbers && guards::is_number(object) && known(index, borrowed)) {
    return Operand::constant(recording_->values[constant(borrowed)].a);
  } else if (numpy::is_scalar(object) || guards::is_number(object) || numpy::is_random_generator(object) || is_acted_on(object)) {
    guards().require_type(value.a, borrowed);
    note_size(object);
  } else if (PyType_Check(object) || PyArray_DescrCheck(object)) {
    guards().require_identity(value.a, borrowed);
    return Operand::constant(recording_->values[constant(borrowed)].a);
  } else if (is_size_that_varies(value, object)) {
    return size_operand(index, borrowed);
  } else if (is_immutable(object)) {
    require_equal(value.a, borrowed);
    return Operand::constant(recording_->values[constant(borrowed)].a);
  } else {
    return {};
  }
  if (source_inputs_.size() <= static_cast<size_t>(value.a)) source_inputs_.resize(value.a + 1, -1);
  int32_t& input = source_inputs_[value.a];
  if (input < 0) {
    input = static_cast<int32_t>(recording_->graph.inputs.size());
    recording_->graph.inputs.push_back({graph::meta_of(borrowed, recording_->graph.sizes), guards().source_name(value.a), bits_of(sizes_that_vary(value.a, object))});
    recording_->input_sources.push_back(value.a);
    if (purpose_.keep_inputs) recording_->examples.push_back(Ref::borrow(object));
  }
  return Operand::input(input);
}

void Recorder::note_size(PyObject* number) {
  sizes_vary_ = sizes_vary_ || (purpose_.fixes_numbers && (PyLong_CheckExact(number) || numpy::is_scalar(number)));
}

std::vector<uint8_t> Recorder::sizes_that_vary(int32_t source, PyObject* tensor) const {
  if (varying_.empty() || !purpose_.fixes_numbers || !torch::is_tensor(tensor)) return {};
  const std::string path = recording_->guards.path(source);
  const std::vector<int64_t> sizes = torch::sizes_of(tensor);
  std::vector<uint8_t> varies(sizes.size());
  for (size_t i = 0; i < varies.size(); i++) varies[i] = sizes[i] >= torch::kLeastVarying && varying_.count(guards::path_of_size(path, static_cast<int>(i))) > 0;
  return varies;
}

bool Recorder::is_size_that_varies(const Value& value, PyObject* object) const {
  if (value.kind != Value::Kind::kSource || varying_.empty() || !torch::is_size(object)) return false;
  const std::string path = recording_->guards.path(value.a);
  for (int32_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
    if (varying_.count(guards::path_of_item(path, i))) return true;
  }
  return false;
}

// A torch.Size from outside is made again of its numbers.
Operand Recorder::size_operand(uint32_t index, Borrowed object) {
  const std::optional<std::vector<uint32_t>> parts = parts_of(*this, index, object.get());
  if (!parts) return {};
  const Ref numbers = Ref::steal(PySequence_Tuple(object.get()));
  const Operand row = numbers ? operand(container(Value::Kind::kTuple, *parts), numbers.get()) : (PyErr_Clear(), Operand());
  if (!row) return {};
  Plan plan;
  plan.callable = reinterpret_cast<PyObject*>(Py_TYPE(object.get()));
  plan.operands = {row};
  return Operand::node(add_node(plan, object));
}

bool Recorder::has_fixed_sizes(uint32_t index, PyObject* tensor) const {
  const Value& value = recording_->values[index];
  if (value.kind != Value::Kind::kSource) return !sizes_vary_ || value.kind == Value::Kind::kConstant;
  return bits_of(sizes_that_vary(value.a, tensor)) == 0;
}

void Recorder::depends_on_torch() {
  if (states_.empty()) return;
  std::move(states_.begin(), states_.end(), std::back_inserter(guards().states));
  states_.clear();
  fix_class(torch::tensor_type());
}

void Recorder::depends_on_kernels() {
  std::move(kernels_.begin(), kernels_.end(), std::back_inserter(guards().states));
  kernels_.clear();
}

void Recorder::depends_on_transforms() {
  if (std::exchange(looks_at_transforms_, true)) return;
  recording_->transforms = torch::transforms_now();
  std::vector<torch::State> states = torch::transform_states();
  std::move(states.begin(), states.end(), std::back_inserter(guards().states));
}

void Recorder::keep_torch_modes() {
  if (recording_->torch_modes.empty()) recording_->torch_modes = torch::present_modes();
}

// Elements of a container that is live as `object`.
static PyObject* element_of(PyObject* object, size_t i) {
  if (PyTuple_CheckExact(object)) return PyTuple_GET_ITEM(object, i);
  if (PyList_CheckExact(object)) return PyList_GET_ITEM(object, i);
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return i == 0 ? slice->start : i == 1 ? slice->stop : slice->step;
}

Operand Recorder::container_operand(uint32_t index, Borrowed object) {
  for (const auto& [known_value, made] : built_) {
    if (known_value == index) return made;
  }
  // None for one that is inside of itself.
  const size_t place = built_.size();
  built_.emplace_back(index, Operand());
  const Value value = recording_->values[index];
  const std::vector<uint32_t> parts = copied_elements(value);
  std::vector<Operand> operands;
  bool constant_parts = value.kind != Value::Kind::kList;
  for (size_t i = 0; i < parts.size(); i++) {
    PyObject* part = element_of(object.get(), i);
    // Numbers that shape an index are facts of the recording; others stay inputs.
    if (value.kind == Value::Kind::kSlice || (value.kind == Value::Kind::kTuple && PyLong_CheckExact(part))) {
      if (recording_->values[parts[i]].kind == Value::Kind::kSource) {
        if (known(parts[i], part)) {
          operands.push_back(Operand::constant(recording_->values[constant(part)].a));
          continue;
        }
      }
    }
    operands.push_back(operand(parts[i], part));
    if (!operands.back()) return {};
    constant_parts = constant_parts && operands.back().space == Operand::Space::kConstant;
  }
  Operand made;
  if (constant_parts) {
    made = Operand::constant(recording_->values[constant(object)].a);
  } else {
    const Form form = value.kind == Value::Kind::kTuple ? Form::kTuple : value.kind == Value::Kind::kList ? Form::kList : Form::kSlice;
    made = Operand::node(add_plain_node(form, 0, nullptr, std::move(operands), object));
  }
  return built_[place].second = made;
}

}  // namespace evalframe::recorder
