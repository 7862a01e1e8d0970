#include "frontends/torch/checkpoints.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/c_function.h"
#include "frontends/torch/names.h"

namespace evalframe::torch {

namespace {

// What end_checkpoint is told, and a generator that stands in the midst of torch's part.
struct Begun {
  Ref token, generator;
};
// Not destroyed where a thread ends, which may not touch objects then.
std::vector<Begun>& begun() {
  thread_local auto* const all = new std::vector<Begun>();
  return *all;
}

// What is called in the end: a function's code, or a type.
Ref code_of(PyObject* callable) {
  Ref function = Ref::borrow(callable);
  while (!PyFunction_Check(function.get())) {
    Ref inner = PyMethod_Check(function.get()) ? Ref::borrow(PyMethod_GET_FUNCTION(function.get())) : attribute(function.get(), "func");
    if (!inner) inner = attribute(function.get(), "forward");  // of a module
    if (!inner) return Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(function.get())));
    function = std::move(inner);
  }
  return Ref::borrow(PyFunction_GET_CODE(function.get()));
}

// Those that this thread has begun.
std::vector<Ref>& called() {
  thread_local auto* const all = new std::vector<Ref>();
  return *all;
}

// Lives as long as the process, and so does the code.
std::unordered_map<PyObject*, Ref>& not_followed() {
  static auto* const made = new std::unordered_map<PyObject*, Ref>();
  return *made;
}

PyObject* follows(PyObject*, PyObject* function) { return PyBool_FromLong(!not_followed().contains(code_of(function).get())); }

// checkpoint's defaults: neither contexts nor other checks, no report, and an end as soon as all is there.
Ref generator_of(PyObject* const* arguments) {
  const Ref maker = attribute_of("torch.utils.checkpoint", "_checkpoint_without_reentrant_generator");
  const Ref contexts = attribute_of("torch.utils.checkpoint", "noop_context_fn"), check = attribute_of("torch.utils.checkpoint", "_DEFAULT_DETERMINISM_MODE");
  if (!maker || !contexts || !check) return PyErr_SetString(PyExc_RuntimeError, "torch.utils.checkpoint has other parts than those of torch 2.13"), Ref();
  const Ref own = Ref::steal(PyTuple_Pack(6, arguments[0], arguments[4], contexts.get(), check.get(), Py_False, Py_True));
  const Ref all = own ? Ref::steal(PySequence_Concat(own.get(), arguments[1])) : Ref();
  return all ? Ref::steal(PyObject_Call(maker.get(), all.get(), arguments[2])) : Ref();
}

// Whether the generator has come to its next step; false where it has ended, or raised.
bool goes_on(PyObject* generator) { return static_cast<bool>(Ref::steal(PyIter_Next(generator))); }

PyObject* begin(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 1) Py_RETURN_NONE;
  if (count != 5 || !PyTuple_Check(arguments[1]) || !PyDict_Check(arguments[2])) return PyErr_Format(PyExc_TypeError, "a function, a tuple, a dict and two bools are wanted");
  called().push_back(code_of(arguments[0]));
  if (arguments[3] == Py_True) Py_RETURN_NONE;
  Ref generator = generator_of(arguments), token = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  if (!generator || !token || !goes_on(generator.get())) return nullptr;
  begun().push_back({Ref::borrow(token.get()), std::move(generator)});
  return token.release();
}

PyObject* end(PyObject*, PyObject* token) {
  std::vector<Begun>& all = begun();
  const auto found = std::find_if(all.begin(), all.end(), [token](const Begun& one) { return one.token.get() == token; });
  if (found == all.end()) Py_RETURN_NONE;
  const Begun ended = std::move(*found);
  all.erase(found);
  goes_on(ended.generator.get());
  if (PyErr_Occurred()) return nullptr;
  Py_RETURN_NONE;
}

}  // namespace

PyObject* begin_checkpoint() { return c_function<begin>("begin_checkpoint"); }
PyObject* end_checkpoint() { return c_function<end>("end_checkpoint"); }

PyObject* follows_checkpoint() { return c_function<follows>("follows_checkpoint"); }

void forget_checkpoints() { called().clear(); }

void follow_no_more(size_t which) {
  if (which < called().size()) not_followed().try_emplace(called()[which].get(), Ref::borrow(called()[which].get()));
}

int checkpoint_step(PyObject* callable) { return callable == begin_checkpoint() ? 1 : callable == end_checkpoint() ? -1 : 0; }

size_t open_checkpoints() { return begun().size(); }

void leave_checkpoints(size_t count) {
  while (begun().size() > count) {
    const Begun last = std::move(begun().back());
    begun().pop_back();
    if (!Ref::steal(PyObject_CallMethod(last.generator.get(), "close", nullptr))) PyErr_WriteUnraisable(last.generator.get());
  }
}

}  // namespace evalframe::torch
