// What calling torch's functions and methods does, as far as recording is concerned: known by the objects themselves.
#pragma once

#include <cstdint>
#include <span>

#include "core/ref.h"

namespace evalframe::torch {

enum class CallKind : uint8_t {
  kUnknown,    // may do anything
  kOperation,  // its results are tensors, whose metadata follows from that of its arguments
  kDescribed,  // one of the program's, which it has described to torch.library: `results_follow` says whether that holds for it
  kNoted,      // tells torch's profiler, of which operations on tensors see nothing: gives an object that stands for what was told, or nothing
  kFact,       // a Python value that follows from element types and the like, and from what the guards ask of the thread
  kLayout,     // one that follows from the rank and the order of dimensions
  kSize,       // one that follows from sizes: of tensors whose sizes vary, an operation
  kState,      // changes whether later operations record gradients
  kMode,       // changes what later operations of the thread do, and gives nothing
  kNesting,    // the same, and gives what is the same in each run, as a rule
  kValue,      // a Python value or a size that depends on elements
  kAsked,      // a Python value that the guards ask for, as it depends on what isn't recorded
  kItself,     // gives the plain tensor that it gets
  kTransform,  // begins or ends a transformation of torch.func, or changes what these do, and gives what follows from transform_states()
  kTransformState,  // a Python value that follows from these
  kTracks,     // has a transformation look at the tensor that it gets, which it has wrapped, and gives that
  kMark,       // does nothing in a graph, and says where something begins or ends (frontends/torch/checkpoints.h)
};
// kUnknown also where tensors aren't looked at. `is_torchs`: the callable is one of torch's, whatever its kind.
CallKind call_kind(PyObject* callable);
// Operators of torch.ops are of these types (a tuple). kind_of and follow: evalframe/torch/operators.py.
void watch_operators(Borrowed types, Borrowed kind_of, Borrowed follow);
bool results_follow(PyObject* callable, std::span<PyObject* const> arguments, PyObject* keyword_names);
bool is_torchs(PyObject* callable);
// abs, sum and the like, and what the module operator has.
bool is_builtin_operation(PyObject* callable);
// Of an attribute of tensors.
CallKind attribute_kind(Borrowed name);
// Whether the callable writes into its arguments, or draws random numbers: it mustn't be called twice.
bool has_effect(PyObject* callable);
// ... and whether it draws, which is all that it does unless it is in place or an argument says so: `out`, `inplace`.
bool draws(PyObject* callable);
// ... and one that writes into its first argument, and gives that, by its name.
bool is_in_place(PyObject* callable);
// Recurrent layers, which torch's backends can't trace: they stand between graphs.
bool is_recurrent(PyObject* callable);
// Whether it is attention, or tells which of its kernels there may be.
bool is_of_attention(PyObject* callable);
bool changes_gradient_mode(PyObject* callable);
// ... or anything else that holds in the thread: what backends make of a graph depends on it when they make it.
bool changes_mode(PyObject* callable);
// torch._C._InferenceMode, which torch.inference_mode() makes, enters and leaves; and a method of one, which is a function of C's: null, where it has none.
bool is_inference_mode(PyObject* type);
PyObject* method_of_inference_mode(PyObject* object, PyObject* name);
int enters_inference_mode(PyObject* method);  // 1; -1: it leaves it; 0: neither
int nesting_of(PyObject* callable);  // 1: it goes one step into autocast; -1: out of it

}  // namespace evalframe::torch
