"""assay.capture and compiled code: it is what it would be without a capture,
and is seen from outside."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch

import assay
from capturing import batch, compared, lines, rows, small, unchanged


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
