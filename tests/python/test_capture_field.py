"""What users of other tools' captures complain of (msprobe's FAQ, its issues
and its sources), each held against assay.capture."""

from __future__ import annotations

import os
import subprocess

import pytest
import torch
import torch.nn.functional as F

import assay
from capturing import lines, rows, unchanged
from paths import ASSAY
from test_capture import loss_of, model, tensor


def test_a_trace_grows_and_is_not_written_again(tmp_path):
    """dump.json was written anew after every thousand entries, which costs
    the square of their number."""
    capture = assay.Capture(tmp_path, level="api").start()
    path = tmp_path / "step0/rank0/trace.jsonl"
    x = torch.ones(3)
    before = b""
    for _ in range(4):
        for _ in range(500):
            x = x.neg()
        capture._recorder.writer.flush()
        text = path.read_bytes()
        assert text.startswith(before) and len(text) > len(before)
        before = text
    number = os.stat(path).st_ino
    capture.close()
    assert path.read_bytes().startswith(before)
    assert os.stat(path).st_ino == number


def test_what_was_seen_before_a_crash_is_there(tmp_path):
    """Without stop() and step() a dump was empty or broke off in its JSON."""
    capture = assay.Capture(tmp_path, level="api", mode="tensor").start()
    torch.arange(3.0).neg()
    capture._recorder.writer.flush()
    said = [subprocess.run([ASSAY, "inspect", tmp_path, what],
                           capture_output=True, text=True).stdout
            for what in ("Tensor.neg.0.forward.output.0", "--all")]
    capture.close()
    assert "values   -0, -1, -2" in said[0]
    assert "was stopped" in said[1]


def test_functions_are_themselves_while_captured(tmp_path):
    """Wrapped functions failed where a model asks what they are."""
    before = (F.gelu, torch.relu, torch.Tensor.add, torch.nn.Linear.forward)
    with assay.capture(tmp_path, level="api"):
        assert before == (F.gelu, torch.relu, torch.Tensor.add,
                          torch.nn.Linear.forward)
        assert type(torch.ones(1)) is torch.Tensor
        assert isinstance(F.gelu, type(F.gelu))


def test_operators_of_extensions_are_seen_without_being_named(tmp_path):
    """Only those of a list were, others had to be registered."""
    name = "assay_field::twice"
    library = torch.library.Library("assay_field", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
    with assay.capture(tmp_path, level="api", mode="tensor"):
        torch.ops.assay_field.twice(torch.ones(2))
    del library
    found = [n for n in rows(tmp_path) if "twice" in n]
    assert any(n.endswith("forward.output.0") for n in found), name
    assert len(found) == 2


@pytest.mark.parametrize("inplace", [True, False])
def test_gradients_of_modules_with_in_place_operators(tmp_path, inplace):
    """Module hooks failed on them ("is a view and is being modified
    inplace"), or their gradients were missing."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4),
                              torch.nn.ReLU(inplace=inplace),
                              torch.nn.Dropout(0.0, inplace=inplace))
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))
    with assay.capture(tmp_path, net, mode="tensor"):
        y = net(x)
        y.sum().backward()
    expected = (y.detach() > 0).float()
    for name in ("Module.1.ReLU.backward.0.output.0",
                 "Module.0.Linear.backward.0.input.0"):
        assert torch.equal(tensor(tmp_path, name), expected), name


def test_the_gradient_of_a_weight_of_matmul(tmp_path):
    """It was absent for matmul."""
    a = torch.arange(6.0).view(2, 3)
    w = torch.ones(3, 2, requires_grad=True)
    with assay.capture(tmp_path, level="api", mode="tensor"):
        (a @ w).sum().backward()
    assert torch.equal(tensor(tmp_path, "Tensor.matmul.0.backward.output.1"),
                       a.sum(0)[:, None].expand(3, 2))


def test_a_graph_of_many_views(tmp_path):
    net = torch.nn.Linear(4, 4)

    def run():
        net.zero_grad()
        y = net(torch.ones(2, 4))
        both = y.view(2, 2, 2).transpose(0, 1)
        left, right = both[0], both[1].detach()
        left.T[0].mul_(3)
        y[:, 1:].add_(right[:, :1].expand(2, 3))
        y.chunk(2, 1)[1].sum().backward()
        return [y, net.weight.grad]

    unchanged(tmp_path, run, net, mode="tensor")


def test_a_tensor_is_stored_once(tmp_path):
    """A module's output, the next one's input and the function between were
    three files: twice the bytes of what there was."""
    net = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(8)))
    x = torch.randn(64, 64)
    with assay.capture(tmp_path, net, mode="tensor"):
        net(x)
    records = [line for line in lines(tmp_path / "step0/rank0")
               if "hash" in line]
    assert len(records) == 18
    assert len({(r["hash"], r["shard"], r["at"]) for r in records}) == 1
    shard = tmp_path / "step0/rank0/tensors-00000.safetensors"
    assert shard.stat().st_size == (1 << 20) + x.nbytes


def test_a_stack_is_written_once(tmp_path):
    """It was repeated for every operator: most of the dump's text."""
    x = torch.ones(2)
    with assay.capture(tmp_path, level="api"):
        for _ in range(100):
            x = x.neg()
    found = lines(tmp_path / "step0/rank0")
    assert len([line for line in found if "stack" in line
                and "op" not in line]) == 1
    assert {line["stack"] for line in found if "op" in line} == {0}


def test_nan_and_infinities_keep_their_signs(tmp_path):
    """Statistics lost the sign of an Inf, and twelve decimals are not enough
    to tell two numbers apart."""
    x = torch.tensor([float("inf"), float("-inf"), float("-inf"),
                      float("nan"), 0.1], dtype=torch.float64)
    with assay.capture(tmp_path, level="api"):
        assay.save(x, "x")
    record = [r for r in lines(tmp_path / "step0/rank0") if "max" in r][0]
    assert (record["inf"], record["-inf"], record["nan"]) == (1, 2, 1)
    assert record["max"] == record["min"] == 0.1


def test_a_capture_with_nothing_in_it_is_a_trace(tmp_path):
    """A dump of nothing left a JSON that nobody could read."""
    with assay.capture(tmp_path, level="api"):
        pass
    done = subprocess.run([ASSAY, "inspect", tmp_path], capture_output=True,
                          text=True)
    assert done.returncode in (0, 4), done.stderr
    done = subprocess.run([ASSAY, "compare", tmp_path, tmp_path, "--quiet"])
    assert done.returncode == 4  # nothing was compared


def test_a_run_with_a_capture_has_the_gradients_of_one_without(tmp_path):
    """Hooks of others changed the norm of the gradients and the loss."""
    net = model()
    x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))

    def run():
        net.zero_grad()
        loss = loss_of(net, x)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3)
        return [loss, norm, *(p.grad for p in net.parameters())]

    for level in ("module", "api", "mix", "aten"):
        unchanged(tmp_path / level, run, net, level=level)
