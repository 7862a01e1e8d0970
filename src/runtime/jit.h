// The jit object: a callable that checks guards before any frame exists.
#pragma once

#include <memory>

#include "cpython/entry_frame.h"
#include "runtime/capture.h"

namespace evalframe::runtime {

// Makes the type (once) and adds it to the module as `Jit`. False with an exception.
bool add_jit_type(PyObject* module);
// Calls of instances of a class that has `call_stand_in` as its `__call__` go to what that calls without a look-up in the class, until one of the methods changes.
void take_calls(PyTypeObject* type);
// The Capture behind a jit object; null (TypeError) for anything else.
std::shared_ptr<Capture> capture_of(Borrowed jit);

// The frame, at its entry, makes a generator, whose stretches are to be the capture's. owner: stands for the capture; null at first.
void take_generator(const cpython::EntryFrame& frame, const std::shared_ptr<Capture>& capture, Ref& owner);

}  // namespace evalframe::runtime
