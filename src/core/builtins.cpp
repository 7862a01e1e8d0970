// Keeps a copy of the dict of the module builtins.
#include "core/builtins.h"

namespace evalframe {
namespace {

PyObject* builtins = nullptr;

}  // namespace

void remember_builtins() {
  if (!builtins) builtins = PyDict_Copy(PyModule_GetDict(PyImport_AddModule("builtins")));
}

Borrowed builtin(const char* name) { return PyDict_GetItemString(builtins, name); }

}  // namespace evalframe
