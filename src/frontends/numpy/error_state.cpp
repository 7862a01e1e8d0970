#include "frontends/numpy/error_state.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "core/made_once.h"

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

// The variable of the context that holds it; null where it can't be read.
Borrowed state_variable() {
  static MadeOnce<Ref> variable;
  const auto find = [] {
    const Ref module = umath();
    Ref found = Ref::steal(module ? PyObject_GetAttrString(module.get(), "_extobj_contextvar") : nullptr);
    if (!found) PyErr_Clear();
    return found;
  };
  return variable.get(find).get();
}

int conditions_of(Borrowed states) {
  int reported = 0;
  for (const auto& [flag, name] : kFlags) {
    PyObject* const state = states ? PyDict_GetItemString(states.get(), name) : nullptr;
    if (!state || PyUnicode_CompareWithASCIIString(state, "ignore") != 0) reported |= flag;
  }
  return reported;
}

bool is_told(PyObject* what) {
  return what && PyUnicode_Check(what) && (PyUnicode_CompareWithASCIIString(what, "call") == 0 || PyUnicode_CompareWithASCIIString(what, "log") == 0);
}

bool any_is_told(Borrowed states) {
  return std::any_of(std::begin(kFlags), std::end(kFlags), [&](const auto& flag) { return states && is_told(PyDict_GetItemString(states.get(), flag.second)); });
}

// A state, which never changes once it is made, and what it says.
struct Known {
  Ref state;
  int reported = 0;
  bool tells = false;
};

// Entries of short loops would take longer for a dict of names than for all else: it is read once for each state.
Known present() {
  static MadeOnce<std::unique_ptr<Known>> last;
  PyObject* current = nullptr;
  const Borrowed variable = state_variable();
  if (variable && PyContextVar_Get(variable.get(), nullptr, &current) < 0) PyErr_Clear();
  Ref state = Ref::steal(current);
  Known& known = *last.get([] { return std::make_unique<Known>(); });
  if (state && state.get() == known.state.get()) return {Ref(), known.reported, known.tells};
  const Ref states = error_states();
  if (!states) PyErr_Clear();
  const int reported = conditions_of(states.get());
  const bool tells = any_is_told(states.get());
  if (states && state) {
    known.reported = reported;
    known.tells = tells;
    const Ref before = std::exchange(known.state, std::move(state));
  }
  return {Ref(), reported, tells};
}

}  // namespace

int reported_conditions() { return present().reported; }

bool tells_program() { return present().tells; }

bool will_tell_program(PyObject* error_state) {
  constexpr const char* kKept[] = {"_all", "_divide", "_over", "_under", "_invalid"};
  return std::any_of(std::begin(kKept), std::end(kKept), [&](const char* name) {
    const Ref what = Ref::steal(PyObject_GetAttrString(error_state, name));
    if (!what) PyErr_Clear();
    return is_told(what.get());
  });
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
