#!/usr/bin/env python3
"""Records calls that show every fault of precheck_faults.py, in float32 and
in bf16, forward and backward.

    precheck_calls.py FOLDER tensor|statistics

Healthy operators are recorded; the values are such that a fault of the kind
tells: logits that overflow without their maximum, rows that are ignored,
equal indices, products that are subnormal.
"""

from __future__ import annotations

import functools
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).parents[2]
                    / "build/release/python"))

import assay  # noqa: E402

F = torch.nn.functional
DTYPES = (torch.float32, torch.bfloat16)


class Values:
    """Draws from one generator: the same calls in every run."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(7)

    def normal(self, *shape, scale=1.0, grad=True):
        drawn = torch.randn(shape, generator=self.generator) * scale
        return drawn.to(self.dtype).requires_grad_(grad)

    def positive(self, *shape, grad=True):
        drawn = torch.rand(shape, generator=self.generator) + 0.5
        return drawn.to(self.dtype).requires_grad_(grad)

    def integers(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.generator)


def formulas(v):
    target = v.integers(0, 20, 32)
    target[::4] = -100
    return [
        (F.gelu, v.normal(64, 32, scale=2.0)),
        (F.softmax, v.normal(16, 64, scale=60.0, grad=False), -1),
        # Its variance is of the size of eps.
        (F.layer_norm, v.normal(32, 64, scale=3e-3), (64,), v.normal(64),
         v.normal(64)),
        (F.group_norm, v.normal(4, 8, 3), 4, v.normal(8), v.normal(8)),
        (F.linear, v.normal(16, 64), v.normal(32, 64), v.normal(32)),
        (F.cross_entropy, v.normal(32, 20), target),
        (F.nll_loss, v.positive(32, 20), target),
        (functools.partial(F.scaled_dot_product_attention, is_causal=True),
         *(v.normal(2, 4, 16, 32) for _ in range(3))),
        (F.conv2d, v.normal(2, 3, 8, 8), v.normal(4, 3, 3, 3), v.normal(4)),
        (torch.round, torch.arange(-8, 8, dtype=v.dtype) / 2),
        (torch.Tensor.__floordiv__, v.normal(64, grad=False, scale=9.0),
         v.positive(64, grad=False)),
    ]


def precision(v):
    small = 2.0**-65
    calls = [
        (torch.matmul, v.normal(16, 1024), v.normal(1024, 16)),
        (torch.Tensor.matmul, v.normal(16, 1024), v.normal(1024, 16)),
        (torch.sqrt, v.positive(64, 32)),
        (torch.mul, v.positive(64, grad=False) * small,
         v.positive(64, grad=False) * small),
    ]
    if v.dtype == torch.float32:
        calls += [(torch.Tensor.bfloat16, v.normal(64, 64)),
                  (torch.Tensor.half, v.normal(64, 64, scale=40000.0))]
    return calls


def special(v):
    nan = v.normal(64, 16, grad=False)
    nan[3, 5] = float("nan")
    zero = v.positive(64, 16, grad=False)
    zero[7, 7] = 0.0
    calls = [(F.relu, nan), (torch.log, zero),
             (torch.topk, v.normal(16, 64), 4)]
    if v.dtype == torch.float32:
        calls += [
            (torch.add, *(v.integers(0, 2**40, 64) for _ in range(2))),
            (torch.sum, v.integers(50, 127, 64).to(torch.int8)),
            (torch.conj, torch.complex(v.normal(32, grad=False),
                                       v.normal(32, grad=False))),
        ]
    return calls


def movement(v):
    mask = v.integers(0, 2, 16, 16).bool()
    return [
        (torch.bmm, v.normal(2, 16, 32), v.normal(2, 32, 16)),
        (torch.cat, [v.normal(8, 8), v.normal(8, 8)], 0),
        (torch.stack, [v.normal(3, 5) for _ in range(3)], 0),
        (torch.Tensor.masked_fill, v.normal(16, 16), mask, -1.0),
        (torch.where, mask, v.normal(16, 16), v.normal(16, 16)),
        (torch.Tensor.transpose, v.normal(16, 16), 0, 1),
        (torch.cumsum, v.normal(8, 32), 1),
        (torch.Tensor.add_, *(v.normal(16, 16, grad=False)
                              for _ in range(2))),
        (torch.Tensor.index_add_, v.normal(8, 16, grad=False), 0,
         torch.tensor([1, 1, 5, 1]), v.normal(4, 16, grad=False)),
        (torch.rsqrt, v.positive(32, 16)),
        (torch.mean, v.normal(64, 64)),
    ]


def gradients(v):
    return [
        (torch.mm, v.normal(16, 16), v.normal(16, 16)),
        (F.silu, v.normal(32, 16)),
        (torch.tanh, v.normal(32, 16)),
        (F.embedding, torch.tensor([[3, 3, 1], [3, 7, 1]]), v.normal(10, 8)),
        (torch.sigmoid, v.normal(32, 16)),
    ]


def random(v):
    return [
        (F.dropout, v.positive(128, 64), 0.25),
        (F.dropout1d, v.positive(256, 16, 4), 0.25),
        (F.alpha_dropout, v.normal(128, 64), 0.25, True),
    ]


GROUPS = (formulas, precision, special, movement, gradients, random)


class Call:
    """A call, with a gradient for its first result."""

    def __init__(self, values, function, *args):
        self.function, self.args = function, args
        leaves = [each for arg in args
                  for each in (arg if isinstance(arg, list) else [arg])]
        self.gradient = None
        if any(getattr(each, "requires_grad", False) for each in leaves):
            with torch.no_grad():
                result = first(function(*args))
            self.gradient = values.normal(*result.shape, grad=False).to(
                result.dtype)

    def run(self):
        result = first(self.function(*self.args))
        if self.gradient is not None:
            result.backward(self.gradient)


def first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def record(folder, mode):
    """One trace of every call, in step 0 of `folder`."""
    calls = [Call(values, *parts)
             for values in map(Values, DTYPES)
             for group in GROUPS for parts in group(values)]
    with assay.capture(folder, level="api", mode=mode):
        for call in calls:
            call.run()


if __name__ == "__main__":
    torch.set_num_threads(1)
    record(*sys.argv[1:3])
