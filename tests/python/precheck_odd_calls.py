"""Calls whose replay is delicate: ties, orders of writes, results that do not
repeat, indices and classes drawn from statistics, complex and autocast.

precheck_odd_device.py is the device that goes with them.
"""

from __future__ import annotations

import functools

import torch

import assay

F = torch.nn.functional


def unrecorded(function):
    """What is made before a call has no row of its own."""

    @functools.wraps(function)
    def made(*args, **keywords):
        with torch._C.DisableTorchFunction():
            return function(*args, **keywords)

    return made


@unrecorded
def drawn(*shape, dtype=torch.float32, grad=False, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(
        dtype).requires_grad_(grad)


@unrecorded
def tied(grad=False):
    """bf16 with every value sixteen times a row or so."""
    generator = torch.Generator().manual_seed(5)
    return torch.randint(0, 4, (8, 64), generator=generator).to(
        torch.bfloat16).requires_grad_(grad)


@unrecorded
def pairs(*shape, grad=False):
    return torch.complex(drawn(*shape), drawn(*shape, seed=8)).requires_grad_(
        grad)


@unrecorded
def order():
    return torch.randperm(16, generator=torch.Generator().manual_seed(1))


@unrecorded
def rows():
    return torch.stack([order(), order().flip(0)])[:, :9].contiguous()


@unrecorded
def squares():
    return order() % 4, order() // 4


@unrecorded
def thirds():
    return torch.tensor([1, 1, 5])


@unrecorded
def target(ignored):
    classes = torch.arange(32) % 20
    classes[::4] = ignored
    return classes


def choices():
    values, _ = torch.topk(tied(True), 5)
    values.backward(drawn(8, 5, dtype=torch.bfloat16))
    values, _ = torch.sort(tied(True), dim=1)
    values.backward(drawn(8, 64, dtype=torch.bfloat16))
    values, _ = torch.max(tied(True), dim=1)
    values.backward(drawn(8, dtype=torch.bfloat16))
    torch.argmax(tied(), 0)
    torch.kthvalue(tied(), 3, dim=0, keepdim=True)
    torch.cummax(tied(), 1)
    torch.argmax(tied())
    # Of these the device is wrong.
    torch.argmin(tied(), 1)
    torch.argsort(tied(), 1)
    torch.median(tied(), 1)
    tied().sort(dim=1, stable=True)


def writes():
    """Every place once, but for the last calls."""
    drawn(2, 16).scatter_(1, rows(), drawn(2, 9, seed=4))
    drawn(16, 3).index_copy_(0, order(), drawn(16, 3, seed=4))
    drawn(4, 4).index_put_(squares(), drawn(16, seed=4))
    x = drawn(16, 3)
    x[order()] = drawn(16, 3, seed=4)
    drawn(16, 3).index_copy(0, squares()[0], drawn(16, 3, seed=4))


def classes():
    F.cross_entropy(drawn(32, 20, grad=True), target(-100)).backward()
    F.cross_entropy(drawn(32, 20, grad=True), target(255),
                    ignore_index=255).backward()
    F.nll_loss(drawn(32, 20), target(20), None, None, 20)


def indexing():
    x = drawn(4, 5, 6)
    x[0, 1]
    x[[0, 1]]
    x[[[0, 1], [1, 3]]]
    x[[True, False, True, True]]
    x[[]]
    x[1:3, None, ..., 2]
    x[[3, 1]] = drawn(2, 5, 6, seed=9)


def twice():
    x = drawn(16, 16, grad=True)
    torch.mul(x, x).backward(drawn(16, 16, seed=6))
    y = drawn(16, 16)
    y.add_(y)
    q = drawn(2, 4, 8, 16, grad=True)
    F.scaled_dot_product_attention(q, q, q).backward(drawn(2, 4, 8, 16))


def repeats():
    torch.cumsum(drawn(64, 64), 1)
    torch.sum(drawn(64, 64), 1)
    torch.index_add(drawn(8, 16), 0, thirds(), drawn(3, 16))


def complexes():
    spectrum = torch.fft.fft(drawn(8, 32, grad=True))
    spectrum.backward(pairs(8, 32))
    torch.fft.rfft(drawn(8, 32, dtype=torch.float64))
    torch.view_as_complex(drawn(8, 2))
    torch.matmul(pairs(8, 8, grad=True),
                 pairs(8, 8)).backward(pairs(8, 8))


def autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(drawn(16, 32, grad=True), drawn(8, 32, grad=True))
        z = torch.mm(drawn(16, 32, grad=True), drawn(32, 8, grad=True))
    y.backward(drawn(16, 8, dtype=torch.bfloat16))
    z.backward(drawn(16, 8, dtype=torch.bfloat16))


GROUPS = (choices, writes, classes, indexing, twice, repeats, complexes,
          autocast)


def record(folder, mode):
    with assay.capture(folder, level="api", mode=mode):
        for group in GROUPS:
            group()
