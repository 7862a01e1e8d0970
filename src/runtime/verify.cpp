#include "runtime/verify.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/effects.h"
#include "cpython/objects.h"
#include "cpython/variables.h"
#include "frontends/numpy/calls.h"
#include "frontends/numpy/numpy_api.h"
#include "graph/graph.h"
#include "runtime/pending_exception.h"

namespace evalframe::runtime {

bool Verification::on_ = false;
bool Verification::always_ = false;

bool Verification::configure(const char* wanted) {
  always_ = wanted && std::strcmp(wanted, "all") == 0;
  on_ = always_ || (wanted && std::strcmp(wanted, "1") == 0);
  return on_ || !wanted || !*wanted || std::strcmp(wanted, "0") == 0;
}

bool Verification::is_due(uint64_t hit) {
  constexpr uint64_t kNowAndThen = 100;
  return always_ || std::has_single_bit(hit) || hit % kNowAndThen == 0;
}

namespace {

// Whether all that the node does is to write into an array.
bool only_writes(const graph::Graph& graph, const graph::Node& node) {
  const graph::Meta* const first = node.count ? graph.meta_of(graph.operands_of(node)[0]) : nullptr;
  switch (node.form) {
    case graph::Form::kSetItem:
    case graph::Form::kBinary: return first && first->kind == graph::Kind::kArray;
    case graph::Form::kCall: return numpy::call_kind(graph.constants[node.callable].get()) == numpy::CallKind::kUfunc;
    default: return false;
  }
}

}  // namespace

bool Verification::can_be_run_twice(const recorder::Recording& recording) {
  if (!recording.returns || !recording.names.empty() || recording.iterator >= 0) return false;
  return std::all_of(recording.graph.nodes.begin(), recording.graph.nodes.end(), [&](const graph::Node& node) {
    return backends::effect_of(recording.graph, node) != backends::Effect::kEffect || only_writes(recording.graph, node);
  });
}

bool ArraySnapshot::take(const guards::Objects& objects, size_t count) {
  for (size_t i = 0; i < count; i++) {
    PyObject* const object = objects.read(i);
    if (!object || !PyArray_CheckExact(object) || !PyArray_ISWRITEABLE(numpy::as_array(object))) continue;
    Ref copy = Ref::steal(PyArray_NewCopy(numpy::as_array(object), NPY_KEEPORDER));
    if (!copy) return false;
    arrays_.push_back(Ref::borrow(object));
    contents_.push_back(std::move(copy));
  }
  return true;
}

bool ArraySnapshot::exchange() {
  std::vector<Ref> now;
  for (const Ref& array : arrays_) now.push_back(Ref::steal(PyArray_NewCopy(array.as<PyArrayObject>(), NPY_KEEPORDER)));
  for (size_t i = 0; i < arrays_.size(); i++) {
    if (!now[i] || PyArray_CopyInto(arrays_[i].as<PyArrayObject>(), contents_[i].as<PyArrayObject>()) < 0) return false;
  }
  contents_ = std::move(now);
  return true;
}

static Ref call_verify(const char* name) {
  const Ref module = Ref::steal(PyImport_ImportModule("evalframe.verify"));
  return module ? Ref::steal(PyObject_CallMethod(module.get(), name, nullptr)) : Ref();
}

QuietErrors::QuietErrors() : state_(call_verify("quiet")) {
  if (state_ && !Ref::steal(PyObject_CallMethod(state_.get(), "__enter__", nullptr))) state_ = Ref();
}
QuietErrors::~QuietErrors() {
  const PendingException pending;
  if (state_ && !Ref::steal(PyObject_CallMethod(state_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None))) PyErr_WriteUnraisable(state_.get());
}

CameOfIt CameOfIt::of(Ref result) {
  CameOfIt came{std::move(result), {}};
  if (!came.result) came.raised = cpython::take_raised();
  return came;
}

namespace {

Ref list_of(const std::vector<Ref>& objects) {
  Ref list = Ref::steal(PyList_New(0));
  for (const Ref& object : objects) {
    if (!list || PyList_Append(list.get(), object.get()) < 0) return Ref();
  }
  return list;
}

// {parameter: what it was given}, in order.
Ref arguments_of(Borrowed function, PyObject* const* parameters) {
  const auto* code = reinterpret_cast<PyCodeObject*>(function.as<PyFunctionObject>()->func_code);
  const int count = cpython::argument_count(function.as<PyFunctionObject>()->func_code);
  Ref dict = Ref::steal(PyDict_New());
  for (int i = 0; dict && i < count; i++) {
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(code->co_localsplusnames, i), parameters[i]) < 0) return Ref();
  }
  return dict;
}

Ref side(const CameOfIt& came) { return Ref::steal(PyTuple_Pack(2, came.result ? came.result.get() : Py_None, came.raised ? came.raised.get() : Py_None)); }

// The entry, as people read it: [backend, graph, guards, schedule, kernels].
Ref text_of(const Compilation& compilation) {
  std::string guards;
  for (const std::string& line : compilation.recording->guards.describe()) guards += line + "\n";
  return Ref::steal(Py_BuildValue("(sssss)", compilation.backend.c_str(), graph::print(compilation.recording->graph).c_str(), guards.c_str(),
                                  compilation.executable->text().c_str(), compilation.executable->source().c_str()));
}

}  // namespace

bool verify(const Compilation& compilation, Borrowed function, PyObject* const* parameters, const CameOfIt& served, const CameOfIt& plain,
            const ArraySnapshot& written) {
  const Ref module = Ref::steal(PyImport_ImportModule("evalframe.verify"));
  const Ref compare = module ? Ref::steal(PyObject_GetAttrString(module.get(), "agree")) : Ref();
  const Ref arguments = arguments_of(function, parameters), ours = side(served), theirs = side(plain), text = text_of(compilation);
  const Ref arrays = list_of(written.arrays()), contents = list_of(written.contents());
  Ref agree;
  if (compare && arguments && ours && theirs && text && arrays && contents) {
    agree = Ref::steal(PyObject_CallFunctionObjArgs(compare.get(), function.get(), arguments.get(), ours.get(), theirs.get(), arrays.get(), contents.get(), text.get(), nullptr));
  }
  if (!agree) PyErr_WriteUnraisable(function.get());
  return agree.get() != Py_False;
}

}  // namespace evalframe::runtime
