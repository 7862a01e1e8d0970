// What torch's modules and objects have under a name.
#pragma once

#include "core/kept_name.h"
#include "core/ref.h"

namespace evalframe::torch {

// Null, without an exception, where there is no such attribute.
inline Ref attribute(PyObject* object, const char* name) {
  Ref found = Ref::steal(PyObject_GetAttr(object, kept_name(name)));
  if (!found) PyErr_Clear();
  return found;
}

// ... of a module that the program has imported with torch: to import it again would take a hundred times as long as to ask what it has.
inline Ref attribute_of(const char* module, const char* name) {
  Ref found = Ref::borrow(PyDict_GetItemWithError(PyImport_GetModuleDict(), kept_name(module)));
  if (!found && !PyErr_Occurred()) found = Ref::steal(PyImport_ImportModule(module));
  if (!found) PyErr_Clear();
  return found ? attribute(found.get(), name) : Ref();
}

}  // namespace evalframe::torch
