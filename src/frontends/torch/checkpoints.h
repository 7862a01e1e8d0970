// torch.utils.checkpoint, which keeps nothing of what a function computes and calls it once more when gradients are asked for: two marks
// around the function's operations in a graph (python/evalframe/torch/checkpoints.py makes a module of what is between them).
#pragma once

#include <cstddef>

#include "core/ref.h"

namespace evalframe::torch {

// begin_checkpoint(function, arguments, keywords, compiling, preserve_rng_state): what torch does in front of the function. Gives what
// end_checkpoint(begun) is to be told. If `compiling`, nothing is done: what is called again for gradients had another answer from
// torch.compiler.is_compiling() than what is recorded. In a graph it is called with `preserve_rng_state` alone, and does nothing.
PyObject* begin_checkpoint();
PyObject* end_checkpoint();
// follows_checkpoint(function): whether a call is to stand between marks: not of a function of which a recording has been dropped before.
PyObject* follows_checkpoint();
// 1: the callable begins one; -1: ends one; 0: neither.
int checkpoint_step(PyObject* callable);

// How many this thread has begun and not ended. `leave` ends those behind so many; no exception is set.
size_t open_checkpoints();
void leave_checkpoints(size_t count);
// Of the functions that this thread has begun to call since then, in order: no call of one, by its code, is to be followed again.
void forget_checkpoints();
void follow_no_more(size_t which);

}  // namespace evalframe::torch
