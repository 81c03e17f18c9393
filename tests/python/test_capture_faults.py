"""assay.capture when something goes wrong: the training goes on with the same
bits, and the trace never lets what it lacks pass for a match."""

from __future__ import annotations

import warnings

import pytest
import torch

import assay
from assay.capture import functions, leaf_writer
from assay.capture import recorder as recorder_module
from capturing import compared, lines, rows, unchanged
from test_capture import loss_of, model


class Fragile(torch.nn.Module):
    """Raises at its first call, what it is told to."""

    def __init__(self, error=None, inner=None):
        super().__init__()
        self.error, self.inner, self.calls = error, inner, 0

    def forward(self, x):
        self.calls += 1
        if self.error is not None and self.calls == 1:
            raise self.error
        return self.inner(x) if self.inner is not None else x * 2


class Retries(torch.nn.Module):
    """Calls its part again where it raises."""

    def __init__(self, part):
        super().__init__()
        self.part = part
        self.after = torch.nn.Identity()

    def forward(self, x):
        try:
            x = self.part(x)
        except BaseException:
            x = self.part(x)
        return self.after(x)


def parents(directory) -> dict[str, str]:
    """The parent of each operator, by name; "" at the top."""
    ops = [line for line in lines(directory) if "op" in line]
    return {op["op"]: ops[op["parent"]]["op"] if "parent" in op else ""
            for op in ops}


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()],
                         ids=["error", "interrupt"])
def test_a_forward_that_raises_and_is_called_again(tmp_path, error):
    """Modules that were entered are left, by Ctrl-C too, so that what comes
    after has the right parent."""
    def made():
        part = Fragile(inner=Fragile(error))
        return Retries(part)

    def run(net):
        return [net(torch.ones(2)), net(torch.ones(2))]

    expected = run(made())
    net = made()
    with assay.capture(tmp_path, net, level="module") as capture:
        found = run(net)
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    assert capture.faults == []
    tree = parents(tmp_path / "step0/rank0")
    part = "Module.part.Fragile.forward"
    assert tree == {
        "Module.Retries.forward.0": "", "Module.Retries.forward.1": "",
        f"{part}.0": "Module.Retries.forward.0",
        f"{part}.1": "Module.Retries.forward.0",
        f"{part}.2": "Module.Retries.forward.1",
        "Module.part.inner.Fragile.forward.0": f"{part}.0",
        "Module.part.inner.Fragile.forward.1": f"{part}.1",
        "Module.part.inner.Fragile.forward.2": f"{part}.2",
        "Module.after.Identity.forward.0": "Module.Retries.forward.0",
        "Module.after.Identity.forward.1": "Module.Retries.forward.1"}
    raised = [line["value"] for line in lines(tmp_path / "step0/rank0")
              if line.get("leaf") == "output.raised"]
    if isinstance(error, ValueError):
        assert raised == ["ValueError: no"] * 2
    else:
        assert raised == ["the call was left"] * 2


def test_a_call_that_raises_out_of_the_model(tmp_path):
    net = torch.nn.Sequential(torch.nn.Identity(), Fragile(OSError("x")))
    with assay.capture(tmp_path, net, level="mix") as capture:
        for _ in range(2):
            try:
                net(torch.ones(2))
            except OSError as error:
                assert str(error) == "x"
        with pytest.raises(RuntimeError, match="size"):
            torch.ones(2) @ torch.ones(3)
    assert capture.faults == []
    tree = parents(tmp_path / "step0/rank0")
    assert tree["Module.Sequential.forward.1"] == ""
    assert tree["Module.1.Fragile.forward.1"] == "Module.Sequential.forward.1"
    assert tree["Tensor.matmul.0.forward"] == ""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["pre", "forward", "backward", "tensor"])
def test_a_hook_of_the_users_that_raises(tmp_path, kind, when):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())

    def fails(*_):
        raise ZeroDivisionError("the user's")

    def put():
        if kind == "pre":
            return net[1].register_forward_pre_hook(fails)
        if kind == "forward":
            return net[1].register_forward_hook(fails)
        if kind == "backward":
            return net[1].register_full_backward_hook(fails)
        return net[0].weight.register_hook(fails)

    if when == "before":
        handle = put()
    with assay.capture(tmp_path, net) as capture:
        if when == "after":
            handle = put()
        with pytest.raises(ZeroDivisionError, match="the user's"):
            net(torch.ones(1, 2)).sum().backward()
        handle.remove()
        net.zero_grad()
        net(torch.ones(1, 2)).sum().backward()
    assert capture.faults == []
    tree = parents(tmp_path / "step0/rank0")
    assert tree["Module.Sequential.forward.1"] == ""
    assert tree["Module.0.Linear.forward.1"] == "Module.Sequential.forward.1"
    found = rows(tmp_path)
    assert any(name.startswith("Module.0.Linear.parameters_grad")
               for name in found)


