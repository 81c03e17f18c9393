"""Operators with a planted fault, as an extension brings them: torch.ops.

Each is right in float64, which is what a check holds it to; `f32` among their
inputs is what they are wrong for.
"""

from __future__ import annotations

import torch
from torch import Tensor

_library = torch.library.Library("planted", "DEF")
_seen: dict[str, Tensor] = {}
_calls = [0]


def _operator(schema: str):
    def add(function):
        name = schema.partition("(")[0]
        _library.define(schema)
        _library.impl(name, function, "CompositeImplicitAutograd")
        return getattr(torch.ops.planted, name)

    return add


@_operator("cancel(Tensor x) -> Tensor")
def cancel(x):
    """Loses the digits of small values."""
    return (x + 1e4) - 1e4


@_operator("naive_var(Tensor x) -> Tensor")
def naive_var(x):
    """E[x^2] - E[x]^2."""
    return (x * x).mean(-1) - x.mean(-1) ** 2


@_operator("naive_softmax(Tensor x) -> Tensor")
def naive_softmax(x):
    """No maximum is subtracted."""
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


@_operator("half_sum(Tensor x) -> Tensor")
def half_sum(x):
    """Accumulates in the dtype of its input."""
    total = torch.zeros_like(x[:, 0])
    for i in range(x.shape[1]):
        total = total + x[:, i]
    return total


@_operator("uncertain(Tensor x) -> Tensor")
def uncertain(x):
    """Adds in another order each time, as atomic additions do."""
    _calls[0] += 1
    parts = torch.stack([x[:, i::7].sum(1) for i in range(7)], 0)
    order = [(i * (_calls[0] % 6 + 1) + _calls[0]) % 7 for i in range(7)]
    total = torch.zeros_like(parts[0])
    for i in order:
        total = total + parts[i]
    return total


@_operator("stale(Tensor x) -> Tensor")
def stale(x):
    """Its kernel for float32 keeps the first result of a shape."""
    if x.dtype is not torch.float32:
        return torch.tanh(x)
    key = str(tuple(x.shape))
    if key not in _seen:
        _seen[key] = torch.tanh(x.detach())
    return _seen[key] + 0 * x.detach()


@_operator("placed(Tensor x) -> Tensor")
def placed(x):
    """Its kernel for float32 treats the last row, a tail, less well."""
    y = torch.sigmoid(x)
    if x.dtype is torch.float32:
        tail = torch.sigmoid(x[-1:].bfloat16()).float()
        y = torch.cat([y[:-1], tail])
    return y


@_operator("right(Tensor x) -> Tensor")
def right(x):
    """Nothing is wrong with it."""
    return torch.tanh(x) * 2


@_operator("coarse_argmax(Tensor x) -> Tensor")
def coarse_argmax(x):
    """Decides in bf16 what float32 could tell apart."""
    if x.dtype is torch.float32:
        x = x.bfloat16()
    return x.argmax(-1)


@_operator("sneaky(Tensor(a!) x) -> Tensor")
def sneaky(x):
    """Writes to its input, as its schema tells."""
    x.mul_(2)
    return x + 1


@_operator("only_f32(Tensor x) -> Tensor")
def only_f32(x):
    if x.dtype is not torch.float32:
        raise RuntimeError("only_f32 expects float32")
    return x * 3


class Naive(torch.autograd.Function):
    """x * g in backward, with digits lost on the way."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x / 2

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return ((x + 1e4) - 1e4) * g


@_operator("lossy_grad(Tensor x) -> Tensor")
def lossy_grad(x):
    """Right forward, cancels backward."""
    return Naive.apply(x)


@_operator("secretive(Tensor x) -> Tensor")
def secretive(x):
    """Writes to its input, and its schema denies it."""
    x.mul_(2)
    return x + 1


def forget() -> None:
    """Of the operators that keep something."""
    _seen.clear()
