// The jit object: a callable that checks guards before any frame exists.
#pragma once

#include <memory>

#include "cpython/entry_frame.h"
#include "runtime/capture.h"

namespace evalframe::runtime {

// Makes the type (once) and adds it to the module as `Jit`. False with an exception.
bool add_jit_type(PyObject* module);
// The Capture behind a jit object; null (TypeError) for anything else.
std::shared_ptr<Capture> capture_of(Borrowed jit);

// The frame, at its entry, makes a generator, whose stretches are to be the capture's. owner: stands for the capture; null at first.
void take_generator(const cpython::EntryFrame& frame, const std::shared_ptr<Capture>& capture, Ref& owner);

}  // namespace evalframe::runtime