def test_a_module_that_calls_itself(tmp_path):
    class Again(torch.nn.Module):
        def forward(self, x, depth):
            if depth == 0:
                raise LookupError
            try:
                return self(x + 1, depth - 1)
            except LookupError:
                return x

    net = Again()
    found = unchanged(tmp_path, lambda: net(torch.zeros(1), 3), net)
    tree = parents(tmp_path / "trace/step0/rank0")
    stem = "Module.Again.forward"
    assert [tree[f"{stem}.{i}"] for i in range(4)] == [
        "", f"{stem}.0", f"{stem}.1", f"{stem}.2"]
    assert f"{stem}.2.output.0" in found and f"{stem}.3.output.0" not in found
    assert f"{stem}.3.output.raised" in found


@pytest.mark.parametrize("place", ["op", "tensor", "output"])
def test_a_fault_of_the_recorder_is_told_of_and_is_no_match(
        tmp_path, monkeypatch, place):
    net = model(1)
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(0))
    expected = loss_of(net, x)
    clean = recorder_module.Recorder.leaves
    begun = recorder_module.Recorder.begin

    def leaves(self, op, role, found):
        if place == "tensor" or (place == "output" and role == "output"):
            raise IndexError("a bug of ours")
        clean(self, op, role, found)

    def begin(self, name, *rest, **more):
        if place == "op" and "gelu" in name:
            raise IndexError("a bug of ours")
        return begun(self, name, *rest, **more)

    monkeypatch.setattr(recorder_module.Recorder, "leaves", leaves)
    monkeypatch.setattr(recorder_module.Recorder, "begin", begin)
    for run in ("a", "b"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with assay.capture(tmp_path / run, net) as capture:
                loss = loss_of(net, x)
                loss.backward()
        assert torch.equal(loss, expected)
        assert capture.faults and all(
            "IndexError: a bug of ours" in fault for fault in capture.faults)
        assert len(said) == 2  # at the first, and the count at the end
        assert "a bug of ours" in str(said[0].message)
        assert f"{len(capture.faults)} calls" in str(said[1].message)
    found = rows(tmp_path / "a")
    assert len([n for n in found if n.startswith("fault.")]) == len(
        capture.faults)
    assert compared(tmp_path / "a", tmp_path / "b") == 4


def test_many_faults_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(
        leaf_writer, "described",
        lambda value: (_ for _ in ()).throw(MemoryError()))
    ones = torch.ones(2)
    with pytest.warns(RuntimeWarning, match="150 calls of step 0"):
        with assay.capture(tmp_path, level="api") as capture:
            for _ in range(150):
                ones.sum(0)
    assert len(capture.faults) == 100
    assert "150 faults" in lines(tmp_path / "step0/rank0")[-2]["unreadable"]


def test_functions_that_cannot_be_named_or_hashed(tmp_path, monkeypatch):
    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            if torch.overrides.has_torch_function((x,)):
                return torch.overrides.handle_torch_function(self, (x,), x)
            return x

    real = functions.kind_of

    def kind_of(function):
        if getattr(function, "__name__", "") == "neg":
            raise LookupError("a bug of ours")
        return real(function)

    monkeypatch.setattr(functions, "kind_of", kind_of)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with assay.capture(tmp_path, level="api") as capture:
            x = torch.ones(2)
            assert torch.equal(x.neg().neg(), x)
            assert Unhashable()(x) is x
            x.abs()
    assert capture.faults == [
        "neg: LookupError: a bug of ours",
        "a function: TypeError: unhashable type: 'Unhashable'"]
    assert "Tensor.abs.0.forward.output.0" in rows(tmp_path)


def test_where_warnings_are_errors_the_training_goes_on(tmp_path,
                                                        monkeypatch, capsys):
    monkeypatch.setattr(
        leaf_writer, "described",
        lambda value: (_ for _ in ()).throw(MemoryError()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with assay.capture(tmp_path, level="api") as capture:
            assert torch.ones(2).sum(0).item() == 2
    assert capture.faults
    assert "MemoryError" in capsys.readouterr().err
