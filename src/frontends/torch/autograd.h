// torch.autograd.Function: how its classes are called, and what makes a call of one plain.
#pragma once

#include "core/ref.h"

namespace evalframe::torch {

// The `apply` in C that torch.autograd.Function.apply ends in, bound to a class.
bool is_apply_of_function(PyObject* callable);
// The class's `forward`, where it is a static method that takes the context, and nothing else has a say in the call; null: another one.
Ref forward_of_function(PyObject* type);
// Whether an object of any class would do for the context, where the attribute is read, or (stores) set.
bool is_of_any_context(PyObject* type, PyObject* name, bool stores);
// is_new(result, arguments): whether apply gives the result of a forward as it is, where no gradients are recorded: it is no tensor, or one that
// needs none, is no view, and none of the arguments. Borrowed; it lives as long as the process.
PyObject* is_new_result();
bool is_new(PyObject* result, PyObject* arguments);

}  // namespace evalframe::torch
