// Binds the arguments of a call to a Python function's parameters, as CPython does when it makes the frame.
#pragma once

#include "core/ref.h"
#include "cpython/frame.h"

namespace evalframe::evaluator {

// Fills the parameters' slots (the first of localsplus, in its order) of `localsplus_out`, which has room for all of
// localsplus. `args`, `nargsf` and `kwnames` are a vectorcall's. False without an exception: the call doesn't fit, and
// CPython must be left to raise (call the function normally); false with one: out of memory.
bool bind_arguments(Borrowed function, PyObject* const* args, size_t nargsf, Borrowed kwnames, Ref* localsplus_out);

// The same, into the slots of a new frame, which is left with the slots that were filled.
bool bind_into(cpython::Frame* frame, Borrowed function, PyObject* const* args, size_t nargsf, Borrowed kwnames);

}  // namespace evalframe::evaluator
