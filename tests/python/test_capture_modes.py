"""assay.capture under modes, beside other captures, in threads, over models
that change; and what it leaves in memory."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading
import warnings

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import assay
from capturing import batch, lines, rows, small
from test_capture import loss_of, model, tensor


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("order", ["inside", "outside"])
@pytest.mark.parametrize("kind", [Counting, Dispatched])
def test_a_mode_of_the_users_sees_the_users_calls(tmp_path, kind, order):
    net, x = small(), batch()

    def run(watch):
        mode = kind()
        with contextlib.ExitStack() as stack:
            for context in ((watch, mode) if order == "inside"
                            else (mode, watch)):
                stack.enter_context(context)
            net(x.view(3, 4)).sum()
        return mode.calls

    capture = assay.Capture(tmp_path, net, mode="tensor")
    assert run(capture) == run(contextlib.nullcontext())
    assert capture.faults == []
    assert "Functional.gelu.0.forward.output.0" in rows(tmp_path)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_default_devices(tmp_path, device):
    """What the capture makes is not made on the device of the user's."""
    with torch.device(device):
        with assay.capture(tmp_path / "a", level="api", mode="tensor") as c:
            assert (torch.ones(2) + 1).device.type == device
            assert torch.tensor([3.0], device="cpu").neg().item() == -3
    with assay.capture(tmp_path / "b", level="api") as d:
        with torch.device(device):
            assert torch.ones(2).neg().device.type == device
    assert c.faults == d.faults == []
    assert torch.ones(1).device.type == "cpu"
    assert tensor(tmp_path / "a", "Tensor.neg.0.forward.output.0") == -3


def stack_of_modes():
    return torch.overrides._get_current_function_mode_stack()


def test_a_default_device_set_while_captured_stays(tmp_path):
    capture = assay.Capture(tmp_path, level="api").start()
    torch.set_default_device("meta")
    try:
        capture.close()
        assert torch.ones(1).device.type == "meta"
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"
    assert stack_of_modes() == []


@pytest.mark.parametrize("order", ["nested", "overlapping"])
def test_two_captures_at_once(tmp_path, order):
    """Neither sees what the other does; both see what one alone sees."""
    net, x = model(), torch.randn(2, 4, 8)
    with assay.capture(tmp_path / "alone", net):
        loss_of(net, x).backward()
    net.zero_grad()
    a = assay.Capture(tmp_path / "a", net).start()
    b = assay.Capture(tmp_path / "b", net).start()
    loss_of(net, x).backward()
    first, second = (b, a) if order == "nested" else (a, b)
    first.close()
    assert len(stack_of_modes()) == 1
    torch.ones(2).neg()
    second.close()
    assert stack_of_modes() == []
    alone = rows(tmp_path / "alone")
    assert len(rows(tmp_path / ("b" if order == "nested" else "a"))) == len(
        alone)
    later = rows(tmp_path / ("a" if order == "nested" else "b"))
    assert set(later) - set(alone) == {
        "Torch.ones.0.forward.input.0", "Torch.ones.0.forward.output.0",
        "Tensor.neg.0.forward.input.0", "Tensor.neg.0.forward.output.0"}


def test_a_capture_that_is_started_twice(tmp_path):
    capture = assay.Capture(tmp_path, level="api")
    with capture:
        with pytest.raises(RuntimeError, match="running already"):
            capture.start()
        torch.ones(2).neg()
    assert stack_of_modes() == []
    assert "Tensor.neg.0.forward.output.0" in rows(tmp_path)


def test_a_capture_that_is_stopped_in_a_backward_pass(tmp_path):
    net = small()
    capture = assay.Capture(tmp_path, net).start()
    y = net(batch())
    y.register_hook(lambda gradient: capture.stop())
    y.sum().backward()
    torch.ones(2).neg()
    assert "Tensor.neg.0.forward" not in {
        line.get("op") for line in lines(tmp_path / "step0/rank0")}
    capture.start()
    capture.close()
    assert stack_of_modes() == []
    assert net[0].weight.grad is not None


