"""Level "aten": what the dispatcher runs."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import assay
from capturing import compared, lines, rows, unchanged
from test_capture import loss_of, model, names, tensor
from test_capture_optimizer import operators


def test_forward_and_backward_operators_with_modules_around(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    x = torch.ones(4, 3)
    with assay.capture(tmp_path, net, level="aten", mode="tensor"):
        net(x).square().sum().backward()
    found = operators(tmp_path)
    assert found["Aten.addmm.0.forward"]["parent"] == (
        "Module.0.Linear.forward.0")
    assert found["Module.0.Linear.forward.0"]["parent"] == (
        "Module.Sequential.forward.0")
    # d(weight) = d(out).T @ x, which the backward pass computes by mm
    gradients = [tensor(tmp_path, f"{name}.output.0") for name in found
                 if name.startswith("Aten.mm.")]
    assert any(g.equal(net[0].weight.grad) or g.equal(net[0].weight.grad.T)
               for g in gradients)
    assert tensor(tmp_path, "Module.0.Linear.parameters_grad.0.weight").equal(
        net[0].weight.grad)
    assert not any(n.startswith(("Functional.", "Tensor.")) for n in found)
    assert not any(".backward" in n for n in found)


def test_operators_of_the_backward_pass_are_no_recomputation(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with assay.capture(tmp_path, level="aten"):
        x.exp().sum().backward()
    assert "Aten.mul.0.forward.output.0" in names(tmp_path)
    assert not any("recompute" in name for name in names(tmp_path))


def test_writes_are_seen_though_no_version_counts_them_yet(tmp_path):
    x = torch.zeros(256, 1024)
    with assay.capture(tmp_path, level="aten", mode="tensor"):
        torch.neg(x)
        x.add_(1)
        x[200, 3] = 5  # few elements: no sample would find them
        torch.neg(x)
        torch._foreach_add_([x], 1)
        torch.mul(x, 2, out=x.view(-1)[:0].resize_(0))
    assert tensor(tmp_path, "Aten.add_.0.forward.input.0").eq(0).all()
    assert tensor(tmp_path, "Aten.add_.0.forward.output.0").eq(1).all()
    again = tensor(tmp_path, "Aten.neg.1.forward.input.0")
    assert again[200, 3] == 5 and again[0, 0] == 1
    assert tensor(tmp_path, "Aten._foreach_add_.0.forward.output.0"
                  )[200, 3] == 6


def test_a_view_is_what_it_shows(tmp_path):
    x = torch.arange(6.0).view(2, 3)
    with assay.capture(tmp_path, level="aten", mode="tensor"):
        y = x.t()
        y.mul_(2)
    assert tensor(tmp_path, "Aten.t.0.forward.output.0").tolist() == [
        [0, 3], [1, 4], [2, 5]]
    assert tensor(tmp_path, "Aten.mul_.0.forward.output.0").tolist() == [
        [0, 6], [2, 8], [4, 10]]


@pytest.mark.parametrize("mode", ["tensor", "statistics", "hash"])
def test_no_bit_changes(tmp_path, mode):
    def run():
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(net, x).backward()
            optimizer.step()
        return [p for p in net.parameters()]

    assert unchanged(tmp_path, run, level="aten", mode=mode)


def test_two_runs_pair(tmp_path):
    for name in "ab":
        net, x = model(), torch.ones(2, 4, 8)
        with assay.capture(tmp_path / name, net, level="aten"):
            loss_of(net, x).backward()
    assert compared(tmp_path / "a", tmp_path / "b") == 0


def test_tensors_without_values_are_told_of(tmp_path):
    with assay.capture(tmp_path, level="aten") as capture:
        with FakeTensorMode():
            torch.ones(3).neg()
        torch.ones(2, device="meta").exp()
    assert capture.faults == []
    found = lines(tmp_path / "step0/rank0")
    missing = [line["unreadable"] for line in found if "unreadable" in line]
    assert any("FakeTensor" in why for why in missing)
    assert any("meta" in why for why in missing)
    assert not torch.utils._python_dispatch._len_torch_dispatch_stack()


def test_it_leaves_modes_of_the_user_alone(tmp_path):
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as outer:
        capture = assay.Capture(tmp_path, level="aten").start()
        inner = FlopCounterMode(display=False)
        inner.__enter__()
        torch.ones(2, 3) @ torch.ones(3, 4)
        capture.close()
        torch.ones(2, 3) @ torch.ones(3, 4)
        inner.__exit__(None, None, None)
    assert outer.get_total_flops() == inner.get_total_flops() == 2 * 48
    found = [n for n in names(tmp_path) if n.startswith("Aten.mm.")]
    assert {n.split(".")[2] for n in found} == {"0"}


def test_operators_of_extensions_have_their_namespace(tmp_path):
    with torch.library._scoped_library("npu", "FRAGMENT") as library:
        library.define("npu_twice(Tensor x) -> Tensor")
        library.impl("npu_twice", lambda x: x * 2, "CPU")
        for level in ("aten", "api"):
            with assay.capture(tmp_path / level, level=level, mode="tensor"):
                torch.ops.npu.npu_twice(torch.ones(2))
            assert tensor(tmp_path / level,
                          "NPU.npu_twice.0.forward.output.0").tolist() == [2, 2]
    inside = names(tmp_path / "aten")
    assert "Aten.ones.0.forward.output.0" in inside


def test_the_dtype_of_an_autocast_region(tmp_path):
    x = torch.ones(4, 4)
    for level in ("aten", "api"):
        with assay.capture(tmp_path / level, level=level):
            torch.mm(x, x)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                torch.mm(x, x)
    found = operators(tmp_path / "api")
    assert "autocast" not in found["Torch.mm.0.forward"]
    assert found["Torch.mm.1.forward"]["autocast"] == "bfloat16"
    # Below autocast there is no region any more, but its casts are there.
    shown = rows(tmp_path / "aten")
    assert "float32" in shown["Aten.mm.0.forward.input.0"]
    assert "bfloat16" in shown["Aten.mm.1.forward.input.0"]
    assert "Aten._to_copy.0.forward.output.0" in shown
