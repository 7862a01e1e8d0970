// torch.nn.Module: what a recording knows of it without following its methods.
#pragma once

#include "core/ref.h"

namespace evalframe::torch {

// Module.__getattr__, which looks for a name among what a module keeps (evalframe/torch/modules.py has asked what its code does).
void watch_module_getattr(Borrowed function);
// Whether the function is that one, with that code.
bool is_module_getattr(PyObject* function);
// has_tied_tensors(module): whether a parameter or buffer has two names in the module and those in it: what Module.named_parameters and
// named_buffers with remove_duplicate=False would tell. True, too, of modules that it can't look into.
PyObject* has_tied_tensors();

}  // namespace evalframe::torch