def test_models_in_threads(tmp_path):
    """Modules are seen in every thread, each with its own parents; functions
    in the thread that started the capture, and the first module elsewhere
    makes it say so."""
    nets = torch.nn.ModuleList(small() for _ in range(2))
    x = batch()
    expected = [net(x) for net in nets]
    results: dict = {}
    both = threading.Barrier(2)

    def work(i):
        both.wait()
        for _ in range(20):
            results[i] = nets[i](x)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with assay.capture(tmp_path, nets, stacks=False) as capture:
            threads = [threading.Thread(target=work, args=(i,))
                       for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            nets[0](x)
    assert capture.faults == []
    assert [str(w.message) for w in said] == [
        "assay.capture: modules run in another thread than the one that "
        "called start(): functions called there are not seen"]
    assert all(torch.equal(results[i], expected[i]) for i in range(2))
    ops = [line for line in lines(tmp_path / "step0/rank0") if "op" in line]
    inner = [op for op in ops if op["op"].count(".") > 4
             and op["prefix"] == "Module"]
    assert len([op for op in ops if op["op"].startswith(
        "Module.1.Sequential.forward.")]) == 20
    for op in inner:  # "Module.1.2.0.Linear": in a module of the same net
        assert ops[op["parent"]]["op"].split(".")[1] == op["op"].split(".")[1]
    assert len({op["op"] for op in ops}) == len(ops)
    assert len([op for op in ops if op["prefix"] == "Functional"]) == 4


def test_copies_and_pickles_of_a_captured_model(tmp_path):
    """They have no hook of ours that does anything."""
    net, x = small(), batch()
    with assay.capture(tmp_path, net, level="module") as capture:
        twin = copy.deepcopy(net)
        text = pickle.dumps(net)
        expected = net(x)
        assert torch.equal(twin(x), expected)
        assert torch.equal(pickle.loads(text)(x), expected)
        assert torch.equal(copy.copy(net)(x), expected)
    assert b"assay.capture" not in text  # to be loaded without it
    assert capture.faults == []
    calls = [line["op"] for line in lines(tmp_path / "step0/rank0")
             if line.get("op", "").startswith("Module.0.Linear.forward")]
    assert len(calls) == 2  # net's and those of the copy with its children


def test_modules_that_come_and_go(tmp_path):
    net, x = small(), batch()
    watch = assay.Capture(tmp_path, net, level="module")
    old = net[3]
    with watch:
        net(x)
        watch.step()
        net[3] = torch.nn.Linear(8, 5)
        net.append(torch.nn.ReLU())
        net(x).sum().backward()
        watch.step()
        del net[4]
        net(x)
    assert not old._forward_hooks
    second = rows(tmp_path / "step1")
    assert "Module.4.ReLU.forward.0.output.0" in second
    assert second["Module.3.Linear.forward.0.output.0"].endswith("[3, 5]")
    assert "Module.4.ReLU.forward.0.output.0" not in rows(tmp_path / "step2")


def test_models_given_by_a_generator_are_seen_in_each_step(tmp_path):
    watch = assay.Capture(tmp_path, (small() for _ in range(1)),
                          level="module")
    with watch:
        watch._model[0](batch())
        watch.step()
        watch._model[0](batch())
    assert set(rows(tmp_path / "step0")) == set(rows(tmp_path / "step1"))


def test_a_step_is_not_all_steps_before_it(tmp_path):
    """Gradients of parameters that were not cleared between steps were those
    of all of them (msprobe merge request 861)."""
    w = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(w.weight)
    watch = assay.Capture(tmp_path, w, mode="tensor")
    with watch:
        for i in range(2):
            w(torch.full((1, 1), float(i + 1))).sum().backward()
            watch.step()
    record = [line for line in lines(tmp_path / "step1/rank0")
              if line.get("role") == "gradient"]
    assert record[0]["max"] == 2 and w.weight.grad.item() == 3


class Peak(TorchDispatchMode):
    """Bytes that results of operators hold at the same time."""

    def __init__(self):
        super().__init__()
        self.live, self.peak = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for each in torch.utils._pytree.tree_leaves(out):
            if isinstance(each, torch.Tensor):
                storage = each.untyped_storage()
                self.live[storage._cdata] = (StorageWeakRef(storage),
                                             storage.nbytes())
        self.live = {key: kept for key, kept in self.live.items()
                     if not kept[0].expired()}
        self.peak = max(self.peak,
                        sum(size for _, size in self.live.values()))
        return out


def test_tensors_are_freed_as_without_a_capture(tmp_path):
    """Weak references to what a step makes die where they do without."""
    import weakref
    net = model(2)

    def step():
        ends = []
        x = torch.randn(2, 4, 8)
        first = net[0](x)
        middle = weakref.ref(first)
        y = net[1](first)
        del first
        ends.append(middle() is None)
        graph = weakref.ref(y)
        loss = y.square().mean()
        del y
        ends.append(graph() is None)
        loss.backward()
        kept = weakref.ref(loss)
        del loss
        ends.append(kept() is None)
        return ends

    expected = step()
    with assay.capture(tmp_path, net, mode="tensor"):
        assert step() == expected


def test_steps_leave_nothing_behind(tmp_path):
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    net = model(1)
    watch = assay.Capture(tmp_path, net, mode="statistics")
    sizes = []
    with watch:
        for i in range(50):
            net.zero_grad()
            loss_of(net, torch.ones(2, 4, 8)).backward()
            watch.step()
            if i in (9, 49):
                gc.collect()
                tensors = sum(type(each) in (torch.Tensor, torch.nn.Parameter)
                              for each in gc.get_objects())
                sizes.append((tensors, resident(),
                              threading.active_count()))
    assert sizes[1][0] - sizes[0][0] < 20  # in 40 steps
    assert sizes[1][1] - sizes[0][1] < 16 << 20
    assert sizes[0][2] == sizes[1][2]


def test_the_peak_of_a_step_is_that_without_a_capture(tmp_path):
    """Bytes that tensors hold, asked at every operator torch runs."""
    net = model(3, 64)

    def step():
        net.zero_grad()
        with Peak() as mode:
            loss_of(net, torch.ones(8, 32, 64)).backward()
        return mode.peak

    step()
    plain = step()
    with assay.capture(tmp_path, net, mode="tensor"):
        captured = step()
    assert captured <= 1.1 * plain
