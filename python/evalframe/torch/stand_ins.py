"""Python functions in the place of torch's C functions that call back, as those of `evalframe.stand_ins`."""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
import torch.amp.grad_scaler
import torch.distributions.utils
import torch.fx.traceback
import torch.nn.utils.stateless
import torch.optim.swa_utils
import torch.utils.checkpoint as torch_checkpoint
from torch.autograd import forward_ad
from torch.autograd.function import Function, FunctionCtx

from evalframe import _core
from evalframe.torch.autograd_functions import finish_of

_cuda, _forward_ad = torch.cuda, forward_ad
_isinstance, _tuple, _type, _getattr, _Tensor = isinstance, tuple, type, getattr, torch.Tensor
_set_grad_enabled: Any = torch._C._set_grad_enabled  # type: ignore[attr-defined, unused-ignore]
_is_new_result = _core.is_new_result
# Stubs of what C makes don't say what it is called with.
_begin: Any = _core.begin_checkpoint
_end: Any = _core.end_checkpoint
_follows: Any = _core.follows_checkpoint
_is_grad_enabled, _is_compiling = torch.is_grad_enabled, torch.compiler.is_compiling
_base: Any = torch._C._FunctionBase  # type: ignore[attr-defined, unused-ignore]
_bind_apply = vars(_base)["apply"].__get__


class _Context(FunctionCtx):  # type: ignore[misc, unused-ignore]
    """What a forward gets that is followed: the core has looked that it asks for nothing else."""

    needs_input_grad: tuple[bool, ...] = ()


_TOLD = "to_save", "saved_for_forward", "dirty_tensors", "non_differentiable", "materialize_grads"
_MISSING = object()
_IMMUTABLE = bool, int, float, complex, str, bytes, _type(None), torch.Size, torch.dtype, torch.device
_plain_setup: Any = Function.setup_context


def _needs(arguments: Any) -> Any:
    needs = []
    for argument in arguments:
        needs.append(_isinstance(argument, _Tensor) and argument.requires_grad)
    return _tuple(needs)


def _attributes(context: Any, names: Any) -> tuple[Any, Any]:
    there, values = [], []
    for name in names:
        value = _getattr(context, name, _MISSING)
        if value is not _MISSING:
            there.append(name)
            values.append(value)
    return _tuple(there), _tuple(values)


def _is_kept(value: Any) -> bool:
    """Whether a graph gives the context the object itself, or one that nothing tells from it."""
    return _type(value) in _IMMUTABLE or _isinstance(value, _Tensor)


def _is_plain(context: Any, names: Any, result: Any, arguments: Any) -> bool:
    """Whether torch gives the results of the forward as they are, and a graph can tell what the context has got."""
    plain = True
    for name in names:
        value: Any = _getattr(context, name, None)
        for part in value if _type(value) is _tuple else (value,):
            plain = plain and _is_kept(part)
    plain = plain and _getattr(context, "dirty_tensors", None) is None
    for part in _getattr(context, "non_differentiable", ()):
        plain = plain and _isinstance(part, _Tensor)
    for part in result if _isinstance(result, _tuple) else (result,):
        plain = plain and _is_new_result(part, arguments)
    return plain


def _put_in(tensors: Any, result: Any) -> Any:
    """A graph has a call give tensors; other results are known."""
    if not _isinstance(result, _tuple):
        return tensors
    place, parts = 0, []
    for part in result:
        if _isinstance(part, _Tensor):
            parts.append(tensors[place])
            place += 1
        else:
            parts.append(part)
    return _tuple(parts)


def _uncaptured_finish(cls: Any, *told: Any) -> Any:
    return finish_of(cls).apply(*told)


def autograd_apply(cls: Any, finish: Any, names: Any, /, *arguments: Any) -> Any:
    """Where gradients are recorded, ``finish`` makes the results such that go backward, and ``names`` are those of the
    attributes that the class sets in its context; None where they aren't."""
    # As THPFunction_apply (torch/csrc/autograd/python_function.cpp).
    if _forward_ad._current_level >= 0:
        return _bind_apply(None, cls)(*arguments)
    context = _Context()
    context.needs_input_grad = _needs(arguments)
    if names is not None:
        _set_grad_enabled(False)
    try:
        if cls.setup_context is _plain_setup:
            result = cls.forward(context, *arguments)
        else:
            result = cls.forward(*arguments)
            cls.setup_context(context, arguments, result)
        plain = _is_plain(context, names or (), result, arguments)
    finally:
        if names is not None:
            _set_grad_enabled(True)
    if not plain:
        there, values = _attributes(context, _TOLD if names is None else (*_TOLD, *names))
        return _uncaptured_finish(cls, (result,), there, values, *arguments)
    if names is not None:
        there, values = _attributes(context, (*_TOLD, *names))
        result = _put_in(finish((result,), there, values, *arguments), result)
    return (*result,) if _isinstance(result, _tuple) else result


