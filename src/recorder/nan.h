// Numbers that are equal to nothing, and that containers find by identity.
#pragma once

#include <Python.h>

namespace evalframe::recorder {

// Whether the object is a NaN of Python's, or a tuple with one.
bool holds_nan(PyObject* object);

}  // namespace evalframe::recorder
