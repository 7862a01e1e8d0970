// Which objects are arrays and which calls may become graph nodes: NumPy's part of the recorder's rules.
#pragma once

#include "core/ref.h"
#include "graph/graph.h"

namespace evalframe::numpy {

// An exact ndarray, or an exact NumPy scalar, of an element type that graphs know.
bool is_array(PyObject* object);
bool is_exact_array(PyObject* object);
bool is_scalar(PyObject* object);
// A stream of random numbers: numpy.random.Generator or RandomState.
bool is_random_generator(PyObject* object);
// Methods of theirs: one that is bound, or a function of the class.
bool is_bound_to_random_generator(PyObject* callable);
bool is_method_of_random_generators(PyObject* callable);
// numpy.errstate: making one, entering and leaving it are calls like any other of NumPy's.
bool is_error_state(const PyTypeObject* type);
// What NumPy itself has under the name, also where the program has put something else there; null, without an exception: nothing.
Ref own_attribute(const char* name);
// One of NumPy's own element types, as it is: native, without fields or metadata.
bool is_plain_dtype(PyObject* object);
// numpy.True_ or numpy.False_.
Borrowed truth_scalar(bool truth);
// Whether a dtype object, or one of its fields, has metadata, which NumPy passes on to results and leaves out of comparisons.
bool has_metadata(PyObject* descr);
// The element type of a dtype object in native byte order and without metadata; kNone for any other object.
graph::DType dtype_of(PyObject* object);
// A type's name of which NumPy warns each time that it reads it: the code `a`, with or without a size.
bool is_warned_of(PyObject* name);
// NumPy's number of an element type; -1 for kNone.
int type_number(graph::DType dtype);
// NumPy's own dtype object of an element type.
Ref dtype_object(graph::DType dtype);

// What calling `callable` does, as far as recording is concerned.
enum class CallKind : uint8_t {
  kUnknown,   // may do anything
  kUfunc,     // pure; dtype and rank of the result follow from those of the arguments
  kOpaque,    // may be called as it is inside a graph; its result's metadata is checked
  kLength,    // len()
  kPure,      // a builtin that looks at its arguments only: on values known here, its result is known here
  kTypeTest,  // isinstance, type, callable: depends on the arguments' types only
};
CallKind call_kind(Borrowed callable);

// Methods of arrays and NumPy scalars whose result's metadata follows from the arguments'.
bool result_follows(Borrowed callable);
// Attributes of arrays: those that follow from metadata alone (shape, ndim, size, nbytes, itemsize), and all that may be read in a graph.
bool is_metadata_attribute(Borrowed name);
bool is_array_attribute(Borrowed name);

}  // namespace evalframe::numpy