_checkpoint = torch_checkpoint.checkpoint
_no_contexts, _DETERMINISM = torch_checkpoint.noop_context_fn, torch_checkpoint._DEFAULT_DETERMINISM_MODE


def _uncaptured_checkpoint(*args: Any, **kwargs: Any) -> Any:
    return _checkpoint(*args, **kwargs)


def checkpoint(
    function: Any,
    *args: Any,
    use_reentrant: Any = None,
    context_fn: Any = _no_contexts,
    determinism_check: Any = _DETERMINISM,
    debug: Any = False,
    early_stop: Any = True,
    preserve_rng_state: Any = True,
    **kwargs: Any,
) -> Any:
    """What is called again when gradients are asked for stands between two marks (frontends/torch/checkpoints.h)."""
    plain = use_reentrant is False and context_fn is _no_contexts and debug is False and early_stop is True
    plain = plain and determinism_check == _DETERMINISM and (preserve_rng_state is True or preserve_rng_state is False)
    plain = plain and torch_checkpoint._checkpoint_debug_enabled is None
    if not plain or torch_checkpoint._enable_checkpoint_early_stop is not None or not _follows(function):
        if use_reentrant is not None:
            kwargs["use_reentrant"] = use_reentrant
        # What is called again then isn't captured, and answered otherwise whether it's compiling.
        call = _uncaptured_checkpoint if _is_compiling() else _checkpoint
        return call(
            function,
            *args,
            context_fn=context_fn,
            determinism_check=determinism_check,
            debug=debug,
            early_stop=early_stop,
            preserve_rng_state=preserve_rng_state,
            **kwargs,
        )
    if not _is_grad_enabled():
        return function(*args, **kwargs)
    begun = _begin(function, args, kwargs, _is_compiling(), preserve_rng_state)
    result = function(*args, **kwargs)
    _end(begun)
    return result


_is_bf16_supported: Any = torch.cuda.is_bf16_supported


def _has_bf16(device: int, including_emulation: bool) -> bool:
    with torch.cuda.device(device):
        return bool(_is_bf16_supported(including_emulation))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """What ``torch.autocast`` asks: objects of torch's C++ tell of a device, and never otherwise."""
    if not _cuda.is_available():
        return False
    return _has_bf16(_cuda.current_device(), including_emulation)


_group: Any = torch._C._group_tensors_by_device_and_dtype  # type: ignore[attr-defined, unused-ignore]
_len, _list, _float32, _float64 = len, list, torch.float32, torch.float64


def _uncaptured_group(*arguments: Any) -> Any:
    return _group(*arguments)


def group_tensors(lists: Any, *rest: Any) -> Any:
    """What optimizers ask in front of operations on lists: as a rule there is one group."""
    # As _group_tensors_by_first_tensors_device_and_dtype (aten/src/ATen/native/ForeachUtils.h).
    plain = _len(rest) == 1 and (rest[0] is True or rest[0] is False) and _type(lists) is _list and _len(lists) > 0
    for tensors in lists if plain else ():
        plain = plain and _type(tensors) is _list and (tensors is not lists[0] or _len(tensors) > 0)
        plain = plain and (_len(tensors) == _len(lists[0]) or _len(tensors) == 0)
    first: Any = lists[0][0] if plain else None
    plain = plain and _isinstance(first, _Tensor)
    for number, tensors in enumerate(lists if plain else ()):
        for tensor in tensors:
            if tensor is None:
                plain = plain and number > 0
            elif not _isinstance(tensor, _Tensor):
                plain = False
            elif tensor.device != first.device or tensor.dtype != first.dtype:
                is_step = tensor.device.type == "cpu" and tensor.dtype in (_float32, _float64)
                plain = plain and number > 0 and is_step
    if not plain:
        return _uncaptured_group(lists, *rest)
    same = [_list(tensors) for tensors in lists]
    return {(first.device, first.dtype): (same, _list(range(_len(lists[0]))) if rest[0] else [])}


_pytree: Any = torch.utils._pytree
_broadcast_to_and_flatten: Any = getattr(_pytree, "_broadcast_to_and_flatten", None)
_tree_structure, _tree_map, _tree_unflatten = _pytree.tree_structure, _pytree.tree_map_, _pytree.tree_unflatten


