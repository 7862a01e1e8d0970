// The arrays that enter a segment: whether they are ordinary, may be written, and stand apart in memory.
#pragma once

#include <Python.h>

#include "backends/native/lower/lower.h"

namespace evalframe::native {

// Whether an object is an aligned array of NumPy's own class, and of the type and rank that were recorded.
bool is_ordinary_array(PyObject* object, const graph::Meta& meta);
LeafShape shape_of(PyObject* array);
// Whether the arrays that the segment writes may be written, and hold nothing else that it reads.
bool can_write(const Segment& segment, PyObject* const* leaves);
// Notes for each leaf that is written whether another stands in its memory.
void find_alone(const Segment& segment, PyObject* const* leaves, LeafShape* shapes);

}  // namespace evalframe::native
