"""assay.env and assay.record_init: what differs is named first."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

import assay
from env_runs import Batches, record
from paths import PACKAGE


@pytest.fixture
def diff(assay, tmp_path):  # noqa: F811: the program, not the package
    """The document of a diff of two snapshots, and the exit code."""

    def run(golden, target, code, *options):
        paths = []
        for i, one in enumerate((golden, target)):
            path = one
            if isinstance(one, dict):
                path = tmp_path / f"{i}.json"
                path.write_text(json.dumps(one))
            paths.append(path)
        out = assay("env", "diff", *paths, "--json", "-", *options, code=code)
        return json.loads(out.stdout)

    return run


def first(document):
    return document["first_divergence"]["name"]


def test_the_same_start_is_a_match(diff, tmp_path):
    golden = record(tmp_path / "a.json")
    record(tmp_path / "b.json")
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 0)
    assert document["counts"]["mismatch"] == 0
    names = {row["name"] for row in document["rows"]}
    assert {"weights.0.weight", "weights.1.running_mean", "data.batch0.x",
            "hyperparameters.optimizer.group0.eps",
            "random.state.torch.cpu", "libraries.torch",
            "switches.torch.backends.cuda.matmul.allow_tf32"} <= names
    assert golden["weights"][0]["name"] == "0.weight"


def test_a_snapshot_tells_how_many_weights_and_batches_it_took_in(
        assay, tmp_path):  # noqa: F811: the program, not the package
    made = record(tmp_path / "a.json")
    said = assay("env", "snapshot", "--static", "--init", tmp_path / "a.json",
                 "--out", tmp_path / "b.json", code=0).stdout
    assert f" data {len(made['batches'])} " in said
    assert f" weights {len(made['weights'])} " in said


def test_a_tf32_switch(diff, tmp_path):
    record(tmp_path / "a.json")
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not before
    try:
        record(tmp_path / "b.json", dropout=0.0)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    # Before the dropout, which differs too.
    assert "allow_tf32" in first(document) or "precision" in first(document)
    differ = [row["name"] for row in document["rows"]
              if row["verdict"] == "mismatch"]
    assert "switches.torch.backends.cuda.matmul.allow_tf32" in differ
    assert differ[-1] == "hyperparameters.hidden_dropout"


def test_another_seed(diff, tmp_path):
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", seed=8)
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert first(document) == "hyperparameters.seed"
    differ = {row["name"] for row in document["rows"]
              if row["verdict"] == "mismatch"}
    assert differ == {"hyperparameters.seed", "random.state.python",
                      "random.state.torch.cpu", "random.seed.torch.cpu"}


def test_another_dropout(diff, tmp_path):
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", dropout=0.0)
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert first(document) == "hyperparameters.hidden_dropout"
    assert document["counts"]["mismatch"] == 1


def test_one_weight(diff, tmp_path):
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", spoil="1.weight")
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert first(document) == "weights.1.weight"
    assert document["counts"]["mismatch"] == 1


def test_weights_rounded_to_another_dtype(diff, tmp_path):
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", dtype=torch.bfloat16)
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1,
                    "--section", "weights")
    causes = {row["name"]: row.get("cause") for row in document["rows"]}
    assert causes["weights.0.weight"] == (
        "the golden's values rounded to bfloat16")
    assert causes["weights.1.running_mean"] == (
        "the same values in another dtype")


def test_another_order_of_batches(diff, tmp_path):
    record(tmp_path / "a.json")
    record(tmp_path / "b.json", order=(0, 2, 1))
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert first(document) == "data.batch1.x"
    row = next(row for row in document["rows"]
               if row["name"] == "data.batch1.x")
    assert row["cause"] == ("another order of batches: this is the golden's "
                            "batch 2")


def test_samples_in_another_order(diff, tmp_path):
    x = torch.arange(24.0).view(12, 2)
    for name, data in (("a", x), ("b", x[torch.tensor(
            [3, 1, 2, 0, 4, 5, 6, 7, 11, 9, 10, 8])]),
            ("c", x.flip(0)), ("d", x.flip(1))):
        assay.record_init(dataloader=list(data.split(4)), batches=3,
                          path=tmp_path / f"{name}.json")
    within = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert {row["name"]: row.get("cause") for row in within["rows"]
            if row["verdict"] == "mismatch"} == dict.fromkeys(
                ("data.batch0", "data.batch2"),
                "the same rows in another order")
    across = diff(tmp_path / "a.json", tmp_path / "c.json", 1)
    assert within["first_divergence"]["name"] == "data.batch0"
    assert any(row.get("cause") == "the same samples over all batches, in "
               "another order" for row in across["rows"])
    other = diff(tmp_path / "a.json", tmp_path / "d.json", 1)
    assert any("the same elements in another order" in row.get("cause", "")
               for row in other["rows"])


def test_one_variable(diff, tmp_path, monkeypatch):
    record(tmp_path / "a.json")
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    record(tmp_path / "b.json")
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert first(document) == "environment.NCCL_ALGO"
    assert document["first_divergence"]["reason"] == "not set in the golden"
    assert document["counts"]["mismatch"] == 1


def test_a_version(diff, tmp_path):
    golden = record(tmp_path / "a.json")
    target = json.loads(json.dumps(golden))
    target["sections"]["libraries"]["values"]["torch"] = "2.0.1"
    target["sections"]["libraries"]["values"]["aaa-other"] = "1"
    document = diff(golden, target, 1)
    assert first(document) == "libraries.torch"


def test_without_torch_it_is_incomplete(diff, tmp_path):
    golden = record(tmp_path / "a.json")
    target = json.loads(json.dumps(golden))
    target["sections"]["switches"] = {
        "collected": False, "missing": ["torch is not installed"]}
    document = diff(golden, target, 4)
    row = next(row for row in document["rows"]
               if row["name"] == "switches.collected")
    assert row["verdict"] == "incomplete"
    assert "torch is not installed" in row["reasons"][0]["text"]


@pytest.fixture
def mesh():
    """One process that is a group of one."""
    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(),
                                   rank=0, world_size=1)
    try:
        from torch.distributed.device_mesh import init_device_mesh
        yield init_device_mesh("cpu", (1,))
    finally:
        distributed.destroy_process_group()


def test_pieces_of_a_sharded_tensor(diff, tmp_path, mesh):
    from torch.distributed.tensor import Shard, distribute_tensor
    whole = torch.arange(12.0).view(4, 3)
    for dim in (0, 1):
        model = torch.nn.Linear(3, 4, bias=False)
        model.weight = torch.nn.Parameter(
            distribute_tensor(whole, mesh, [Shard(dim)]))
        made = assay.record_init(model, path=tmp_path / f"{dim}.json")
    weight = made["weights"][0]
    assert weight["hash"] == assay._core.content_hash(whole.numpy())
    assert "1" in weight["placement"]
    assert weight["placement"].endswith("of 4x3, rank 0 of 1")
    only = ("--section", "weights")
    diff(tmp_path / "0.json", tmp_path / "0.json", 0, *only)
    # Other pieces are not held against each other, though here they agree.
    diff(tmp_path / "0.json", tmp_path / "1.json", 4, *only)


def test_record_init_leaves_the_training_as_it_is(tmp_path):
    data = torch.utils.data.TensorDataset(torch.arange(20.0))
    own = torch.Generator().manual_seed(3)
    for generator in (None, own):
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True,
                                             generator=generator)
        before = (torch.get_rng_state(), random.getstate(),
                  np.random.get_state()[1].copy(), own.get_state())
        made = assay.record_init(dataloader=loader, path=None, batches=2)
        after = (torch.get_rng_state(), random.getstate(),
                 np.random.get_state()[1], own.get_state())
        assert torch.equal(before[0], after[0])
        assert before[1] == after[1]
        assert (before[2] == after[2]).all()
        assert torch.equal(before[3], after[3])
        # It saw what the training will see.
        for (batch,), seen in zip(loader, made["batches"]):
            assert seen[0]["hash"] == assay._core.content_hash(batch.numpy())


def test_what_can_be_read_once_is_left_alone(tmp_path):
    one = iter([torch.ones(2), torch.zeros(2)])
    made = assay.record_init(dataloader=one, path=None)
    assert not made["sections"]["data"]["collected"]
    assert "watch_data" in made["sections"]["data"]["missing"][0]
    assert len(list(one)) == 2
    short = assay.record_init(dataloader=[torch.ones(2)], path=None, batches=3)
    assert "the loader has 1, 3 were asked for" in (
        short["sections"]["data"]["missing"][0])


def test_watch_data_sees_what_passes(diff, tmp_path):
    for name, order in (("a", (0, 1)), ("b", (1, 0))):
        watched = assay.env.watch_data(Batches(order),
                                       tmp_path / f"{name}.json", batches=4)
        assert len(watched) == 2 and watched.order == order
        assert len(list(watched)) == 2
    document = diff(tmp_path / "a.json", tmp_path / "b.json", 1)
    assert first(document) == "data.batch0.x"
    stopped = assay.env.watch_data(Batches(), tmp_path / "c.json", batches=2)
    for _ in stopped:
        break
    assert len(json.loads((tmp_path / "c.json").read_text())["batches"]) == 1


def drawn(path, extra=False, seed=1):
    with assay.env.record_random(path) as recorded:
        torch.manual_seed(seed)
        random.random()
        torch.nn.Linear(2, 2)
        if extra:
            np.random.rand(2)
        torch.randn(2, 3)
        torch.empty(4).normal_()
        torch.nn.functional.dropout(torch.ones(3), 0.0)  # draws nothing
        torch.nn.functional.dropout(torch.ones(3), 0.5, training=False)
    return recorded.result


def test_the_first_call_that_draws_differently(diff, tmp_path):
    random.seed(0)
    golden = drawn(tmp_path / "a.json")
    assert [call["function"] for call in golden["draws"]["first"]] == [
        "torch.manual_seed", "random.random", "init.kaiming_uniform_",
        "init.uniform_", "torch.randn", "Tensor.normal_"]
    assert "test_env.py" in golden["draws"]["stacks"][0][0]
    random.seed(0)
    drawn(tmp_path / "b.json")
    diff(tmp_path / "a.json", tmp_path / "b.json", 0)
    random.seed(0)
    drawn(tmp_path / "c.json", extra=True)
    document = diff(tmp_path / "a.json", tmp_path / "c.json", 1,
                    "--ignore", "random.count.*")
    assert first(document) == "random.calls"
    reason = document["first_divergence"]["reason"]
    assert reason.startswith("call 4 is the first that differs: torch.randn(")
    assert "numpy.random.rand(2)" in reason
    drawn(tmp_path / "d.json")  # random went on
    document = diff(tmp_path / "a.json", tmp_path / "d.json", 1)
    assert first(document) == "random.numbers"
    assert "call 1 gave other numbers: random.random(" in (
        document["first_divergence"]["reason"])


def test_record_random_puts_everything_back(tmp_path):
    before = (random.random, np.random.rand, torch.manual_seed)
    with pytest.raises(RuntimeError, match="own"):
        with assay.env.record_random(tmp_path / "a.json"):
            torch.rand(1)
            raise RuntimeError("own")
    assert before == (random.random, np.random.rand, torch.manual_seed)
    assert json.loads((tmp_path / "a.json").read_text())["draws"]["count"] == 1


def test_snapshot_takes_settings_of_every_kind(tmp_path):
    @dataclasses.dataclass
    class Model:
        hidden_size: int = 8
        betas: tuple = (0.9, 0.95)

    made = assay.env.snapshot(
        tmp_path / "a.json", args={"--learning-rate": 1e-4, "model": Model()},
        config={"api_key": "hunter2-hunter2", "act": torch.relu})
    values = made["sections"]["hyperparameters"]["values"]
    assert values["learning_rate"] == 1e-4
    assert values["model.hidden_size"] == 8
    assert values["model.betas"] == "0.9 0.95"
    assert values["api_key"].startswith("#secret:")
    assert " at 0x" not in values["act"]
    assert "hunter2" not in (tmp_path / "a.json").read_text()
    assert made == json.loads((tmp_path / "a.json").read_text())
    with pytest.raises(TypeError, match="expected a Namespace"):
        assay.env.snapshot(args=3)


def test_variables_that_do_not_matter_are_left_out(monkeypatch):
    monkeypatch.setenv("MY_OWN_SETTING", "1")
    monkeypatch.setenv("TORCH_API_TOKEN", "hunter2-hunter2")
    values = assay.env.snapshot()["sections"]["environment"]["values"]
    assert "MY_OWN_SETTING" not in values
    assert values["TORCH_API_TOKEN"].startswith("#secret:")
    every = assay.env.snapshot(all_variables=True)["sections"]["environment"]
    assert every["values"]["MY_OWN_SETTING"] == "1"
    assert every["scope"] == "all"


def test_importing_assay_env_needs_no_torch():
    code = ("import sys, assay, assay.env, assay.env.collect; "
            "assert 'torch' not in sys.modules and 'numpy' not in sys.modules; "
            "print(assay.env.collect.collected()['sections']['switches'])")
    done = subprocess.run([sys.executable, "-c", code], text=True,
                          capture_output=True, env={"PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0, done.stderr
    assert "torch was not imported" in done.stdout