def broadcast_to_and_flatten(tree: Any, spec: Any, is_leaf: Any = None) -> Any:
    """What ``vmap`` asks for: torch's own function makes annotations anew, with each call."""

    def add_leaves(x, subtree):  # type: ignore[no-untyped-def]
        leaves.extend([x] * _tree_structure(subtree, is_leaf=is_leaf).num_leaves)

    full_tree = _tree_unflatten([0] * spec.num_leaves, spec)
    leaves: list[Any] = []
    try:
        _tree_map(add_leaves, tree, full_tree, is_leaf=is_leaf)
        return leaves
    except ValueError:
        return None


_untie: Any = getattr(torch.nn.utils.stateless, "_untie_named_tensors_map", None)
_has_tied_tensors: Any = _core.has_tied_tensors


def _uncaptured_untie(*arguments: Any) -> Any:
    return _untie(*arguments)


def untie_named_tensors_map(module: Any, parameters_and_buffers: Any) -> Any:
    """What ``functional_call`` asks first, of each tensor: as a rule none has two names in the module."""
    if _type(parameters_and_buffers) is not dict or _has_tied_tensors(module):
        return _uncaptured_untie(module, parameters_and_buffers)
    return parameters_and_buffers.copy()


_record_function: Any = torch.autograd.profiler.record_function
_end_record: Any = _record_function.__exit__
_tell_end: Any = torch.ops.profiler._record_function_exit._RecordFunction


def _uncaptured_end(*arguments: Any) -> Any:
    return _end_record(*arguments)


def end_record(record: Any, *raised: Any) -> Any:
    """How what the profiler was told of ends: no subclass of tensors has a say in it."""
    plain = record._cupti_monitor_external_id is None and record.run_callbacks_on_exit is True
    if not plain or record.record is None:
        return _uncaptured_end(record, *raised)
    _tell_end(record.record)
    return None


_annotate: Any = getattr(torch.fx.traceback, "annotate", None)
_nullcontext = contextlib.nullcontext


def annotate(annotation: Any) -> Any:
    """What tracers of torch's are to note of nodes that they make: recorded ones they don't."""
    return _nullcontext()


def is_compiling() -> bool:
    """What ``torch.compiler.is_compiling()`` is under ``torch.compile``: for who has asked for that."""
    return True


_lazy_view: Any = getattr(torch.distributions.utils, "_lazy_property_and_property", None)
"""What a class gives for a lazy property, anew each time; distributions ask when they check their parameters."""


def _functions_of(holder: Any, names: str) -> list[Any]:
    """Without what decorates them, whose code others share."""
    return [inspect.unwrap(vars(holder)[name]) for name in names.split() if name in vars(holder)]


_ASIDE = [
    *_functions_of(torch.autograd, "grad backward"),
    *_functions_of(torch, "manual_seed seed save load"),
    *_functions_of(torch.nn.Module, "state_dict load_state_dict"),
    *_functions_of(torch.optim.Optimizer, "state_dict load_state_dict"),
    *_functions_of(torch.amp.grad_scaler.GradScaler, "_unscale_grads_ update"),
    *_functions_of(torch.optim.swa_utils.AveragedModel, "update_parameters"),
]
"""What can't be part of a graph, and is one break as a whole: followed, it would be one for each step of its own."""


def add_stand_ins() -> None:
    for function in _ASIDE:
        _core.set_policy(function, "uncaptured")
    _core.set_policy(_has_bf16, "constant")
    if _lazy_view is not None:
        _core.set_policy(_lazy_view, "constant")
    uncaptured = _uncaptured_checkpoint, _uncaptured_finish, _uncaptured_group, _uncaptured_untie, _uncaptured_end
    for function in uncaptured:
        _core.set_policy(function, "uncaptured")
    rows: dict[Any, tuple[Any, int]] = {
        torch.cuda.is_bf16_supported: (is_bf16_supported, -1),
        torch.compiler.is_compiling: (is_compiling, -2),
        _checkpoint: (checkpoint, -3),
        _group: (group_tensors, -1),
        _broadcast_to_and_flatten: (broadcast_to_and_flatten, -1),
        _untie: (untie_named_tensors_map, -1),
        _end_record: (end_record, -1),
        _annotate: (annotate, -3),
    }
    rows.pop(None, None)  # private functions of torch's that this one hasn't got
    _core.add_stand_ins({"autograd_apply": (autograd_apply, -1), **rows})
