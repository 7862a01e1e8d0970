// torch.set_default_device and `with torch.device(...)`: a mode that sees each call of torch and does nothing but name a device to
// functions that make tensors (torch/utils/_device.py). Unlike other modes it is no reason to leave calls alone.
#pragma once

#include "core/ref.h"

namespace evalframe::torch {

// The device that such a mode names in this thread, where no other mode sees calls; None elsewhere.
Ref default_device();

// A function of C's without arguments that gives it. Borrowed, it lives as long as the process.
PyObject* asks_default_device();

}  // namespace evalframe::torch
