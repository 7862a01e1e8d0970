#include "frontends/torch/autograd.h"

#include <utility>

#include "core/c_function.h"
#include "frontends/torch/names.h"
#include "frontends/torch/tensors.h"

namespace evalframe::torch {

namespace {

// torch._C._FunctionBase.apply, unbound.
PyMethodDef* apply_of_functions() {
  static PyMethodDef* const found = [] {
    const Ref base = attribute_of("torch._C", "_FunctionBase");
    const Ref names = base ? attribute(base.get(), "__dict__") : Ref();
    const Ref apply = names ? Ref::steal(PyMapping_GetItemString(names.get(), "apply")) : Ref();
    if (!apply) PyErr_Clear();
    return apply && Py_IS_TYPE(apply.get(), &PyClassMethodDescr_Type) ? apply.as<PyMethodDescrObject>()->d_method : nullptr;
  }();
  return found;
}

// The class of the context that a forward gets, which is the class of the node that goes backward.
Ref context_class(PyObject* type) { return attribute(type, "_backward_cls"); }

// A static method of the class's own, in Python; null: it is torch.autograd.Function's, or another callable.
Ref own_function(PyObject* type, const char* name) {
  const Ref function = attribute_of("torch.autograd", "Function");
  const Ref plain = function ? attribute(function.get(), name) : Ref();
  Ref own = attribute(type, name);
  return own && own.get() != plain.get() && PyFunction_Check(own.get()) ? std::move(own) : Ref();
}

PyObject* ask_new(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(arguments[1])) return PyErr_Format(PyExc_TypeError, "a result and a tuple of arguments are wanted");
  return PyBool_FromLong(is_new(arguments[0], arguments[1]));
}

}  // namespace

bool is_apply_of_function(PyObject* callable) {
  const bool of_class = PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && PyType_Check(PyCFunction_GET_SELF(callable));
  return of_class && is_watched() && apply_of_functions() && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == apply_of_functions();
}

Ref told_context(PyObject* type) {
  Ref setup = own_function(type, "setup_context");
  return setup ? std::move(setup) : own_function(type, "forward");
}

Ref backward_of_function(PyObject* type) { return own_function(type, "vjp") ? Ref() : own_function(type, "backward"); }

Ref finish_of_function(PyObject* type) {
  const Ref maker = attribute_of("evalframe.torch.autograd_functions", "finish_of");
  Ref made = maker ? Ref::steal(PyObject_CallOneArg(maker.get(), type)) : Ref();
  if (!made) PyErr_Clear();
  return made;
}

bool is_of_autograd(PyObject* code) {
  const Ref wrapper = attribute_of("torch.autograd.function", "once_differentiable");
  if (!wrapper || !PyFunction_Check(wrapper.get())) return false;
  const auto file = [](PyObject* of) { return reinterpret_cast<PyCodeObject*>(of)->co_filename; };
  return PyUnicode_Compare(file(code), file(PyFunction_GET_CODE(wrapper.get()))) == 0;
}

bool is_of_any_context(PyObject* type, PyObject* name, bool stores) {
  if (PyUnicode_CompareWithASCIIString(name, "needs_input_grad") == 0) return !stores;
  const Ref methods = attribute_of("torch.autograd.function", "FunctionCtx"), context = context_class(type);
  if (!methods || !context) return false;
  return stores ? !PyObject_HasAttr(context.get(), name) : PyObject_HasAttr(methods.get(), name);
}

bool is_new(PyObject* result, PyObject* arguments) {
  if (!PyObject_TypeCheck(result, reinterpret_cast<PyTypeObject*>(tensor_type()))) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) {
    if (PyTuple_GET_ITEM(arguments, i) == result) return false;
  }
  const Ref needs = attribute(result, "requires_grad"), asks = attribute(result, "_is_view");
  const Ref view = asks ? Ref::steal(PyObject_CallNoArgs(asks.get())) : Ref();
  if (!view) PyErr_Clear();
  return needs.get() == Py_False && view.get() == Py_False;
}

PyObject* is_new_result() { return c_function<ask_new>("is_new_result"); }

}  // namespace evalframe::torch
