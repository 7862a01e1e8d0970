#include "frontends/torch/modules.h"

namespace evalframe::torch {

namespace {

struct Watched {
  Ref function, code;
};

Watched& getattr() {
  static Watched& kept = *new Watched;  // it outlives the interpreter's objects
  return kept;
}

}  // namespace

void watch_module_getattr(Borrowed function) { getattr() = {Ref::borrow(function), Ref::borrow(function.as<PyFunctionObject>()->func_code)}; }

bool is_module_getattr(PyObject* function) {
  const Watched& watched = getattr();
  return watched.function.get() == function && function && reinterpret_cast<PyFunctionObject*>(function)->func_code == watched.code.get();
}

}  // namespace evalframe::torch
