"""Attempts to make assay.capture write a value that was not there, or change
what it watches."""

from __future__ import annotations

import ctypes
import datetime
import decimal
import functools
import pathlib

import numpy as np
import pytest
import torch

import assay
from capturing import compared, lines

SHAPE = (256, 1024)
PLACE = (200, 7)  # one element: no sample would find it
FLAT = PLACE[0] * SHAPE[1] + PLACE[1]


class _Writes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.data[PLACE] = 5
        return x.clone()


class _Dirties(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x[PLACE] = 5
        return x


def one_five() -> torch.Tensor:
    found = torch.zeros(SHAPE)
    found[PLACE] = 5
    return found


def no_grad(x):
    with torch.no_grad():
        x[PLACE] = 5


def inference_mode(x):
    with torch.inference_mode():
        x[PLACE] = 5


def address(x):
    at = x.view(-1)[FLAT:].data_ptr()
    ctypes.c_float.from_address(at).value = 5


def storage(x):
    memory = x.view(-1).untyped_storage()
    memory[4 * FLAT + 2], memory[4 * FLAT + 3] = 0xa0, 0x40


def shared_by_data(x):
    y = torch.zeros(SHAPE)
    x.data = y
    torch.neg(x)  # is known now
    y[PLACE] = 5


def unsafe_chunk(x):
    x.unsafe_chunk(2)[1][PLACE[0] - SHAPE[0] // 2, PLACE[1]] = 5


def set_data(x):
    x.data = one_five()


WRITES = {
    "data": lambda x: x.data.__setitem__(PLACE, 5),
    "data of detached": lambda x: x.detach().data.__setitem__(PLACE, 5),
    "data of a view": lambda x: x.view(-1).data.__setitem__(FLAT, 5),
    "numpy": lambda x: x.numpy().__setitem__(PLACE, 5),
    "numpy of detached": lambda x: x.detach().numpy().__setitem__(PLACE, 5),
    "numpy of a view": lambda x: x.view(-1).numpy().__setitem__(FLAT, 5),
    "asarray": lambda x: np.asarray(x.detach()).__setitem__(PLACE, 5),
    "address": address, "storage": storage,
    "from_dlpack": lambda x: torch.from_dlpack(x).__setitem__(PLACE, 5),
    "set_": lambda x: x.set_(one_five()), "set data": set_data,
    "shared by data": shared_by_data,
    "unsafe_chunk": unsafe_chunk,
    "no_grad": no_grad, "inference_mode": inference_mode,
    "index_put_": lambda x: x.index_put_(
        [torch.tensor(i) for i in PLACE], torch.tensor(5.0)),
    "foreach": lambda x: torch._foreach_add_([x], [one_five()]),
    "out": lambda x: torch.add(one_five(), 0, out=x),
    "autograd.Function": _Writes.apply, "mark_dirty": _Dirties.apply,
}


def largest(folder, name: str) -> float:
    """The statistic of an operator's first input."""
    ops = []
    for line in lines(folder / "step0/rank0"):
        if "op" in line:
            ops.append(line["op"])
        elif "of" in line and ops[line["of"]] == name and (
                line["leaf"] == "input.0"):
            return line["max"]
    raise KeyError(name)


class Twice(torch.nn.Module):
    """Shows a tensor, writes to it, shows it again."""

    def __init__(self, write) -> None:
        super().__init__()
        self.same = torch.nn.Identity()
        self.write = write

    def forward(self, x):
        self.same(x), torch.neg(x)
        self.write(x)
        self.same(x)


@pytest.mark.parametrize("level", ["mix", "module"])
@pytest.mark.parametrize("write", WRITES)
def test_few_elements_are_written_by_every_road(tmp_path, write, level):
    net = Twice(WRITES[write])
    with assay.capture(tmp_path, net, level=level, stacks=False):
        net(torch.zeros(SHAPE))
    name = "Module.same.Identity.forward."
    assert largest(tmp_path, name + "0") == 0
    assert largest(tmp_path, name + "1") == 5


def by_numpy():
    array = np.zeros(SHAPE, np.float32)
    return torch.from_numpy(array), array


def seen_by_numpy():
    tensor = torch.zeros(SHAPE)
    return tensor, tensor.view(-1).numpy().reshape(SHAPE)


def by_buffer():
    memory = bytearray(4 * SHAPE[0] * SHAPE[1])
    return (torch.frombuffer(memory, dtype=torch.float32).view(SHAPE),
            np.frombuffer(memory, np.float32).reshape(SHAPE))


def by_another_process():
    from torch.multiprocessing.reductions import reduce_tensor
    tensor = torch.zeros(SHAPE).share_memory_()
    rebuild, arguments = reduce_tensor(tensor)
    return tensor, rebuild(*arguments)


@pytest.mark.parametrize("level", ["mix", "module", "aten"])
@pytest.mark.parametrize("share", [by_numpy, seen_by_numpy, by_buffer,
                                   by_another_process])
def test_memory_that_was_shared_before_the_capture(tmp_path, share, level):
    tensor, other = share()
    net = Twice(lambda x: other.__setitem__(PLACE, 5))
    with assay.capture(tmp_path, net, level=level, stacks=False):
        net(tensor)
    assert largest(tmp_path, "Module.same.Identity.forward.1") == 5


@pytest.mark.parametrize("level", ["mix", "module", "aten"])
@pytest.mark.parametrize("mode", ["statistics", "tensor"])
def test_tensors_that_were_captured_can_be_resized(tmp_path, level, mode):
    # `out=` resizes; FSDP frees parameters by it.
    net = torch.nn.Linear(4, 4)
    x, out = torch.ones(2, 4, requires_grad=True), torch.empty(0)
    with assay.capture(tmp_path, net, level=level, mode=mode) as capture:
        net(x).sum().backward()
        for tensor in (x.detach(), *net.parameters(), x.grad,
                       net.weight.grad):
            memory = tensor.untyped_storage()
            size = memory.nbytes()
            memory.resize_(0)
            memory.resize_(size)
        torch.add(torch.ones(3), 1, out=out)
        torch.add(torch.ones(9), 1, out=out.resize_(0))
    assert out.shape == (9,) and not capture.faults


class Takes(torch.nn.Module):
    """Takes an argument that is no tensor."""

    def forward(self, value):
        return None


class Opaque:
    def __init__(self, value) -> None:
        self.value = value


def partial(value):
    return functools.partial(max, value, default=value)


# Two values of one type: the program must tell them apart, or say that it
# did not compare them.
PAIRS = {
    "negative zero": (0.0, -0.0, 1), "neighbours": (0.1, 0.1 + 2e-17, 1),
    "integers": (2**70, 2**70 + 1, 1),
    "integers of many digits": (10**5000, 10**5000 + 1, 1),
    "ends of long texts": ("a" * 2000 + "b", "a" * 2000 + "c", 1),
    "bytes": (b"a", b"b", 1), "range": (range(3), range(4), 1),
    "sets": ({1, 2}, {1, 3}, 1), "partial": (partial(1), partial(2), 1),
    "frozen sets": (frozenset("ab"), frozenset("ac"), 1),
    "decimal": (decimal.Decimal("0.1"), decimal.Decimal("0.2"), 1),
    "paths": (pathlib.Path("a"), pathlib.Path("b"), 1),
    "times": (datetime.timedelta(1), datetime.timedelta(2), 1),
    "arrays": (np.zeros(3), np.ones(3), 1),
    "generators": (torch.Generator().manual_seed(1),
                   torch.Generator().manual_seed(2), 1),
    "functions": (torch.relu, torch.neg, 1),
    "objects": (Opaque(1), Opaque(2), 4),
    "iterators": (iter("a"), iter("b"), 4),
    "lambdas": (lambda x: x, lambda x: -x, 4),
    "sets of objects": ({Opaque(1)}, {Opaque(2)}, 4),
    "arrays of objects": (np.array([None, 1]), np.array([None, 2]), 4),
    "modules": (torch.nn.ReLU(), torch.nn.ReLU(), 4),
}


@pytest.mark.parametrize("mode", ["statistics", "overflow"])
@pytest.mark.parametrize("kind", PAIRS)
def test_values_that_differ_are_no_match(tmp_path, kind, mode):
    first, second, code = PAIRS[kind]
    for folder, value in (("a", first), ("b", second), ("c", first)):
        with assay.capture(tmp_path / folder, net := Takes(), level="module",
                           mode=mode) as capture:
            net(value)
        assert capture.faults == []
    assert compared(tmp_path / "a", tmp_path / "b") == code
    assert compared(tmp_path / "a", tmp_path / "c") == (4 if code == 4 else 0)


def sliced(folder, tensor, slices):
    with assay.capture(folder, level="api", slices=slices):
        torch.neg(tensor)
    return folder


def test_parts_are_compared_with_the_same_parts_alone(tmp_path):
    ones = torch.ones(4, 4)
    first = sliced(tmp_path / "a", ones, ["0:2"])
    assert compared(first, sliced(tmp_path / "b", ones, ["0:2"])) == 0
    assert compared(first, sliced(tmp_path / "c", ones, ["2:4"])) == 1
    # The rows that were left out are not there on one side.
    assert compared(first, sliced(tmp_path / "d", ones[:3], ["0:2"])) == 1
    assert compared(first, sliced(tmp_path / "e", ones[:2], ["0:2"])) == 4
    assert compared(first, sliced(tmp_path / "f", ones[:2], None)) == 4


def test_two_runs_that_were_stopped_alike_are_no_match(tmp_path):
    for name in "ab":
        with assay.capture(tmp_path / name, level="api"):
            torch.neg(torch.ones(3))
        file = tmp_path / name / "step0/rank0/trace.jsonl"
        whole = file.read_text().splitlines(keepends=True)
        assert '"end":true' in whole[-1]
        file.write_text("".join(whole[:-1]))
    assert compared(tmp_path / "a", tmp_path / "b") == 4


@pytest.mark.parametrize("level", ["module", "mix", "aten"])
def test_parameters_that_are_swapped(tmp_path, level):
    set_swap = torch.__future__.set_swap_module_params_on_conversion
    net = torch.nn.Linear(100, 200)
    set_swap(True)
    try:
        with assay.capture(tmp_path, net, level=level) as capture:
            with torch.no_grad():
                net(torch.ones(1, 100))
            net.double()
            net(torch.ones(1, 100).double())
    finally:
        set_swap(False)
    assert net.weight.dtype == torch.float64 and capture.faults == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_two_steps_that_were_left_alike_are_no_match(tmp_path, error):
    for name in "ab":
        with pytest.raises(error):
            with assay.capture(tmp_path / name, level="api"):
                torch.neg(torch.ones(3))
                raise error
    assert compared(tmp_path / "a", tmp_path / "b") == 4
