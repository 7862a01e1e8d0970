#include "frontends/numpy/error_state.h"

#include <utility>

#include "core/ref.h"

namespace evalframe::numpy {

// np.errstate as it stands, read by the C function below np.geterr: in Python code a signal's handler could raise, and
// the caller has no use for an exception.
static Ref error_states() {
  const Ref name = Ref::steal(PyUnicode_FromString("numpy._core.umath"));
  const Ref module = name ? Ref::steal(PyImport_GetModule(name.get())) : Ref();
  return module ? Ref::steal(PyObject_CallMethod(module.get(), "_get_extobj_dict", nullptr)) : Ref();
}

int reported_conditions() {
  constexpr std::pair<int, const char*> kFlags[] = {{1, "divide"}, {2, "over"}, {4, "under"}, {8, "invalid"}};
  const Ref states = error_states();
  if (!states) PyErr_Clear();
  int reported = 0;
  for (const auto& [flag, name] : kFlags) {
    PyObject* const state = states ? PyDict_GetItemString(states.get(), name) : nullptr;
    if (!state || PyUnicode_CompareWithASCIIString(state, "ignore") != 0) reported |= flag;
  }
  return reported;
}

}  // namespace evalframe::numpy
