#!/usr/bin/env python3
"""A worker that is right otherwise than a CPU is, and here and there wrong:
of equal elements it chooses the last, writes go in another order, some sums
do not repeat. precheck_odd_calls.py makes the calls that tell."""

from __future__ import annotations

import functools
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python"))

from assay.worker.api_call import replay  # noqa: E402
from assay.worker.serve import Server, claim_stdout, serve  # noqa: E402
from assay.worker.torch_provider.provider import TorchProvider  # noqa: E402

INSTEAD = {}


def instead(*apis):
    def add(function):
        INSTEAD.update(dict.fromkeys(apis, function))
        return function

    return add


# Right: the last of equal elements.


def from_behind(indices, length):
    return length - 1 - indices


@instead("Torch.topk")
def topk(topk_, x, k):
    values, indices = topk_(x.flip(1), k)
    return values, from_behind(indices, x.shape[1])


@instead("Torch.sort")
def sort(sort_, x, dim):
    values, indices = torch.sort(x.flip(dim), dim=dim, stable=True)
    return values, from_behind(indices, x.shape[dim])


@instead("Torch.max", "Torch.cummax")
def last_max(max_, x, dim):
    if max_ is torch.cummax:  # torch's own is the last: the first one here
        values = torch.cummax(x, dim)[0]
        same = (values.unsqueeze(dim + 1) == x.unsqueeze(dim)).int()
        return values, same.argmax(dim + 1)
    values, indices = max_(x.flip(dim), dim)
    return values, from_behind(indices, x.shape[dim])


@instead("Torch.argmax")
def argmax(argmax_, x, dim=None):
    if dim is None:
        return from_behind(argmax_(x.flatten().flip(0)), x.numel())
    return from_behind(argmax_(x.flip(dim), dim), x.shape[dim])


@instead("Torch.kthvalue")
def kthvalue(kthvalue_, x, k, dim, keepdim):
    values, indices = kthvalue_(x.flip(dim), k, dim, keepdim)
    return values, from_behind(indices, x.shape[dim])


# Wrong choices.


@instead("Torch.argmin")
def next_to_the_smallest(argmin, x, dim):
    return (argmin(x, dim) + 1) % x.shape[dim]


@instead("Torch.argsort")
def one_element_twice(argsort, x, dim):
    order = argsort(x, dim)
    order[:, 1] = order[:, 0]
    return order


@instead("Torch.median")
def index_beyond_the_end(median, x, dim):
    values, indices = median(x, dim)
    return values, indices + x.shape[dim]


@instead("Tensor.sort")
def equal_ones_in_another_order(sort_, x, dim, stable):
    return sort(torch.sort, x, dim)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.05


@instead("Torch.mm")
def gradient_too_large(mm, x, y):
    return mm(_Scaled.apply(x), y)


@instead("Torch.view_as_complex")
def conjugate(view, x):
    return view(x).conj().clone()


# Right: the order of writes.


@instead("Tensor.scatter_")
def scatter(scatter_, x, dim, index, source):
    return scatter_(x, dim, index.flip(dim), source.flip(dim))


@instead("Tensor.index_copy_", "Tensor.index_copy")
def index_copy(copy, x, dim, index, source):
    return copy(x, dim, index.flip(0), source.flip(0))


@instead("Tensor.index_put_")
def index_put(put, x, indices, values):
    return put(x, tuple(each.flip(0) for each in indices), values.flip(0))


@instead("Tensor.__setitem__")
def setitem(set_, x, index, values):
    if isinstance(index, torch.Tensor) and index.dtype == torch.int64:
        return set_(x, index.flip(0), values.flip(0))
    return set_(x, index, values)


# Results that do not repeat: every second one is another.

_runs = {}


def is_second(name):
    _runs[name] = _runs.get(name, 0) + 1
    return _runs[name] % 2 == 0


@instead("Torch.cumsum", "Torch.sum")
def last_bits(operator, x, dim):
    exact = operator(x.double(), dim).float()
    return (torch.nextafter(exact, torch.full_like(exact, 9e9))
            if is_second(operator) else exact)


@instead("Torch.index_add")
def lost_now_and_then(add, x, dim, index, source):
    return add(x, dim, index, source * (0 if is_second("index_add") else 1))


def main() -> None:
    answers = claim_stdout()
    torch.set_num_threads(1)
    resolve = replay.resolve

    def resolved(api):
        changed = INSTEAD.get(api)
        found = resolve(api)
        return functools.partial(changed, found) if changed else found

    replay.resolve = resolved
    serve(Server(TorchProvider("cpu"), torch.device("cpu")), answers,
          sys.stdin)


if __name__ == "__main__":
    main()
