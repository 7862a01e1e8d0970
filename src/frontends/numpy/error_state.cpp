#include "frontends/numpy/error_state.h"

#include <utility>

namespace evalframe::numpy {

namespace {

constexpr std::pair<int, const char*> kFlags[] = {{1, "divide"}, {2, "over"}, {4, "under"}, {8, "invalid"}};

Ref umath() {
  const Ref name = Ref::steal(PyUnicode_FromString("numpy._core.umath"));
  return name ? Ref::steal(PyImport_GetModule(name.get())) : Ref();
}

// np.errstate as it stands, read by the C function below np.geterr: in Python code a signal's handler could raise, and
// the caller has no use for an exception.
Ref error_states() {
  const Ref module = umath();
  return module ? Ref::steal(PyObject_CallMethod(module.get(), "_get_extobj_dict", nullptr)) : Ref();
}

}  // namespace

int reported_conditions() {
  const Ref states = error_states();
  if (!states) PyErr_Clear();
  int reported = 0;
  for (const auto& [flag, name] : kFlags) {
    PyObject* const state = states ? PyDict_GetItemString(states.get(), name) : nullptr;
    if (!state || PyUnicode_CompareWithASCIIString(state, "ignore") != 0) reported |= flag;
  }
  return reported;
}

// As numpy.errstate's __enter__ and __exit__ do (numpy/_core/_ufunc_config.py).
Ref raising_state(int conditions) {
  const Ref module = umath(), states = Ref::steal(PyDict_New()), nothing = Ref::steal(PyTuple_New(0));
  const Ref make = Ref::steal(module ? PyObject_GetAttrString(module.get(), "_make_extobj") : nullptr);
  if (!make || !states || !nothing) return Ref();
  for (const auto& [flag, name] : kFlags) {
    const Ref what = Ref::steal(PyUnicode_FromString(conditions & flag ? "raise" : "ignore"));
    if (!what || PyDict_SetItemString(states.get(), name, what.get()) < 0) return Ref();
  }
  return Ref::steal(PyObject_Call(make.get(), nothing.get(), states.get()));
}

InErrorState::InErrorState(Borrowed state) {
  const Ref module = umath();
  variable_ = Ref::steal(module && state ? PyObject_GetAttrString(module.get(), "_extobj_contextvar") : nullptr);
  if (variable_) token_ = Ref::steal(PyContextVar_Set(variable_.get(), state.get()));
}

InErrorState::~InErrorState() {
  if (!token_) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyContextVar_Reset(variable_.get(), token_.get()) < 0) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
}

}  // namespace evalframe::numpy
