"""assay.capture beside what else torch can do to a call: compile it, trace
it, run it under modes, in threads, twice, backwards twice."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import assay
from capturing import compared, lines, rows, unchanged
from test_capture import loss_of, model, tensor


def small() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(),
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()),
        torch.nn.Linear(8, 2))


def batch() -> torch.Tensor:
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


# --- torch.compile --------------------------------------------------------

@pytest.fixture
def dynamo():
    """Counts graphs and their breaks; nothing is compiled yet."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    def start():
        torch._dynamo.reset()
        counters.clear()

    start()
    yield start, counters
    torch._dynamo.reset()


def compiled(how: str, backend: str):
    """(what runs, its modules) with a part compiled."""
    net = small()
    # torch finds nothing to compile at the top of a module of its own.
    make = dict(backend=backend, fullgraph="method" not in how)
    call = net
    if how == "model":
        call = net = torch.compile(net, **make)
    elif how == "submodule":
        net[2] = torch.compile(net[2], **make)
    elif how == "method":
        net.compile(**make)
    elif how == "submethod":
        net[2].compile(**make)
    elif how == "function":
        after = torch.compile(lambda y: y.sin() * 2, **make)

        def call(x):
            return after(net(x))
    elif how == "around":
        call = torch.compile(lambda x: net(x).sin(), **make)
    return call, net


def graphs(counters) -> tuple:
    return (counters["stats"]["unique_graphs"],
            counters["stats"]["calls_captured"],
            dict(counters["graph_break"]))


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("how", ["model", "submodule", "method", "submethod",
                                 "function", "around"])
def test_compiled_code_is_the_same_code(tmp_path, dynamo, how, backend, warm):
    """The mode and the hooks leave no trace in what is compiled: as many
    graphs with as many calls, no break, no compilation again in a later
    step; and the same bits. `warm`: compiled before the capture begins."""
    start, counters = dynamo
    seen = []
    results = []
    for captured in (False, True):
        start()
        call, net = compiled(how, backend)
        if warm:
            call(batch()).sum().backward()
            net.zero_grad()
            counters.clear()
        watch = assay.Capture(tmp_path, net, mode="tensor")
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                if captured:
                    watch.start()
                loss = call(batch()).square().sum()
                loss.backward()
                if captured:
                    watch.stop()
                    watch.step()
                found += [loss.detach(),
                          *(p.grad.clone() for p in net.parameters())]
        assert watch.faults == []
        results.append(found)
        seen.append(graphs(counters))
    assert all(torch.equal(a, b) for a, b in zip(*results))
    if "method" in how:  # of torch's own modules there is nothing to compile
        assert seen == [(0, 0, {})] * 2
    elif warm:
        # Its guard on the modes fails, so it is compiled once more.
        assert seen[0] == (0, 0, {}) and seen[1][0] == 1
    else:
        assert seen[0] == seen[1] and seen[0][0] >= 1
    found = rows(tmp_path / "step0")
    assert "Tensor.square.0.forward.output.0" in found
    assert not any("unreadable" in line
                   for line in lines(tmp_path / "step0/rank0"))


@pytest.mark.parametrize("how", ["model", "around"])
def test_level_aten_leaves_compiled_code_compiled(tmp_path, dynamo, how):
    """Under a dispatch mode torch runs in eager mode what is compiled
    otherwise, unless the mode says that it need not see the inside."""
    start, counters = dynamo
    seen = []
    for captured in (False, True):
        start()
        call, net = compiled(how, "aot_eager")
        watch = (assay.capture(tmp_path, net, level="aten") if captured
                 else contextlib.nullcontext())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with watch:
                loss = call(batch()).square().sum()
                loss.backward()
        seen.append((graphs(counters), loss.item()))
    assert seen[0] == seen[1] and seen[0][0][0] == 1
    assert "Aten.pow.0.forward.output.0" in rows(tmp_path)
    start()
    call, net = compiled(how, "aot_eager")
    call(batch())  # and once it is over, torch compiles as before
    assert counters["stats"]["unique_graphs"] == 1


def test_what_is_not_seen_of_compiled_modules_is_said(tmp_path, dynamo):
    for how, where in (("submodule", "2"), ("submethod", "2"),
                       ("model", "the model")):
        call, net = compiled(how, "eager")
        with pytest.warns(RuntimeWarning, match="torch.compile"):
            with assay.capture(tmp_path / how, net, level="module"):
                call(batch())
    found = rows(tmp_path / "submodule")
    assert "Module.2.Sequential.forward.0.output.0" in found
    assert "Module.2.0.Linear.forward.0.output.0" not in found
    found = rows(tmp_path / "submethod")
    assert "Module.3.Linear.forward.0.output.0" in found
    assert not any(name.startswith("Module.2") for name in found)


def test_a_compiled_run_pairs_with_one_that_is_not(tmp_path, dynamo):
    """Names are the module's own; what is not seen is no match."""
    for how in ("plain", "submodule"):
        call, net = compiled(how, "eager")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with assay.capture(tmp_path / how, net, level="module",
                               mode="hash"):
                call(batch()).sum().backward()
    plain, found = rows(tmp_path / "plain"), rows(tmp_path / "submodule")
    assert set(found) - {str(tmp_path / "submodule")} < set(plain)
    assert {n for n in plain if "parameters_grad" in n} < set(found)
    assert compared(tmp_path / "plain", tmp_path / "submodule") == 4


# --- scripts and traces ---------------------------------------------------

