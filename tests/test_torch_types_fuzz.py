"""Expressions and statements on tensors, each in one function that is called with values of many kinds in random order, while modes are
others and modules, parameters and containers change between the calls: whatever was recorded with one of them, the others come to what
they come to plainly."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import operator
import random
import re
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import evalframe.torch

pytestmark = pytest.mark.filterwarnings("ignore")


class Sub(torch.Tensor):
    pass


class Taken:
    @classmethod
    def __torch_function__(cls, *call: Any, **more: Any) -> str:
        return "taken"


Pair = collections.namedtuple("Pair", "a b")


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


class Slots:
    __slots__ = ("x",)
    __init__ = Plain.__init__


@dataclasses.dataclass
class Data:
    x: Any
    y: Any = 3


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: Any
    y: Any


class Prop(Plain):
    log: list[str] = []

    @property
    def value(self) -> Any:
        return self.x

    @value.setter
    def value(self, x: Any) -> None:
        self.x = x

    @functools.cached_property
    def cached(self) -> Any:
        return self.x + 1

    double = property(lambda self: self.x * 2)


class Called(Plain):
    count = 0

    def __call__(self, y: Any) -> Any:
        self.count += 1
        return self.x + y


class Indexed:
    def __init__(self) -> None:
        self.log: list[Any] = []

    def __getitem__(self, key: Any) -> Any:
        return 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.log.append(value)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.scale, self.flag, self.names, self.kept = 2.0, False, ["a", "b"], counted(3)
        self.register_buffer("count", torch.zeros(()))
        self.weight = nn.Parameter(counted(3))
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
        self.table = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Linear(3, 3)})

    def forward(self, x: Any) -> Any:
        x = self.inner(x) * self.scale + self.weight
        if self.training:
            self.count += 1
        for layer in self.layers:
            x = layer(x)
        for name in self.names:
            x = self.table[name](x)
        return x + self.kept if self.flag else x


@contextlib.contextmanager
def manager(x: Any) -> Iterator[Any]:
    yield x * 2


def counted(*shape: int, start: float = 0.0) -> Any:
    return (torch.arange(math.prod(shape), dtype=torch.float32) * 0.75 - 1 + start).reshape(shape)


def leaf(x: Any) -> Any:
    return x.detach().clone().requires_grad_()


def having(tensor: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


def overlapping() -> Any:
    x = counted(4)
    return [x, x[1:3]]


def generator() -> Iterator[Any]:
    yield counted(3)
    yield counted(3)


def parted(text: str) -> list[str]:
    return [each.strip() for line in text.strip().splitlines() for each in line.split(" | ")]


# Each makes a value anew.
VALUES = parted("""
counted(2, 3) | counted(2, 3, start=3) | counted(3, 3) | counted(3, 4) | counted(4, 2) | leaf(counted(2, 3)) | leaf(counted(3, 3)) | leaf(counted(2, 3)) * 2
leaf(counted(4, 3))[1:3] | (leaf(counted(3, 2)) * 1).t() | leaf(counted(2, 3)).detach() | counted(3, 2).t() | counted(4, 6)[::2, ::2] | counted(3).expand(2, 3)
counted(2, 1).expand(2, 3) | counted(3, 3)[1:] | counted(3) | counted(2) | leaf(counted(3)) | counted(6)[::2] | counted(1) | counted(1, 3) | counted(2, 1)
torch.tensor(1.5) | torch.tensor(0.0) | leaf(torch.tensor(1.5)) | torch.tensor(1) | torch.tensor(True) | torch.tensor(2.5, dtype=torch.float64) | counted(0, 3)
counted(0) | counted(2, 0) | counted(2, 3, 2) | counted(1, 2, 3, 3) | counted(2, 2, 3, 3).to(memory_format=torch.channels_last) | counted(1, 2, 2, 2, 2)
torch.tensor([[1, 0, 2], [2, 1, 0]]) | torch.tensor([1, 0]) | torch.tensor([0, 1, 1], dtype=torch.int32) | torch.tensor([1, 0], dtype=torch.uint8)
torch.tensor([[True, False, True], [False, True, False]]) | torch.tensor([True, False]) | counted(2, 3).double() | leaf(counted(2, 3).double()) | counted(2, 3).half()
counted(2, 3).bfloat16() | torch.complex(counted(2, 3), counted(2, 3)) | leaf(torch.complex(counted(2, 3), counted(2, 3))) | torch.complex(counted(2, 3), counted(2, 3)).conj()
torch.complex(counted(2, 3), counted(2, 3)).conj().imag | counted(2, 3).to_sparse() | counted(2, 3).to_sparse_csr() | counted(2, 3).to("meta")
torch.quantize_per_tensor(counted(2, 3), 0.5, 0, torch.qint8) | torch.nested.nested_tensor([counted(2), counted(3)]) | nn.Parameter(counted(2, 3)) | nn.Parameter(counted(3))
nn.Parameter(counted(2, 3), requires_grad=False) | nn.Buffer(counted(2, 3)) | counted(2, 3).as_subclass(Sub) | torch.inference_mode()(counted)(2, 3)
torch.tensor([[float("nan"), float("inf"), -0.0], [0.0, -float("inf"), 1e30]]) | having(leaf(counted(2, 3)), grad=counted(2, 3)) | having(counted(2, 3), x=counted(2))
2 | 0 | -1 | 2.5 | float("nan") | True | None | 2 + 1j | "sum" | "cpu" | (2, 3) | (0, 1) | [0, 1] | [] | () | [[1, 2], [3, 4.0]] | [True, False] | slice(0, 1) | ...
slice(None, None, -1) | slice(1, None, 2) | (..., 0) | (None, 0) | (slice(None), [0, 1]) | range(2) | np.int64(1) | np.float32(1.5) | np.bool_(True) | np.arange(6.0).reshape(2, 3)
np.array([1.0, 2.0, 3.0], dtype=np.float32) | np.array([1, 0]) | torch.float32 | torch.float64 | torch.int64 | float | torch.device("cpu") | torch.Size([2, 3])
[counted(2, 3), counted(2, 3, start=2)] | (counted(2, 3), leaf(counted(2, 3))) | [counted(3), counted(3), counted(3)] | (torch.tensor([0, 1]), torch.tensor([1, 2]))
(torch.tensor([0, 1]), slice(0, 2)) | (torch.tensor([True, False]), 0) | [counted(2, 3)] * 2 | overlapping() | {"a": counted(2, 3), "b": leaf(counted(2, 3))} | {"x": counted(3)}
Pair(counted(2, 3), counted(2, 3)) | [[counted(3)], [counted(3, start=1)]] | torch.sin | F.relu | lambda x: x * 2 | nn.ReLU() | nn.Linear(3, 3) | torch.Tensor | Sub
torch.Generator().manual_seed(3) | Taken() | torch.contiguous_format | torch.channels_last | generator() | torch.sort(counted(2, 3))
""")
CLASSES = {"float", "torch.Tensor", "Sub"}  # which some would store into
SECOND = ["counted(2, 3)", "2", "counted(3)", "the same", "a view of it", "a part of it"]

EXPRESSIONS = r"""
s + t | s - t | t - s | s * t | s / t | s // t | s % t | s ** t | t ** s | s @ t | s & t | s |t | s ^ t | s << 1 | -s, +s, ~s | s == t | s != t | s < t, s >= t | s is t
s and t | s or t | not s | abs(s), round(s) | divmod(s, t) | pow(s, t) | pow(s, 2, t) | sum([s, t]) | sum(s) | max(s) | max(s, t) | min(s, default=1) | sorted(s)
list(s) | tuple(s) | [*s, *t] | list(reversed(s)) | list(enumerate(s)) | list(zip(s, t)) | list(map(torch.neg, s)) | dict(s) | {s: 1}[t] | {s: 1, t: 2} | s in [t]
s in (t, 1) | [t].index(s) | [s, t].count(s) | t in s | 1.0 in s | len(s) | float(s) | int(s) | bool(s) | complex(s) | str(s) | repr(s) | f'{s}' | f'{s:.2f}' | '%s' % s
'%.3f' % s | '{}'.format(s) | hash(s) == hash(t) | iter(s) | next(iter(s)) | isinstance(s, torch.Tensor)
isinstance(s, nn.Parameter), isinstance(s, torch.FloatTensor), isinstance(s, (int, float)) | type(s) is torch.Tensor, type(s) == type(t)
torch.is_tensor(s), torch.is_floating_point(s) | callable(s), hasattr(s, 'shape'), getattr(s, 'ndim', None) | hasattr(s, 'x'), getattr(s, 'x', 0) | s.shape == t.shape
s.shape, s.dtype, s.device, s.ndim, s.layout | s.shape[0] + s.size(-1) | s.numel() * 2, s.dim(), s.stride(), s.element_size() | s._version | s.grad | s.data
s.is_contiguous(), s.storage_offset() | s.itemsize, s.nbytes | s.names | s.T | s.mT, s.H | s.real, s.imag | s.x | s.item() | s.tolist() | s.numpy() | np.asarray(s)
np.array(s) | np.sin(s) | np.add(s, t) | torch.tensor(s) | torch.tensor([s, t]) | torch.tensor(s, dtype=t) | torch.tensor(2.5), s | torch.as_tensor(s)
torch.as_tensor(s) is s | torch.asarray(s) | torch.from_numpy(s) | torch.Size(s) | torch.zeros(s) | torch.ones(s, t) | torch.full((2,), s) | torch.full(s, t)
torch.zeros_like(s) | torch.arange(s) | torch.arange(s, t) | torch.linspace(0, s, 3) | torch.eye(s) | torch.randn(s) | torch.rand(2, generator=s) | torch.randint(0, 5, s)
torch.rand_like(s) | torch.randperm(4), s | torch.normal(s, 1.0) | torch.bernoulli(s.clamp(0, 1)) | torch.stack([s, t]) | torch.cat([s, t]) | torch.cat(s)
torch.stack(s) | torch.cat([s, t], dim=-1) | torch.hstack((s, t)) | torch.where(s > 0, s, t) | torch.where(s, 1.0, t) | torch.where(s) | torch.einsum('ij,kj->ik', s, t)
torch.broadcast_tensors(s, t) | torch.meshgrid(s, t, indexing='ij') | torch.split(s, 1) | s.split([1, 1]) | s.chunk(2) | s.unbind() | s.sum(t)
s.sum(dim=-1, keepdim=True) | s.mean(), s.std(), s.var(unbiased=False) | s.max(0) | s.max(0).values | s.max(dim=0)[1] | s.sort(descending=True) | s.topk(1) | s.norm()
s.norm(dim=-1, keepdim=True) | s.reshape(-1) | s.reshape(t) | s.view(-1) | s.view(t) | s.view(3, -1) | s.expand(2, 2, 3) | s.expand(t) | s.expand_as(t) | s.permute(1, 0)
s.transpose(0, -1) | s.to(t) | s.to(torch.float64) | s.to('cpu') is s | s.float() is s, s.double() is s | s.contiguous() is s | s.type(t) | s.type() | s.type_as(t)
s.clone() is s | s.detach() is s | s.contiguous() | s.to(t, copy=True) | s[t] | s[t, 0] | s[0, t] | s[..., t] | s[None, t] | s[:, t] | s[t:] | s[:t] | s[::t] | s[t, t]
s[[t]] | s[0] | s[-1] | s[5] | s[0, 1] | s[0:1] | s[1:, ::2] | s[::-1] | s[None] | s[...] | s[..., None] | s[True] | s[False] | s[[0, 1]] | s[[True, False]] | s[(0, 1)]
s[torch.tensor(1)] | s[s > 0] | s[s > 0, None] | s[range(1)] | s[np.int64(0)] | s[np.array([0, 1])] | s['a'] | s[1.0] | A[s] | A[s, t] | A[:, s] | [1, 2, 3][s]
[1, 2, 3][s:] | (1, 2, 3)[s] | 'abc'[s] | {'a': 1, 2: 3, 1: 4}[s] | {'a': 1, 1: 4}.get(s, t) | [1] * s | range(s) | list(range(s)) | A + s | s * A | A @ s
torch.add(A, s, alpha=t) | torch.add(s, t, out=A) | A.add_(s) | A.copy_(s) | A.to(s) | A.sum(s) | A.reshape(s) | A.expand(s) | A.view(s) | A.clamp(s, t) | A.softmax(s)
A.index_select(0, s) | A.gather(1, s) | A.scatter(1, s, t) | A.masked_fill(s, t) | A.pow(s) | A.where(s, t) | P * s | P.sum() + s | F.linear(s, P, None) | F.linear(s, t)
F.softmax(s, dim=-1) | F.softmax(s, t) | F.relu(s) | F.relu(s, inplace=True) | F.relu_(s) | F.gelu(s), F.silu(s) | F.dropout(s, 0.5) | F.dropout(s, 0.5, t)
F.dropout(s, 0.0) | F.dropout(s, 0.5, False) | F.dropout(s, 0.5, True, True) | F.dropout(s, t, True) | F.layer_norm(s, (3,)) | F.layer_norm(s, t) | F.mse_loss(s, t)
F.cross_entropy(s, t) | F.binary_cross_entropy_with_logits(s, t) | F.embedding(s, A) | F.embedding(s, P) | F.embedding(torch.tensor([1]), s, max_norm=0.5)
F.pad(s, (1, 1)) | F.pad(s, t) | F.normalize(s) | F.one_hot(s) | F.interpolate(s, scale_factor=2) | F.max_pool2d(s, 2) | F.batch_norm(s, A[0], A[1] + 5, training=True)
F.batch_norm(s, A[0], A[1] + 5) | F.conv2d(s, counted(2, 2, 2, 2)) | F.scaled_dot_product_attention(s, s, s) | F.hardtanh(s, -1, 1, True) | F.gumbel_softmax(s) | lin(s)
lin(s) * 2 | bn(s) | drop(s) | net(s) | net(s).sum() | net(net(s)) | net.inner(s) | net.scale | net.training, net.flag | net.weight * s | net.count + s | net.layers[0](s)
net.layers[s] | net.table['a'](s) | [p for p in net.parameters()] | [n for n, p in net.named_parameters()] | len(net.layers), s | dict(net.named_buffers())
net.state_dict() | net.inner.weight @ s | net.inner.bias | seq(s) | emb(s) | ln(s) | nn.Linear(3, 3)(s) | nn.ReLU()(s) | nn.Parameter(s) | nn.Buffer(s)
nn.Sequential(nn.Linear(3, 2), nn.ReLU())(s) | s(A) | s(t) | s.forward(t) | s.weight | cfg['t'] + s | cfg['k'] | cfg | cfg.get('k', s) | len(cfg), s | rows[0] + s
torch.stack(rows) | sum(rows) | [r * 2 for r in rows] | rows | rows[s] | n * s | s * n + n | s[:n] | torch.zeros(n) + s | A | A, s | A * P | P | P.grad
P.requires_grad, A.shape | copy.copy(s) | copy.deepcopy(s) | operator.add(s, t) | operator.iadd(s, t) | operator.imul(s, t) | operator.setitem(s, 0, t)
operator.getitem(s, t) | operator.matmul(s, t) | operator.eq(s, t) | operator.contains(s, t) | operator.index(s) | operator.is_(s, t)
functools.reduce(operator.add, [s, t]) | functools.reduce(torch.maximum, s) | functools.partial(torch.add, s)(t) | list(map(torch.sin, [s, t]))
list(map(lambda x: x * 2, s)) | [x * 2 for x in s] | [x.sum() for x in s] | {k: v * 2 for k, v in s.items()} | {**s} | (lambda x: x + 1)(s) | Pair(s, t)
Pair(s, t).a * 2 | s.a * 2 | s['a'] * 2 | s[0] * 2, s[1] * 3 | torch.func.vmap(torch.sin)(s) | torch.func.vmap(lambda x: x * 2 + 1)(s) | torch.func.vmap(torch.dot)(s, t)
torch.func.grad(lambda x: (x ** 2).sum())(s) | torch.func.grad(lambda x: (x * t).sum())(s) | torch.func.jacrev(lambda x: x * 2)(s) | torch.func.vjp(torch.sin, s)[1](t)
torch.func.jvp(torch.sin, (s,), (t,)) | torch.func.functional_call(lin, {'weight': t}, (s,)) | torch.func.functional_call(net, dict(net.named_parameters()), (s,))
torch.autograd.grad(s.sum() * 2, s) | torch.autograd.grad((s * s).sum(), s, create_graph=True)
torch.utils.checkpoint.checkpoint(lambda x: torch.sin(x) * 2, s, use_reentrant=False) | torch.equal(s, t) | torch.allclose(s, t) | torch.isclose(s, t)
torch.is_same_size(s, t) if hasattr(s, 'shape') else None | torch.result_type(s, t) | torch.can_cast(s, t) | torch.promote_types(s, t) | torch.finfo(s)
torch.finfo(s.dtype).eps | torch.device(s) | torch.get_default_dtype() | torch.is_grad_enabled(), torch.is_inference_mode_enabled()
torch.get_autocast_dtype('cpu'), torch.is_autocast_enabled('cpu') | torch.nn.utils.clip_grad_norm_([P], 1.0) | torch.nn.utils.parameters_to_vector(net.parameters())
torch.utils._pytree.tree_map(lambda x: x, s) | torch._foreach_add([s], [t]) | torch._foreach_mul_([s, A], 2) | torch._foreach_add_([s], t) | torch.view_as_real(s)
torch.bincount(s) | torch.unique(s) | torch.nonzero(s) | torch.argmax(s), torch.argmax(s, -1) | torch.any(s), torch.all(s) | torch.lerp(s, t, 0.5) | torch.clamp(s, min=t)
torch.clamp(s, t, 3) | torch.masked_select(s, t) | torch.index_put(s, (t,), s) | torch.complex(s, t) | torch.linalg.inv(s) | torch.linalg.solve(s, t)
torch.linalg.cholesky(s) | torch.Tensor.add(s, t) | torch.Tensor.sum(s) | torch.Tensor.__add__(s, t) | torch.Tensor.add_(s, t) | torch.Tensor.shape.__get__(s)
torch.ops.aten.add(s, t) | torch.ops.aten.mul.Tensor(s, t) | torch.ops.aten.add_(s, t) | s.add(t).mul(2).sub(t) | (s + 1) * (s + 1) | s.__class__ | s.__class__.__name__
vars(s) | s.__dict__ | s.is_view() if hasattr(s, 'is_view') else s._is_view(), s._base | s.is_shared(), s.is_pinned() | s.untyped_storage().nbytes() | s.storage_offset()
s.is_set_to(t) | s.retain_grad() | s.requires_grad_() | s.requires_grad_(False) | s.requires_grad_().requires_grad | s.backward() | s.sum().backward()
s.stride(0), s.size(0), s.size()[0] | s.shape.numel() | s.shape[t] | s.shape[-1:] + (2,) | s.size() == (2, 3) | [*s.shape], tuple(s.shape), list(s.shape)
math.prod(s.shape) | math.sqrt(s) | math.floor(s) | math.isnan(s) | math.sin(s.sum()) | round(float(s), 2) | s.item() * 2 | s.sum().item() + 1 | float(s.sum()) * s
int(s.sum()) | int(s.sum().item()) | bool((s > 0).all()) | s.any().item() | s.max().item() if hasattr(s, 'max') else 0
s.is_complex(), s.is_floating_point(), s.is_signed() | s.is_conj(), s.is_neg(), s.resolve_conj() | s.conj() is s | s.to_dense() | s.coalesce().indices() | s.cpu() is s
s.new_zeros(2), s.new_ones((2,)), s.new_full((2,), 3) | s.new_tensor([1, 2]) | s.fill_diagonal_(5) | s.zero_() | s.fill_(t) | s.uniform_() | s.normal_()
s.bernoulli_(0.5) | s.t_() | s.transpose_(0, 1) | s.detach_() | s.relu_() is s | s.add_(t) is s | s.add_(1).mul_(2) | s.clamp_(0, 1) | s.copy_(t)
s.masked_fill_(s > 0, t) | s.index_fill_(0, torch.tensor([0]), t) | s.index_add_(0, t, A) | s.scatter_(0, t, 5) | s.squeeze(), s.squeeze(0) | s.unsqueeze(t)
s.narrow(0, 0, 1) | s.narrow(0, t, 1) | s.select(0, t) | s.diagonal() | s.view(torch.int32) | s.repeat(2, 1) | s.repeat_interleave(2, dim=0) | s.apply_(lambda x: x + 1)
s.mm(t) | s.matmul(t) | s.bool(), s.int(), s.long(), s.half() | s.sigmoid().log() | s.floor_divide(t) | s.remainder(t) | s.eq(t).all() | s.isnan().any()
s.multinomial(1) | s.to_sparse() | s.allclose(t) | s.element_size(), s.nelement() | torch.set_grad_enabled(False), s * P | net(s), net.training
lin.weight is lin._parameters['weight'], s | lin.weight.T @ s | [p.shape for p in net.parameters()], s | sum(p.sum() for p in net.parameters()) * s
sum(p.numel() for p in net.parameters()), s | net.inner.weight.requires_grad, net.count | net.get_parameter('weight') * s | list(net.modules())[1](s)
getattr(net, 'inner')(s) | hasattr(net, 'missing'), getattr(net, 'missing', s) | net.missing, s | net.inner(s) if hasattr(net, 'inner') else s
net.state_dict()['weight'] + s | str(net), s | repr(lin), s | lin.in_features, lin.bias is None, s | lin.forward(s) | nn.Linear.forward(lin, s) | lin.__call__(s)
type(lin).__call__(lin, s) | torch.nn.Module.__call__(lin, s) | F.linear(s, lin.weight, lin.bias) | F.linear(s, lin.weight.detach(), None) | F.linear(s, lin.weight.data)
lin.weight.data @ s | lin.weight.grad, s | bn.running_mean, bn(s) | bn(s), bn.num_batches_tracked | bn.running_var * s, bn.training
F.batch_norm(s, bn.running_mean, bn.running_var, training=bn.training) | drop(s), drop.training | F.dropout(s, p=drop.p, training=drop.training)
nn.functional.dropout(s, drop.p, net.training) | net.layers[0].weight @ s | [l(s) for l in net.layers] | len(net.layers), net.layers[-1](s)
nn.Sequential(*net.layers)(s) | nn.Sequential(*[lin, nn.ReLU()])(s) | net.table['b'](s), 'a' in net.table, list(net.table.keys()) | net.table.b(s)
[net.table[k](s) for k in net.names] | {k: m(s) for k, m in net.table.items()} | net.kept + s, net.kept | net.names, len(net.names), s | net.scale * s, net.flag
seq[0](s), len(seq), seq[-1] | [m for m in seq][0](s) | seq(s), seq.training | emb.weight[s] | emb(s), emb.num_embeddings | ln(s), ln.eps | P * 2 + s, P.grad
P[0], P.shape, s | P.detach() + s | P.data + s | torch.sum(P) * s | P.T, P.requires_grad, P.is_leaf | nn.Parameter(P) is P, s | A + s, A.shape | A.sum().item() * s
cfg['t'] * s, cfg['k'] | len(rows), rows[0] * s | rows[-1] + s, rows | sum(rows) + s | [r * s for r in rows] | torch.stack(rows).sum(0) + s
net.register_buffer('extra', s), net.extra | net.register_parameter('extra', s) | net.add_module('extra', s), net.extra | net.apply(lambda m: None) is net, s
net.requires_grad_(False) is net, net(s) | net.train(False) is net, net(s) | net.eval()(s), net.training | net.to(torch.float64)(s) | net.double()(s)
net.zero_grad(), net(s) | net.inner.register_forward_hook(lambda *a: None) is None, net(s) | copy.deepcopy(lin)(s) | lin.weight.copy_(s) | lin.weight.data.copy_(s)
lin.weight.requires_grad_(False), lin(s)
"""

# `;` parts their lines.
LINES = r"""
x = [s, t]; x.append(s); return x | x = [s, t]; x.remove(t); return x | x = [s, t]; return x.index(t), x.count(s) | x = [s, t]; x.reverse(); return x
x = [s, t]; x.insert(0, t); return x | x = [s, t]; x[:] = [t]; return x | x = [s, t]; x[0:1] = s; return x | x = [s, t]; x *= 2; return x
x = [s, t]; x += (s,); return x | x = [s, t]; x.extend(s); return x | x = [s, t]; x.extend(y * 2 for y in s); return x | x = [s, t]; del x[0]; return x
x = [s, t]; x.clear(); return x | x = [s, t]; y = x.copy(); y[0] = 1; return x, y | x = [s, t]; x.sort(key=lambda y: y.sum()); return x
x = [s, t]; x.sort(key=len); return x | x = [s, t]; x.sort(); return x | x = [s, t]; return x == [s, t], x == [t, s], x != [s] | x = [s, t]; return x[0] is s, x[-1] is t
x = [s, t]; x[0] += 1; return x, s | x = [s, t]; x[0] = x[0] + 1; return x, s | x = [s, t]; x[1] -= x[0]; return x | x = [s, t]; y = x; y[0] = 3; return x
x = (s, t); return x == (s, t), x < (s, t) | x = (s, t); return x + x, x * 2, x[::-1] | x = (s, t); return s in x, x.index(s) | x = {s, t}; return len(x), s in x
x = {s, t}; x.discard(s); return len(x) | x = {s: 1, t: 2}; return x[s], len(x) | x = {s: 1}; x[t] = 2; return list(x.values()) | x = {s: 1}; return x.get(t, 3), x.pop(s)
x = {s: 1}; x.setdefault(t, []).append(s); return list(x.values()) | x = {id(s): s}; return x[id(s)] | x = {'a': s}; x['a'] += 1; return x, s
x = {'a': s}; x['a'] = x['a'] * 2; x['b'] = t; return x | x = {'a': s, 'b': t}; return {k: v + 1 for k, v in x.items()} | x = {'a': s, 'b': t}; return sum(x.values())
x = {'a': s, 'b': t}; x.pop('a'); return x | x = {'a': s}; x |= {'b': t}; return x | x = {'a': s}; x.update(b=t); return x
x = {'a': s}; return x == {'a': s}, x == {'a': t} | x = collections.defaultdict(list); x['a'].append(s); x['a'].append(t); return x
x = collections.OrderedDict(a=s, b=t); x.move_to_end('a'); return x | x = collections.deque([s, t]); x.append(s); x.popleft(); return x
x = collections.deque([s, t], maxlen=2); x.append(t * 2); return x | x = collections.Counter([s, t]); return len(x) | x = Pair(s, t); return x._replace(a=t), x.b
x = types.SimpleNamespace(a=s); x.a += 1; return x.a, s | x = types.SimpleNamespace(a=s); x.a = x.a * 2; x.b = t; return x.a, x.b, vars(x)
x = Plain(s); x.x += 1; return x.x, s | x = Plain(s); x.x = x.x + 1; return x.x | x = Plain(s); x.y = t; del x.x; return vars(x) | x = Slots(s); x.x += t; return x.x
x = Data(s); return x, x == Data(s) | x = Data(s); return dataclasses.replace(x, x=t).x | x = Data(s); x.x = x.x * 2; return dataclasses.asdict(x)
x = Frozen(s, t); x.x = 1; return x | x = Prop(s); x.value += 1; return x.value, x.log | x = Prop(s); return x.double, x.cached, x.cached
x = Called(s); return x(t), x.count | x = Indexed(); x[s] = t; return x[s], x.log | x = Indexed(); x[0] = s; x[0] += 1; return x.log
x = iter([s, t]); return next(x) * 2, next(x), next(x, 5) | x = iter(s); return next(x) * 2, [y for y in x] | x = zip(s, t); return [a * 2 for a, b in x]
x = enumerate(s); return [i * y for i, y in x] | x = map(lambda a, b: a * b, s, t); return list(x) | x = filter(lambda a: a.sum() > 0, s); return list(x)
x = reversed(s); return list(x) | x = sorted([s, t], key=lambda y: float(y.sum())); return x | x = max([s, t], key=lambda y: y.sum().item()); return x is s, x
x = min(s, t, key=lambda y: y.numel()); return x is s | x = any(y > 0 for y in s); return x | x = all(s > -5); return x | x = sum(y.sum() for y in s); return x
x = sum(s, start=t); return x | x = [*s, *t]; return x | x, *y = s; return x * 2, y | x, y = s, t; x, y = y, x; return x, y | (x, y), z = s, t; return x, y, z
x = y = s; x += 1; return x, y, x is y | x = s; s = t; return x, s | x = s if s is not None else t; return x | x = s is None or s.sum() > 0; return x
x = (y := s * 2) + y; return x, y | x = lambda: s * 2; return x() + x() | x = functools.partial(torch.add, s); return x(t), x(1)
x = functools.reduce(lambda a, b: a + b, [s, t, s]); return x | x = itertools.chain([s], [t]); return [y * 2 for y in x]
x = list(itertools.accumulate([s, t, s])); return x | x = list(itertools.product([s], [t])); return x | x = list(itertools.islice(s, 1)); return x
x = list(itertools.zip_longest(s, t)); return x | x = list(itertools.combinations([s, t, 1], 2)); return x | x = list(itertools.pairwise([s, t, s])); return x
x = list(itertools.repeat(s, 2)); x[0] += 1; return x | x = operator.itemgetter(0, 1)([s, t]); return x | x = operator.methodcaller('add', t)(s); return x
x = copy.copy([s, t]); x[0] += 1; return x, s | x = copy.deepcopy([s, s]); x[0] += 1; return x, s | x = copy.deepcopy({'a': s}); return x
x = copy.copy(Plain(s)); x.x = 2; return x.x, s | x = f'{s.shape} {t}'; return x | x = '%s' % (s,); return x | x = str([s, t]); return x | x = repr({'a': s}); return x
x = isinstance(s, (torch.Tensor, list)); return x, type(s).__name__ | x = getattr(s, 'T', None); return x | x = hasattr(s, 'requires_grad'); return x and s.requires_grad
x = callable(s); return x | x = bool(s.numel()); return x, s | x = len(s) + len(t); return x | x = s.shape[0] if s.ndim else 0; return x, [0] * x
x = range(s.size(0)); return [s[i] for i in x] | x = list(range(*s.shape)); return x | x = torch.Size([2]) + s.shape; return x, type(x)
x = s.shape + t.shape; return x, type(x) | x = s.shape; a, *b = x; return a, b, x[1:], x[-1]
x = s.shape; return x.count(2), x.index(3), 2 in x, max(x), sum(x), sorted(x) | x = s.size(); y = list(x); y[0] = 9; return x, y
x = s.stride(); return x, type(x), x[::-1] | x = str(s.dtype), str(s.device), repr(s.layout); return x
x = s.dtype; return x == t.dtype, x is torch.float32, x in (torch.float32, torch.int64), {x: 1}[x]
x = s.dtype; return x.is_floating_point, x.is_complex, x.itemsize, x.to_complex(), x.is_signed | x = torch.finfo(s.dtype); return x.max, x.eps, x.dtype
x = s.type(); return x, s.type(x) is s | x = s.is_cuda or s.is_sparse; return x | x = s.grad is None; return x | x = s.grad_fn is not None and s.grad_fn.name(); return x
x = s.is_leaf and s.requires_grad; return x | x = id(s) == id(t); return x | x = s is t, s is not t, s is s; return x | x = s == s, s != s; return x
x = s == None, None == s; return x | x = s == 'a', 'a' != s; return x | x = s < 2 < t; return x | x = 0 < s; return x | x = not s; return x | x = s and t; return x
x = s or t; return x | x = -s; x += 1; return x, s | x = abs(s), +s, ~s; return x | x = round(s), math.floor(s), math.ceil(s), math.trunc(s); return x
x = divmod(s, 2), s // 2, s % 2; return x | x = 2 ** s, s ** 2, pow(s, 3); return x | x = 1 / s, 1 // s, 1 % s, 1 - s; return x
x = s @ s.T if s.ndim == 2 else s; return x | x = s << 1, s >> 1, s & 1, s |1, s ^ 1; return x | x = True + s, s * False, s + None; return x
x = s + 1j, s * (1 + 1j), s == 1j; return x | x = s + np.float64(1), np.float64(1) + s, np.int64(2) * s; return x | x = s + np.ones(3), np.ones(3) + s; return x
x = np.ones(3, np.float32) * s; return x | x = np.array([1, 2]) * s; return x | x = s.numpy() + 1; return x | x = s.numpy(); s += 1; return x
x = np.asarray(s); x[0] = 1; return s | x = torch.from_numpy(np.ones(3)); x += s; return x | x = torch.tensor(np.ones(3)); return x + s
x = torch.tensor([1, 2, 3.5]); return x * s | x = torch.tensor([[s, t]]); return x | x = torch.tensor((s, 1)); return x
x = torch.as_tensor([1.0, 2.0]); x += s; return x | x = torch.as_tensor(s); x += 1; return x, s, x is s | x = torch.asarray(s, copy=True); return x, x is s
x = torch.tensor(s.tolist()); return x | x = torch.stack(list(s)); return x | x = torch.stack([s[i] for i in range(len(s))]); return x
x = torch.cat((s, t), 0); x[0] = 7; return x, s | x = torch.zeros(s.shape); x[:] = s; return x
x = torch.zeros(*s.shape, dtype=s.dtype); return x.add_(s) | x = torch.full(s.shape, 2); return x + s | x = torch.arange(len(s)); return x, s[x]
x = torch.arange(s.numel()).view(s.shape); return x | x = torch.eye(len(s)); return x @ s | x = torch.randn(s.shape, generator=torch.Generator().manual_seed(1)); return x
x = torch.randn_like(s); return x, torch.rand(1) | x = s.new_zeros(s.shape); return x | x = s.clone(memory_format=torch.contiguous_format); return x
x = s.contiguous(memory_format=torch.channels_last); return x, x is s | x = s.to(memory_format=torch.channels_last); return x, x is s
x = s.to('cpu', torch.float64, True, True); return x | x = s.to(t.dtype); return x, x is s | x = s.to(device='cpu'); return x is s
x = s.float().double().float(); return x, x is s | x = s.type(torch.FloatTensor); return x, x is s | x = s.type('torch.DoubleTensor'); return x
x = s.view(s.shape); return x is s, x._is_view() | x = s.view(torch.uint8); return x | x = s.view(-1, 1); x += 1; return s | x = s.reshape(s.shape); return x is s
x = s.expand(*s.shape); return x is s | x = s.squeeze(0); return x is s, x | x = s.T.T; return x is s, x | x = s.flatten(); return x is s, x._is_view()
x = s.ravel(); return x is s | x = s[:]; return x is s, x | x = s[...]; x += 1; return s | x = s.detach(); return x is s, x.requires_grad, x._version
x = s.data; return x is s, x.requires_grad, x._version | x = s.real; return x is s | x = s.conj(); return x is s | x = s.resolve_conj(); return x is s
x = s.abs_(); return x is s, x | x = s.requires_grad_(); return x is s | x = s.cpu(); return x is s | x = s.values(); return x
x = s.index_select(0, torch.tensor([0])); x += 1; return x, s | x = s.gather(0, torch.zeros(1, 3, dtype=torch.long)); return x | x = s.masked_fill(s > 0, 0); return x
x = s[s > 0]; x += 1; return x, s | x = s[s > 0]; return x.numel(), x.shape | x = s > 0; return s[x], s[~x], x.sum() | x = (s > 0).nonzero(); return x
x = (s > 0).nonzero(as_tuple=True); return x | x = torch.where(s > 0); return x | x = s.argmax(); return s.flatten()[x] | x = s.argmax().item(); return s.flatten()[x]
x = s.max(); return x == s | x = s.max(0, True); return x.values, x[1], x.indices | x = s.max(0); a, b = x; return a, b, type(x).__name__, len(x)
x = s.topk(2); return x.values.sum(), x | x = s.sort()[0]; return x | x = torch.sort(s).indices; return x | x = s.unique(return_counts=True); return x
x = s.split(1); return x, type(x), len(x) | x = s.chunk(2, 1); return [y.sum() for y in x] | x = s.unbind(); return x[0], len(x), type(x)
x = torch.meshgrid(s, t); return x | x = torch.broadcast_tensors(s, t); return x | x = torch.var_mean(s); return x | x = torch.std_mean(s, 0); return x[0]
x = torch.aminmax(s); return x.min, x.max
"""

STATEMENTS = [
    "s += t\nreturn s",
    "s *= t\nreturn s",
    "s //= t\nreturn s",
    "s %= t\nreturn s",
    "s |= t\nreturn s",
    "r = s * 1\nr += t\nreturn r, s",
    "y = s.clone()\ny[t] = 5\nreturn y",
    "y = s.clone()\ny[..., 0] = t\nreturn y",
    "y = s.clone()\ny[y > 0] = t\nreturn y",
    "y = s.clone()\ny[:, t] = 1\nreturn y",
    "y = s.reshape(-1)\ny.zero_()\nreturn s",
    "y = s.flatten()\ny.zero_()\nreturn s",
    "y = s.to(torch.float32)\ny += 1\nreturn s, y",
    "y = s.expand(2, 2, 3)\nreturn y + 1, y",
    "net.kept = s\nreturn net.kept",
    "net.scale = s\nreturn net.scale",
    "net.count += 1\nreturn net.count",
    "net.count.add_(s)\nreturn net.count",
    "net.weight = s\nreturn net.weight",
    "net.new = s\nreturn net.new",
    "net.weight.data = s\nreturn net.weight",
    "net.names.append('a')\nreturn net(s)",
    "with torch.no_grad():\n  net.weight.add_(s)\nreturn net.weight",
    "with warnings.catch_warnings():\n  warnings.simplefilter('ignore')\n  y = s.T\nreturn y",
    "s.data = t\nreturn s",
    "s.data = t\nreturn s * 2",
    "s.data[0] = 3\nreturn s",
    "s[0] = t\nreturn s",
    "s[t] = 5\nreturn s",
    "s[...] = t\nreturn s",
    "s[:, 0] += t\nreturn s",
    "s[0], s[1] = s[1], s[0]\nreturn s",
    "s[0].add_(1)\nreturn s",
    "A[0] = s\nreturn A",
    "A.data = s\nreturn A",
    "P.grad = s\nreturn P.grad",
    "P.data.add_(s)\nreturn P",
    "(P * s).sum().backward()\nreturn P.grad",
    "y = (s * 2).sum()\ny.backward()\nreturn s.grad",
    "global A\nA = A + s\nreturn A",
    "cfg['k'] = s\nreturn cfg",
    "cfg['t'] += s\nreturn cfg",
    "cfg.update(z=s)\nreturn cfg",
    "rows.append(s)\nreturn rows",
    "rows[0] += s\nreturn rows",
    "rows[0] = s\nreturn rows",
    "rows.extend(s)\nreturn rows",
    "x = {'a': s}\nx['b'] = x['a'] + t\nreturn x",
    "if s.sum() > 2: return s * 2\nreturn s * 3",
    "if s.requires_grad: return s * 2\nreturn s - 1",
    "if s.shape[0] > 2: return s * 2\nreturn s - 1",
    "if s.dtype is t: return 1\nreturn 2",
    "if isinstance(s, nn.Parameter): return s * 2\nreturn s",
    "if s is A: return 1\nif s is None: return 2\nif s is t: return 4\nreturn 3",
    "if net.training: return s * 2\nreturn s",
    "if torch.is_tensor(s) and s.any(): return s\nreturn 0",
    "try: return s + t\nexcept (RuntimeError, TypeError) as e: return type(e), str(e)",
    "try: s.view(7)\nfinally: A.add_(1)\nreturn A",
    "assert s.shape == t.shape, (s.shape, t.shape)\nreturn s * t",
    "match s:\n  case torch.Tensor(): return s * 2\n  case [a, b]: return a, b\n  case {'a': x}: return x\n  case int() | float(): return s + 1\n  case _: return 'other'",
    "def g(*a, k=1): return a, k\nreturn g(*s)",
    "def g(a, b=t): return a * 2, b\nreturn g(s)",
    "def g():\n  yield s\n  yield s * 2\nreturn list(g())",
    "class Q(torch.autograd.Function):\n  @staticmethod\n  def forward(ctx, x):\n    ctx.save_for_backward(x)\n    return x * 2\n  @staticmethod\n  def backward(ctx, g): return g * ctx.saved_tensors[0]\nreturn Q.apply(s)",
    "print(end='')\nreturn s * 2",
    "y = s.add_(1)\nprint(end='')\nreturn y is s, y",
    "y = s[0]\nprint(end='')\ny.zero_()\nreturn s",
    "y = s * 2\nreturn [y, y[0]], y.t()",
    "y = s * 2\nA.copy_(y)\ny.add_(1)\nreturn A, y",
    "s.sin()\nreturn s",
    "torch.linalg.cholesky(s)\nreturn 1",
    "s + t\nreturn 1",
    "y = s + t\ny = s * 1\nreturn y",
    "bn.train()\ny = bn(s)\nbn.eval()\nreturn y, bn(s)",
    "drop.train(bool(t))\nreturn drop(s)",
    "net.eval()\nreturn net(s)",
    "net.train()\ny = net(s)\nreturn y, net.count",
    "h = net.inner.register_forward_hook(lambda m, a, r: r + 1)\ny = net(s)\nh.remove()\nreturn y, net(s)",
    "y = net(s)\nnet.zero_grad()\ny.sum().backward()\nreturn net.inner.weight.grad",
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nnet(s).sum().backward()\nopt.step()\nopt.zero_grad()\nreturn net.inner.weight",
    "opt = torch.optim.Adam([P], lr=0.1)\n(P * s).sum().backward()\nopt.step()\nreturn P",
    "for name, p in lin.named_parameters(): s = s + p.sum()\nreturn s",
    "torch.add(s, t, out=A)\nreturn A",
    "torch._C._set_grad_enabled(False)\nreturn s * P",
    "y = s.requires_grad_()\nreturn y is s, y * 2",
    "y = s.detach().requires_grad_()\nz = (y * y).sum()\nz.backward()\nreturn y.grad",
    "y = s * 2\ny.retain_grad()\ny.sum().backward()\nreturn y.grad",
    "y = s * 2\ny.x = 3\nreturn y, y.x",
    "y = s * 2\ny.x = 3\nprint(end='')\nreturn y.x",
    "y = torch.zeros(3)\ny[s] = t\nreturn y",
    "y = torch.zeros(2, 3)\ny[:] = s\nreturn y",
    "y = torch.zeros(2, 3)\ny += s\nreturn y",
    "y = torch.tensor(s)\ny += 1\nreturn y",
    "y = s.numpy()\ny[0] = 7\nreturn s",
    "x = s.item()\nreturn x > 1, x * 2",
    "x = s.mean().item()\nreturn A * x, x",
    "x = int(s.max())\nreturn torch.zeros(x)",
    "x = str(s.dtype).split('.')[1]\nreturn getattr(torch, x)",
    "f = torch.add if n == 2 else torch.mul\nreturn f(s, t)",
    "f = operator.methodcaller('sum')\nreturn f(s)",
    "f = operator.attrgetter('shape')\nreturn f(s)",
    "kw = {'alpha': t}\nreturn torch.add(s, A, **kw)",
    "x = s.masked_fill(s > 0, float('-inf'))\nreturn x.softmax(-1)",
    "x = s.chunk(2)\ny = torch.cat(x)\nreturn y, x[0]",
    "x = torch.stack([s, s])\nx[0].zero_()\nreturn x, s",
    "x = s\nfor i in range(3): x += i\nreturn x, x is s",
    "x = s.to(dtype=torch.float64)\nreturn x.sum(), x is s",
    "x = torch.view_as_real(s)\nx.zero_()\nreturn s",
    "x = s.conj()\nreturn x * 2, x.is_conj()",
    "x = s.unsqueeze(0)\nx[0] = 0\nreturn s",
    "x = torch.zeros(2, requires_grad=True)\nreturn x * s, x",
    "with torch.nn.utils.parametrize.cached(): y = lin(s)\nreturn y",
    "y = s.sin()\ny.add_(1)\nreturn y",
    "y = s.exp()\ny.add_(1)\nreturn y.sum()",
    "y = net(s).sum()\ny.backward()\ng = net.inner.weight.grad\nnet.zero_grad()\nreturn g, y",
    "y = (net(s) ** 2).mean()\ng = torch.autograd.grad(y, list(net.parameters()), allow_unused=True)\nreturn g",
    "y = (P * s).sum()\ny.backward(retain_graph=True)\ny.backward()\nreturn P.grad",
    "y = P * s\ny.backward(torch.ones_like(y))\nreturn P.grad",
    "y = (P ** 3).sum() + 0 * s.sum()\ng, = torch.autograd.grad(y, P, create_graph=True)\ng.sum().backward()\nreturn P.grad",
    "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)\nreturn net(s)",
    "net(s).sum().backward()\nn_ = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)\nreturn n_, net.inner.weight.grad",
    "net(s).sum().backward()\ntorch.nn.utils.clip_grad_value_(net.parameters(), 0.1)\nreturn net.inner.weight.grad",
    "P.register_hook(lambda g: g * 2)\nreturn (P * s).sum()",
    "y = P * s\ny.register_hook(lambda g: g * 2)\nreturn y.sum()",
    "h = lin.register_forward_pre_hook(lambda m, a: (a[0] + 1,))\ny = lin(s)\nh.remove()\nreturn y, lin(s)",
    "y = s * 2\nif y.requires_grad: y.retain_grad()\nreturn y",
    "y = s.detach().clone().requires_grad_(True)\nz = net(y).sum()\nz.backward()\nreturn y.grad",
    "y = torch.zeros(3, requires_grad=True)\nz = (y + s).sum()\nz.backward()\nreturn y.grad, s",
    "return torch.autograd.functional.jacobian(lambda x: x * 2, s)",
    "return torch.func.vmap(lin)(s)",
    "return torch.func.vmap(lambda x: x * A.sum() + n)(s)",
    "return torch.func.jacfwd(torch.sin)(s), torch.func.hessian(lambda x: (x ** 3).sum())(s)",
    "return torch.utils.checkpoint.checkpoint(lambda x, y: drop(x) * y, s, t, use_reentrant=False)",
    "a = s * P\nb = a.detach()\nb += 1\nreturn a, b",
    "a = s * 1\nb = a.unbind()\na.add_(1)\nreturn b",
    "a = s * 1\nb, c = a.split(1)\nb += 1\nreturn a, c",
    "a = s * 1\na[0] = a[1]\na[1] += a[0]\nreturn a",
    "a = torch.zeros(4, 3)\na[:2] = s\na[2:] += t\nreturn a",
    "a = []\nfor i in range(3): a.append(s * i)\nreturn torch.stack(a)",
    "a = s\nfor i, l in enumerate(net.layers): a = l(a) + i\nreturn a",
    "a = s\nfor p in net.parameters(): a = a + p.mean()\nreturn a",
    "for x in s:\n  if x.sum() > 0: continue\n  x.mul_(2)\nreturn s",
    "try:\n  y = s @ t\nexcept RuntimeError:\n  y = s * 2\nreturn y",
    "def g(x):\n  x += 1\n  return x\ny = g(s)\nreturn y is s, y",
    "def g(*a, **k): return a[0] * k.get('k', 2)\nreturn g(s), g(s, k=3), g(*[s, t], **{'k': 4})",
    "k = []\ndef g(): k.append(s * 2)\ng(); g()\nreturn k",
    "c = 0\ndef g():\n  nonlocal c\n  c += 1\n  return s * c\nreturn g(), g(), c",
    "i = torch.tensor([0, 1])\ns[i] += 1\nreturn s",
    "x = s.dtype if isinstance(s, torch.Tensor) else None\nreturn torch.ones(2, dtype=x)",
    "x = torch.is_grad_enabled()\nwith torch.no_grad(): y = torch.is_grad_enabled(), s * P\nreturn x, y",
    "x = torch.bernoulli(torch.full((3,), 0.5))\nreturn x * s",
    "x = torch.multinomial(torch.ones(3), 2)\nreturn x, s",
    "import math as m_\nreturn s * m_.pi",
    "import torch as th\nreturn th.sin(s)",
    "y = s.numpy().copy()\nreturn torch.from_numpy(y) * 2",
    "y = s.tolist()\ns.add_(1)\nreturn y, s",
    "y = s.clone()\ny.set_(t)\nreturn y",
    "a, b = torch.stack([s, t]).unbind()\na += b\nreturn a, b",
    "return torch.compiler.is_compiling(), torch.jit.is_tracing(), s",
]

# What is done to a world between two calls.
CHANGES = parted("""
A = counted(2, 3, start=5) | A = leaf(counted(2, 3)) | A = counted(3, 3) | A = counted(3, 2).t() | A = 2.0 | A = counted(2, 3).double() | A = P | A.add_(1)
A.requires_grad_() | A = A.detach() | A.resize_(1, 3) | A.data = counted(2, 3, start=9) | A.data = counted(3, 3) | P = nn.Parameter(counted(2, 3, start=2))
P = nn.Parameter(counted(3, 3)) | P.requires_grad_(False) | P.requires_grad_(True) | P.data = counted(2, 3, start=4) | P.data = counted(3, 3)
P.data = counted(2, 3).double() | P.data.mul_(2) | P.grad = torch.ones_like(P) | P.grad = None | n = 3 | n = 2 | n = 2.5 | n = torch.tensor(2) | net.train() | net.eval()
net.scale = 3.0 | net.scale = torch.tensor(3.0) | net.scale = nn.Parameter(torch.tensor(1.0)) | net.flag = True | net.flag = counted(1)
net.weight = nn.Parameter(counted(3, start=1)) | net.weight.data = counted(3, start=2) | net.weight.data = counted(1) | net.weight.requires_grad_(False)
net.weight.requires_grad_(True) | net.inner.weight = nn.Parameter(counted(3, 3)) | net.inner.weight.data.mul_(0.5) | net.inner = nn.Linear(3, 3)
net.inner = nn.Identity() | net.inner.bias = None | net.inner.register_forward_hook(lambda m, a, r: r * 2) | net.inner.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
net.inner._forward_hooks.clear() | net.inner._forward_pre_hooks.clear() | net.register_forward_hook(lambda m, a, r: r + 1) | net._forward_hooks.clear()
net.count.fill_(5) | net.count = torch.tensor(9.0) | net.count.data = torch.tensor(3.0) | net.layers.append(nn.Tanh()) | net.layers[0] = nn.Identity()
del net.layers[-1] | net.table['a'] = nn.ReLU() | net.names = ['b'] | net.names.reverse() | net.names.append('a') | net.kept = counted(3, start=8) | net.kept = counted(1)
net.kept.mul_(2) | net.forward = lambda x: x * 5 | net.__dict__.pop('forward', None) | net.double() | net.float() | net.half() | net.bfloat16()
net.requires_grad_(False) | net.requires_grad_(True) | net.zero_grad(set_to_none=False)
net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}, strict=False) | Net.forward = lambda self, x: x + 1 | Net.extra = 3
Net.__call__ = lambda self, x: x * 7 | torch.nn.modules.module.register_module_forward_hook(lambda m, a, r: None) | lin.weight.data.mul_(2)
lin.weight = nn.Parameter(counted(2, 3)) | lin.bias = None | lin.bias = nn.Parameter(counted(2)) | lin.weight.requires_grad_(False) | lin.requires_grad_(True)
lin.register_forward_hook(lambda m, a, r: r * 2) | lin._forward_hooks.clear() | lin.register_full_backward_hook(lambda m, gi, go: None) | lin = nn.Linear(3, 4)
lin.double() | lin.float() | nn.utils.parametrizations.weight_norm(lin) | nn.utils.parametrize.remove_parametrizations(lin, 'weight')
lin.weight.register_hook(lambda g: g * 3) | lin.in_features = 7 | lin.__class__ = Net | bn.eval() | bn.train() | bn.momentum = 0.5 | bn.momentum = None
bn.track_running_stats = False | bn.running_mean = None | bn.running_mean.fill_(2) | bn.running_mean = torch.ones(3) | bn.num_batches_tracked.fill_(10)
bn.weight.requires_grad_(False) | bn.reset_running_stats() | bn.eps = 0.5 | drop.eval() | drop.train() | drop.p = 0.2 | drop.p = 0.0 | drop.inplace = True
seq[0].weight.data.zero_() | seq.append(nn.Tanh()) | seq[1] = nn.Sigmoid() | seq.eval() | emb.weight.data.add_(1) | emb.max_norm = 0.5 | emb.padding_idx = 1
lstm.weight_ih_l0.data.mul_(2) | lstm.batch_first = True | ln.eps = 1.0 | ln.elementwise_affine = False | cfg['k'] = 3 | cfg['k'] = counted(3)
cfg['t'] = counted(3, start=4) | cfg['t'].add_(1) | cfg['new'] = 1 | del cfg['k'] | cfg = {'t': counted(2), 'k': 1} | rows.append(counted(3)) | rows.pop()
rows.reverse() | rows[0] = counted(3, start=1) | rows[0] = rows[1] | rows.clear()
""")
SETTINGS: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
    "meta": lambda: torch.device("meta"),
    "no subclasses": torch._C.DisableTorchFunctionSubclass,
}
WORLD = ["A", "P", "n", "lin", "bn", "drop", "net", "cfg", "rows", "emb", "lstm", "ln", "seq"]
UNLIKE = re.compile(
    r"^_|empty|resize|^set_|^new$|new_tensor|storage|data_ptr|apply|map|share|seed|from_file|load|save|compile|printoptions|^index$|threads|rng_state|stream|dlpack|mkldnn|classproperty|default"
    r"|autocast|anomaly|grad_enabled|warn|deterministic|flush|precision|cond|while_loop|import_ir|parse_|fork|wait|vital|^(cuda|hpu|ipu|xpu|mtia|random|vmap|typename|frombuffer|from_numpy)$"
)
"""Functions and methods that give what was in memory, may do anything, or switch what all later calls look at."""


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def seeded(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed notes the stack for devices to come


def world() -> dict[str, Any]:
    seeded(0)
    made = {"A": counted(2, 3), "P": nn.Parameter(counted(2, 3)), "n": 2, "cfg": {"k": 2, "t": counted(3)}, "rows": [counted(3), counted(3)]}
    made |= {"lin": nn.Linear(3, 2), "bn": nn.BatchNorm1d(3), "drop": nn.Dropout(0.5), "net": Net(), "emb": nn.Embedding(3, 2), "lstm": nn.LSTM(3, 2)}
    made |= {"ln": nn.LayerNorm(3), "seq": nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.1))}
    return {**globals(), **made}


def named_in(text: str) -> list[str]:
    return [name for name in WORLD if re.search(rf"\b{name}\b", text)]


def templates() -> list[str]:
    # `|` between blanks parts them.
    return ["return " + each for each in parted(EXPRESSIONS)] + [each.replace("; ", "\n") for each in parted(LINES)] + STATEMENTS


def calls_of(holder: Any, text: str, forms: list[str]) -> list[str]:
    """Calls of all that it has, by its name."""
    names = [name for name in sorted(dir(holder)) if not UNLIKE.search(name) and callable(getattr(holder, name)) and not isinstance(getattr(holder, name), type)]
    return [f"return {text}.{name}({form})" for name in names for form in forms]


def without_places(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "", text)


def elements(x: Any) -> Any:
    """The bits of a tensor."""
    if x.is_meta or x.is_nested or x.layout not in (torch.strided, torch.sparse_coo):
        return without_places(repr(x))
    if x.layout == torch.sparse_coo:
        return elements(x._indices()), elements(x._values())
    if x.is_quantized:
        return elements(x.int_repr())
    plain = x.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    return bytes(torch.cat([plain.reshape(-1)]).view(torch.uint8).numpy()) if plain.numel() else b""


def way(node: Any, depth: int = 0) -> Any:
    """What autograd knows of where a tensor comes from."""
    return node and (type(node).__name__, [way(each, depth + 1) for each, _ in node.next_functions] if depth < 4 else None)


def told_of(x: Any, depth: int) -> Any:
    facts = [type(x).__name__, x.dtype, str(x.device), x.layout, x.requires_grad, x.is_conj(), x.is_neg(), x.is_inference(), sorted(vars(x)), elements(x)]
    if x.layout == torch.strided and not x.is_nested:
        facts += [x.shape, x.stride(), x.storage_offset(), x.untyped_storage().nbytes()]
    if not x.is_inference():
        facts.append(x._version)
    try:
        return [*facts, x.is_leaf, way(x.grad_fn), x._is_view(), len(x._backward_hooks or ()), told(x.grad, depth + 1) if x.is_leaf else None]
    except RuntimeError as error:  # a view that was written into where that is an error
        return [*facts, str(error)]


def told(value: Any, depth: int = 0) -> Any:
    """What can be seen of the value, as what can be compared."""
    if isinstance(value, torch.Tensor):
        try:
            return told_of(value, depth)
        except RuntimeError as error:  # some are in no state to be read
            return type(value).__name__, without_places(str(error))
    if isinstance(value, np.ndarray):
        return type(value).__name__, str(value.dtype), value.shape, value.strides, [told(each, depth + 1) for each in value.ravel().tolist()]
    if isinstance(value, (list, tuple, collections.deque)) and depth < 5:
        return type(value).__name__, [told(each, depth + 1) for each in value]
    if isinstance(value, dict) and depth < 5:
        return type(value).__name__, [(told(key, 3), told(each, depth + 1)) for key, each in value.items()]
    if isinstance(value, nn.Module):
        return type(value).__name__, value.training, [(name, told(each, 3)) for name, each in [*value.named_parameters(), *value.named_buffers()]]
    if isinstance(value, torch.Generator):
        return elements(value.get_state())
    if hasattr(value, "__next__") and not isinstance(value, type):
        return type(value).__name__, [told(each, depth + 1) for each in itertools.islice(value, 5)]
    return type(value).__name__, sorted(map(str, value)) if isinstance(value, (set, frozenset)) else without_places(repr(value))


def objects_in(value: Any, depth: int = 0) -> list[Any]:
    """What can be told apart by identity."""
    parts: list[Any] = []
    if isinstance(value, (list, tuple)) and depth < 4:
        parts = list(value)
    elif isinstance(value, dict) and depth < 4:
        parts = list(value.values())
    elif isinstance(value, nn.Module):
        parts = [*value.parameters(), *value.buffers()]
    own = [value] if isinstance(value, (torch.Tensor, np.ndarray, list, dict)) else []
    return own + [each for part in parts for each in objects_in(part, depth + 1)]


def address(x: Any) -> int:
    has_memory = isinstance(x, torch.Tensor) and x.layout == torch.strided and not x.is_meta and not x.is_nested and x.numel()
    return int(x.untyped_storage().data_ptr()) if has_memory else 0


def gradients(result: Any, objects: list[Any]) -> Any:
    tensors = [x for x in objects_in(result) if isinstance(x, torch.Tensor) and x.requires_grad and x.layout == torch.strided and not x.is_nested and not x.is_meta]
    wanted = [x for x in objects if isinstance(x, torch.Tensor) and x.requires_grad]
    try:
        losses = [(x.abs() * torch.arange(1, 1 + x.numel()).reshape(x.shape)).sum() for x in tensors if x.grad_fn is not None]
        found = torch.autograd.grad(sum(losses), wanted, allow_unused=True) if losses else ()
    except RuntimeError as error:
        return without_places(str(error).partition("\n")[0])
    return [x is not None and (x.shape, x.dtype, elements(x)) for x in found]


def came_to(function: Callable[..., Any], names: dict[str, Any], given: tuple[Any, Any], setting: str, lines: bool) -> Any:
    """What it gives or raises, warns, draws, writes and shares, where it is, and gradients through it."""
    seeded(7)
    result: Any = None
    with warnings.catch_warnings(record=True) as warned, SETTINGS[setting]():
        warnings.simplefilter("always")
        try:
            result = function(*given)
            found: Any = "gave"
        except Exception as error:
            at = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"]
            found = type(error), without_places(str(error)), at if lines else None, type(error.__context__)
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.is_autocast_enabled("cpu")
        torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    texts = [(each.category, str(each.message)[:200], each.lineno if each.filename == "<template>" and lines else None) for each in warned]
    drawn = bytes(torch.get_rng_state().numpy())
    values = [result, *given, *(names[name] for name in named_in(names["body"]) if name in names)]
    objects = [each for value in values for each in objects_in(value)]
    shared = [(i, j, a is b) for i, a in enumerate(objects) for j, b in enumerate(objects[:i]) if a is b or address(a) == address(b) != 0]
    return found, modes, texts, drawn, told(values), shared, gradients(result, objects)


def given(first: str, second: str) -> tuple[Any, Any]:
    seeded(3)
    s = eval(first)
    dense = isinstance(s, torch.Tensor) and s.layout == torch.strided and not s.is_nested
    if second == "the same":
        return s, s
    if second.startswith("a view"):
        return s, s[...] if dense else s
    if second.startswith("a part"):
        return s, s[0] if dense and s.ndim and len(s) else s
    return s, eval(second)


def made(body: str, names: dict[str, Any]) -> Callable[..., Any]:
    names["body"] = body
    exec(compile("def templated(s, t):\n" + "\n".join("  " + line for line in body.split("\n")), "<template>", "exec"), names)
    return names["templated"]  # type: ignore[no-any-return]


def changed(names: dict[str, Any], change: str) -> None:
    seeded(5)
    with contextlib.suppress(Exception):
        exec(change, names)


def kinds_for(body: str) -> list[str]:
    stores = re.search(r"\bs\.\w+(\.data)?(\[\d\])? [+*/-]?= |\.\w+_\(|del s", body)
    return [value for value in VALUES if not stores or value not in CLASSES]


def gives_for(body: str) -> list[str]:
    """Those that it has something to say to, of a part."""
    function, found = made(body, world()), []
    for value in random.Random(body).sample(kinds_for(body), 50):
        with contextlib.suppress(Exception):
            function(*given(value, "counted(2, 3)"))
            found.append(value)
        torch.set_grad_enabled(True)
    return found


def history_of(body: str, order: random.Random, length: int) -> Iterator[tuple[str, str, str, str]]:
    """Kinds of the arguments, a setting, and a change before the call: of the same, again and again, and of a few others."""
    names = named_in(body)
    changes = [each for each in CHANGES if set(named_in(each)) & set(names)]
    gives, kinds, before = gives_for(body), kinds_for(body), [("2", "2")]
    for _ in range(length):
        first = order.choice(gives if gives and order.random() < 0.75 else kinds)
        second = order.choice(SECOND if order.random() < 0.6 else VALUES) if re.search(r"\bt\b", body) else "2"
        before.append(order.choice(before) if order.random() < 0.4 else (first, second))
        setting = order.choice(list(SETTINGS)) if order.random() < 0.2 else "none"
        yield *before[-1], setting, order.choice(changes) if changes and order.random() < 0.5 else ""


def modules(module: Any, examples: Any) -> Any:
    """A backend that runs graphs as they are."""
    return module.forward


WAYS: list[dict[str, Any]] = [{"backend": "eager"}, {"backend": modules}, {"backend": "eager", "dynamic": True}]


def first_difference(body: str, history: list[Any], way_in: dict[str, Any] | None) -> int | None:
    """The call that comes to something else than plainly; without a way, than plainly in another run."""
    plain, other = world(), world()
    functions = made(body, plain), made(body, other)
    captured = evalframe.torch.compile(functions[1], **way_in) if way_in else functions[1]
    lines = not way_in or way_in["backend"] == "eager"
    for place, (first, second, setting, change) in enumerate(history):
        found = []
        for names, function in (plain, functions[0]), (other, captured):
            changed(names, change)
            found.append(came_to(function, names, given(first, second), setting, lines))
        if found[0] != found[1]:
            return place
    return None


def check(bodies: list[str], seed: int) -> None:
    for body in bodies:
        order = random.Random(f"{seed} {body}")
        way_in, history = order.choice(WAYS), list(history_of(body, order, 10))
        place = first_difference(body, history, way_in)
        # Some of torch's functions give what was in memory.
        assert place is None or first_difference(body, history, None) is not None, f"{body!r} with {way_in} and {history[: place + 1]}"


TEMPLATES = templates()
GROUPS = 12


@pytest.fixture(autouse=True)
def always_warns() -> Iterator[None]:
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


# `-m torch` takes what is slow, too: those have the one mark or the other.
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.torch), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 24))])
@pytest.mark.parametrize("group", range(GROUPS))
def test_values_of_many_kinds_in_turn(group: int, seed: int) -> None:
    check(TEMPLATES[group::GROUPS], seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(60))
def test_functions_and_methods_of_torch(group: int) -> None:
    methods = calls_of(torch.Tensor, "s", ["", "t", "0", "0, 1", "1, t", "t, t", "0, t, t"])
    functions = [body for holder, text in ((torch, "torch"), (F, "F")) for body in calls_of(holder, text, ["s", "s, t", "s, 1", "s, t, t", "[s, t]", "s, 0, t"])]
    check([*methods, *functions][group::60], 0)
