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

PyObject* ask_new(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2 || !PyTuple_Check(arguments[1])) return PyErr_Format(PyExc_TypeError, "a result and a tuple of arguments are wanted");
  return PyBool_FromLong(is_new(arguments[0], arguments[1]));
}

}  // namespace

bool is_apply_of_function(PyObject* callable) {
  const bool of_class = PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && PyType_Check(PyCFunction_GET_SELF(callable));
  return of_class && is_watched() && apply_of_functions() && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == apply_of_functions();
}

Ref forward_of_function(PyObject* type) {
  const Ref function = attribute_of("torch.autograd", "Function");
  const Ref plain = function ? attribute(function.get(), "setup_context") : Ref(), own = attribute(type, "setup_context");
  if (!plain || plain.get() != own.get()) return Ref();
  Ref forward = attribute(type, "forward");
  return forward && PyFunction_Check(forward.get()) ? std::move(forward) : Ref();
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
