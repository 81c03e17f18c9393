"""assay.fuzz leaves the graph of the training alone: what it saves, what it
keeps alive, and whose gradients it takes for whose."""

from __future__ import annotations

import gc
import weakref

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.utils.checkpoint import checkpoint

import assay
from assay._core import fuzz_modes

EVERY = [(mode, "forward") for mode in fuzz_modes()] + [
    ("repeat", "backward"), ("improve_precision", "backward")]


def seeded(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("mode, stage", EVERY)
@pytest.mark.parametrize("finished", [True, False])
def test_no_tensor_outlives_its_step(mode, stage, finished):
    """In-place calls, views and calls that return what they were given close
    a circle from a hook on a node to a tensor of it."""
    check = assay.fuzz(mode=mode, stage=stage)
    weight = seeded(8, 8).requires_grad_()
    with check:
        x = seeded(4, 8) @ weight
        y = torch.dropout(x, 0.5, False).contiguous().view(-1)
        z = torch.relu_(torch.exp(y) * 2).sigmoid()
        if finished:
            z.sum().backward()
    dead = [weakref.ref(each) for each in (x, y, z)]
    del x, y, z
    gc.collect()
    assert [each() for each in dead] == [None] * 3
    assert bool(check.report.rows) == (finished or stage == "forward")


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Sequential(
            nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2), nn.LayerNorm(8))
            for _ in range(3))
        self.reentrant = reentrant

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return x.square().sum()


@pytest.mark.parametrize("sample", [1.0, 0.5])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("mode, stage", EVERY)
def test_checkpointing_counts_what_the_training_saves(mode, stage, reentrant,
                                                      sample):
    def run(check=None):
        model = Checkpointed(reentrant)
        torch.manual_seed(1)
        x = seeded(4, 8).requires_grad_()
        if check is None:
            model(x).backward()
        else:
            with check:
                model(x).backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    check = assay.fuzz(mode=mode, stage=stage, sample=sample)
    for one, other in zip(run(), run(check)):
        assert torch.equal(one, other)
    assert not [row for row in check.report.rows
                if any(reason.criterion == "fault" for reason in row.reasons)]


def test_what_the_training_saves_is_all_its_hooks_see():
    def run(check=None):
        saved = []

        def pack(tensor):
            saved.append(tensor.shape)
            return tensor

        x = seeded(4, 8).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            if check is None:
                torch.exp(x).tanh().sum().backward()
            else:
                with check:
                    torch.exp(x).tanh().sum().backward()
        return saved

    for mode, stage in EVERY:
        assert run(assay.fuzz(mode=mode, stage=stage)) == run()


@pytest.mark.parametrize("mode", ["repeat", "improve_precision"])
def test_calls_that_share_a_cast_are_not_held_to_its_gradient(mode):
    """Autocast casts a weight once a region: what arrives is the sum."""
    once, twice = nn.Linear(8, 8), nn.Linear(8, 8)
    check = assay.fuzz(mode=mode, stage="backward")
    with check:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = once(twice(twice(seeded(4, 8)))).float().sum()
        loss.backward()
    report = check.report
    of = {row.name: row for row in report.rows}
    assert report.verdict == "incomplete"
    for call, verdict in ((0, "incomplete"), (1, "incomplete"), (2, "match")):
        row = of[f"Functional.linear.{call}.backward.output.1"]
        assert row.verdict == verdict, row
    assert of["Functional.linear.0.backward.output.1"].reasons[
        0].criterion == "shared_cast"
    # A region of its own casts anew.
    check = assay.fuzz(mode=mode, stage="backward")
    for _ in range(2):
        with check:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = twice(seeded(4, 8)).float().sum()
            loss.backward()
        check.step()
    assert check.report.verdict == "match", check.report


_library = torch.library.Library("silent", "DEF")
_library.define("writer(Tensor x) -> Tensor")


def _writer(x):
    x.data.add_(1)  # which no version counts
    return x * 2


_library.impl("writer", _writer, "CPU")


@pytest.mark.parametrize("mode", fuzz_modes())
def test_a_kernel_that_writes_in_silence_writes_once(mode):
    x = seeded(4, 8)
    expected = x + 1 + 1
    check = assay.fuzz(mode=mode)
    with check:
        torch.ops.silent.writer(x)
        torch.ops.silent.writer(x)
    assert torch.equal(x, expected)
    assert check.report.verdict == "incomplete"  # of the first


@pytest.mark.parametrize("mode", fuzz_modes())
def test_memory_beside_an_argument_is_not_made_up(mode):
    base = seeded(16)
    check = assay.fuzz(mode=mode)
    with check:
        torch.as_strided(base[8:12], (4,), (1,), 0)
        torch.as_strided_scatter(base[8:12], seeded(2), (2,), (1,), 0)
    assert not check.report.of_verdict("mismatch"), check.report
    assert {row.verdict for row in check.report.rows
            if "as_strided" in row.name} == {"empty"}
