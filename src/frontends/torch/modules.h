// torch.nn.Module: what a recording knows of it without following its methods.
#pragma once

#include "core/ref.h"

namespace evalframe::torch {

// Module.__getattr__, which looks for a name among what a module keeps (evalframe/torch/modules.py has asked what its code does).
void watch_module_getattr(Borrowed function);
// Whether the function is that one, with that code.
bool is_module_getattr(PyObject* function);

}  // namespace evalframe::torch
