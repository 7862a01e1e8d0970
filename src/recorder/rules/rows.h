// Tuples and lists of the recorded code's that a graph makes for its own use.
#pragma once

#include <Python.h>

namespace evalframe::recorder {

// Whether such a row would have copies of what the program may write into, so that no element of it may come out of the graph.
bool holds_copies(PyObject* row);

}  // namespace evalframe::recorder