def test_scripted_and_traced_modules(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        nets = torch.nn.Sequential(torch.jit.script(small()),
                                   torch.jit.trace(small()[3],
                                                   torch.ones(1, 8)))

    def run():
        nets.zero_grad()
        loss = nets[1](torch.cat([nets[0](batch())] * 4, 1)).sum()
        loss.backward()
        return [loss, *(p.grad for p in nets.parameters())]

    for _ in range(3):  # TorchScript compiles again after its first calls
        run()
    found = unchanged(tmp_path, run, nets, quiet=False, mode="tensor")
    assert "Torch.cat.0.forward.input.0.0" in found
    assert any("parameters_grad" in name for name in found)


def test_a_trace_of_jit_has_nothing_of_ours(tmp_path):
    net = small()

    def traced():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", DeprecationWarning)
            made = torch.jit.trace(net, batch(), check_trace=False)
        return str(made.inlined_graph).split("\n")

    def nodes(graph):
        return [line.split("= ")[1].split("(")[0] for line in graph
                if "aten::" in line]

    expected = nodes(traced())
    with assay.capture(tmp_path, net) as capture:
        found = nodes(traced())
    assert capture.faults == []
    assert found == expected and len(expected) >= 5


# --- modes ----------------------------------------------------------------

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


# --- threads --------------------------------------------------------------

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


# --- autograd -------------------------------------------------------------

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * 3 * x ** 2


def second_derivative(net, x):
    y = net(x).tanh().sum()
    first, = torch.autograd.grad(y, x, create_graph=True)
    first.square().sum().backward()
    return [y, first, x.grad, *(p.grad for p in net.parameters())]


def create_graph(net, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net(x).square().sum().backward(create_graph=True)
    gradients = [p.grad for p in net.parameters()]
    net.zero_grad()
    gradients[0].square().sum().backward()
    return [*gradients, *(p.grad for p in net.parameters())]


def retained(net, x):
    y = net(x).square().sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def some_inputs(net, x):
    net(x).sum().backward(inputs=[x, net[0].weight])
    return [x.grad, net[0].weight.grad]


def jacobian(net, x):
    return torch.autograd.functional.jacobian(net, x, vectorize=True)


def custom(net, x):
    Cube.apply(net(x)).sum().backward()
    return [x.grad]


def users_hooks(net, x):
    seen = []
    handles = [
        net[2].register_full_backward_hook(
            lambda m, i, o: (i[0] * 2,) + i[1:]),
        net[3].register_full_backward_pre_hook(lambda m, o: (o[0] + 1,)),
        net[0].register_forward_hook(lambda m, a, out: out + 1),
        net[0].weight.register_post_accumulate_grad_hook(
            lambda p: seen.append(p.grad.clone()))]
    y = net(x)
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    for handle in handles:
        handle.remove()
    return [x.grad, *seen, *(p.grad for p in net.parameters())]


def anomaly(net, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            net(x).sum().backward()
    return [x.grad]


def saved_hooks(net, x):
    packed = []

    def pack(t):
        packed.append(t.detach().clone())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        net(x).sum().backward()
    return [x.grad, *packed]


def on_cpu(net, x):
    with torch.autograd.graph.save_on_cpu():
        net(x).sum().backward()
    return [x.grad]


def reentrant(net, x):
    checkpoint(net, x, use_reentrant=True).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def not_reentrant(net, x):
    checkpoint(net, x, use_reentrant=False).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def selective(net, x):
    """Its cache of operators is a dispatch mode, in which a call of the
    capture's would have a place."""
    from torch.utils.checkpoint import (
        CheckpointPolicy, create_selective_checkpoint_contexts)

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE

    checkpoint(net, x, use_reentrant=False, context_fn=lambda:
               create_selective_checkpoint_contexts(policy)).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def autocast(net, x):
    with torch.autocast("cpu", torch.bfloat16):
        y = net(x)
    y.float().sum().backward()
    return [y, x.grad]


def reused(net, x):
    return [net[2](net[2](net[0](x))).sum(), net(x)]


def in_place(net, x):
    y = net[0](x)
    y.mul_(2).add_(1)
    y[0] = 0
    F.relu(y, inplace=True)
    y.sum().backward()
    return [y, x.grad]


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
@pytest.mark.parametrize("run", [
    second_derivative, create_graph, retained, some_inputs, jacobian, custom,
    users_hooks, anomaly, saved_hooks, on_cpu, reentrant, not_reentrant,
    selective, autocast, reused, in_place], ids=lambda run: run.__name__)
def test_autograd_in_every_form(tmp_path, run, mode):
    net = small()

    def again():
        net.zero_grad()
        return run(net, batch().requires_grad_())

    found = unchanged(tmp_path, again, net, mode=mode)
    assert "Functional.linear.0.forward.output.0" in found


def test_a_second_pass_through_a_freed_graph(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with assay.capture(tmp_path, level="api") as capture:
        y = (x * x).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        (x * 2).sum().backward()
    assert capture.faults == []
    assert torch.equal(x.grad, torch.full((2,), 4.0))


def test_a_pass_that_leaves_a_branch_out_is_not_added_to_the_next(tmp_path):
    """x goes into two nodes of one call; each pass reaches one of them. The
    call's gradient of x is that of its own pass."""
    class Two(torch.nn.Module):
        def forward(self, x):
            return x * 2, x * 3

    net, x = Two(), torch.ones(2, requires_grad=True)
    with assay.capture(tmp_path, net, level="module", mode="tensor"):
        a, b = net(x)
        torch.autograd.grad(a.sum(), x, retain_graph=True)
        b.sum().backward()
    name = "Module.Two.backward.0.output.0"
    assert tensor(tmp_path, name).tolist() == [2, 2]
    again = "Module.Two.backward.0#2.output.0"
    assert tensor(tmp_path, again).tolist() == [3, 3]


# --- models that change ---------------------------------------------------

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


# --- memory ---------------------------------------------------------------

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
