// torch.autograd.Function: how its classes are called, and what makes a call of one plain.
#pragma once

#include "core/ref.h"

namespace evalframe::torch {

// The `apply` in C that torch.autograd.Function.apply ends in, bound to a class.
bool is_apply_of_function(PyObject* callable);
// The function that is told the context: `forward`, or `setup_context` where the class has one. Null: it is none of Python's.
Ref told_context(PyObject* type);
// The function that goes backward. Null: it is none of Python's, or goes by another name.
Ref backward_of_function(PyObject* type);
// What makes results those of the class's `apply` (evalframe/torch/autograd_functions.py).
Ref finish_of_function(PyObject* type);
// Whether the code is torch.autograd.function's own.
bool is_of_autograd(PyObject* code);
// Whether an object of any class would do for the context, where the attribute is read, or (stores) set.
bool is_of_any_context(PyObject* type, PyObject* name, bool stores);
// is_new(result, arguments): whether apply gives the result of a forward as it is, where no gradients are recorded: it is no tensor, or one that
// needs none, is no view, and none of the arguments. Borrowed; it lives as long as the process.
PyObject* is_new_result();
bool is_new(PyObject* result, PyObject* arguments);

}  // namespace evalframe::torch
