// What an instruction has yet to do with what a Python function gives that it has called: an operator that may be asked of the other
// operand, a length that has to be one. It stands on the caller's stack in the place of the operands until the function returns.
#pragma once

#include <vector>

#include "core/ref.h"

namespace evalframe::evaluator {

// What a rest is made of, and by calling which, with that as a tuple:
// - a name, a number and the operands (kNothing: NULL). The instruction goes on as if the method `name` of the operand of this number
//   had given the result.
// - a bool, a tuple of candidates, and two operands of an operator. The result is turned into whether it isn't true if the bool says so.
//   Is it NotImplemented, the candidates are asked one after the other: (number of the operand, name of the method).
// - None. The instruction leaves None.
// - a number (Resumes) and an object: the instruction is a call that has resumed a generator.
// - Ellipsis, a class, and what it was called with: a tuple, and a dict or None. Its __new__ has given the result: if that is an
//   instance, __init__ of its class is next.
PyObject* rest_type();
inline bool is_rest(PyObject* object) { return object && reinterpret_cast<PyObject*>(Py_TYPE(object)) == rest_type(); }
Ref make_rest(Borrowed parts);
bool is_rest_of_operator(PyObject* rest);
bool is_rest_of_construction(PyObject* rest);
// The instance, or what else __new__ gave. Null with an exception.
Ref finish_construction(PyObject* rest, Ref result);

// What a call that lets a generator go on does with what comes of it.
enum class Resumes : uint8_t {
  kNone,     // it is no such call
  kStop,     // next(g), g.send(...), g.throw(...): StopIteration where it has ended
  kDefault,  // next(g, default): the object, where it has ended
  kClose,    // g.close(): it is to end; the object is the generator
  kLetGo,    // the last reference is gone: the same, and nobody is told
};
Resumes resumes_generator(PyObject* rest);

// An object whose method `name` gives `result`, and which keeps the one that it stands for.
Ref stand_in(PyObject* name, PyObject* result, PyObject* object);

// What the operator gives. Null with an exception.
struct Operator {
  bool compares;
  int number;  // as the instruction has it
};
Ref finish_operator(PyObject* rest, Operator which, Ref result);

}  // namespace evalframe::evaluator
