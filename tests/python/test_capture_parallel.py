"""Captures of several processes that train together."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess

import pytest
import torch
import torch.distributed as dist
from torch.distributed import all_reduce  # bound before any capture

import assay
from paths import ASSAY
from ranks import run
from test_capture import names


def exchange(rank: int, folder) -> dict:
    """Every kind of communication there is, once."""
    base = torch.arange(4.0) + 10 * rank
    found = {}
    with assay.capture(folder / "trace", level="mix", mode="tensor"):
        x = base.clone()
        all_reduce(x)
        found["all_reduce"] = x.tolist()
        y = base.clone()
        work = dist.all_reduce(y, op=dist.ReduceOp.MAX, async_op=True)
        torch.neg(base)
        work.wait()
        y.mul_(2)
        gathered = [torch.empty(4) for _ in range(2)]
        dist.all_gather(gathered, base)
        flat = torch.empty(8)
        dist.all_gather_into_tensor(flat, base)
        part = torch.empty(2)
        dist.reduce_scatter_tensor(part, base)
        found["reduce_scatter_tensor"] = part.tolist()
        swapped = torch.empty(4)
        dist.all_to_all_single(swapped, base)
        dist.broadcast(base.clone(), src=1)
        dist.reduce(base.clone(), dst=1)
        dist.gather(base, [torch.empty(4) for _ in range(2)] if rank == 0
                    else None, dst=0)
        dist.scatter(torch.empty(4), [base, base + 1] if rank == 0 else None,
                     src=0)
        got = torch.empty(4)
        if rank == 0:
            dist.send(base, dst=1)
            dist.isend(base + 1, dst=1).wait()
        else:
            dist.recv(got, src=0)
            dist.irecv(torch.empty(4)).wait()
        pair = [dist.P2POp(dist.isend, base, 1 - rank),
                dist.P2POp(dist.irecv, got, 1 - rank)]
        for request in dist.batch_isend_irecv(pair):
            request.wait()
        dist.barrier()
        dist.all_gather_object([None, None], {"rank": rank})
        import torch.distributed._functional_collectives as functional
        total = functional.all_reduce(base, "sum", dist.group.WORLD)
        found["functional"] = (total + 0).tolist()
        with torch.inference_mode():
            all_reduce(base.clone())
    found["put back"] = "waited" not in dist.Work.wait.__qualname__
    return found


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exchange") / "run"
    return run(exchange, folder), folder


def both(folder) -> list:
    """The traces of both ranks."""
    return [folder / f"trace/step0/rank{rank}" for rank in range(2)]


def lines(trace) -> list[dict]:
    """The lines of a trace."""
    return [json.loads(line)
            for line in (trace / "trace.jsonl").read_text().splitlines()]


def operators(trace) -> dict[str, dict]:
    """{name: line} with its leaves in "leaves"."""
    found, order = {}, []
    for line in lines(trace):
        if "op" in line:
            found[line["op"]] = line
            line["leaves"] = {}
            order.append(line)
        elif "of" in line:
            order[line["of"]]["leaves"][line["leaf"]] = line
    return found


def loaded(trace, name: str) -> list:
    """A captured tensor."""
    from safetensors.torch import load_file
    out = trace.parents[2] / f"{trace.name}.safetensors"
    if not out.exists():
        subprocess.run([ASSAY, "convert", trace, out], capture_output=True)
    return load_file(out)[name].tolist()


BASE = [[0, 1, 2, 3], [10, 11, 12, 13]]
SUM = [10, 12, 14, 16]


@pytest.mark.parametrize("name, leaf, expected", [
    ("all_reduce.0", "input.0", BASE),
    ("all_reduce.0", "output.0", [SUM, SUM]),
    # asynchronous: read when it was waited for, before the next operator
    ("all_reduce.1", "output.0", [BASE[1], BASE[1]]),
    ("all_gather.0", "input.1", BASE),
    ("all_gather.0", "output.0.1", [BASE[1], BASE[1]]),
    ("all_gather_into_tensor.0", "output.0", [BASE[0] + BASE[1]] * 2),
    ("reduce_scatter_tensor.0", "output.0", [SUM[:2], SUM[2:]]),
    ("all_to_all_single.0", "output.0", [[0, 1, 10, 11], [2, 3, 12, 13]]),
    ("broadcast.0", "output.0", [BASE[1], BASE[1]]),
    ("reduce.0", "output.0", [None, SUM]),
    ("gather.0", "output.0.1", [BASE[1], None]),
    ("scatter.0", "input.1.1", [[1, 2, 3, 4], None]),
    ("scatter.0", "output.0", [BASE[0], [1, 2, 3, 4]]),
    ("send.0", "input.0", [BASE[0], None]),
    ("recv.0", "output.0", [None, BASE[0]]),
    ("irecv.0", "output.0", [BASE[1], [1, 2, 3, 4]]),
    ("all_reduce.2", "output.0", [SUM, SUM]),  # of the functional one
    ("all_reduce.3", "output.0", [SUM, SUM]),  # in inference mode
])
def test_what_goes_in_before_and_what_comes_out_after(exchanged, name, leaf,
                                                      expected):
    for trace, value in zip(both(exchanged[1]), expected):
        full = f"Distributed.{name}.forward.{leaf}"
        if value is None:
            assert full not in names(trace)
        else:
            assert loaded(trace, full) == value


def test_groups_peers_and_reductions(exchanged):
    first, second = (operators(trace) for trace in both(exchanged[1]))
    reduce = first["Distributed.all_reduce.1.forward"]
    assert reduce["collective"]["ranks"] == [0, 1]
    assert reduce["leaves"]["input.op"]["value"] == "RedOpType.MAX"
    assert first["Distributed.reduce.0.forward"][
        "leaves"]["input.op"]["value"] == "RedOpType.SUM"
    send = first["Distributed.send.0.forward"]
    assert send["collective"]["peer"] == 1
    assert send["leaves"]["input.dst"]["value"] == "1"
    receive = second["Distributed.recv.0.forward"]
    assert receive["collective"]["peer"] == 0
    # from anybody: known once it is there
    assert second["Distributed.irecv.0.forward"][
        "leaves"]["input.src"]["value"] == "0"


def test_pickles_barriers_and_wrappers_are_no_operators(exchanged):
    for trace in both(exchanged[1]):
        found = [name for name in operators(trace)
                 if name.startswith("Distributed.")]
        assert len([n for n in found if ".all_gather." in n]) == 1
        assert not any("barrier" in name for name in found)
        assert not any("all_reduce" in name for name in operators(trace)
                       if not name.startswith("Distributed."))


def test_what_communication_returned_is_as_without_a_capture(exchanged):
    for result, part in zip(exchanged[0], (SUM[:2], SUM[2:])):
        assert result == {"all_reduce": SUM, "functional": SUM,
                          "reduce_scatter_tensor": part, "put back": True}


def train_all(rank: int, folder) -> dict:
    """Trains without a capture, with one, and with a fault on one rank."""
    found = {}
    for name in ("plain", "good", "fault"):
        found[name] = train(rank, folder / name) + pipe(rank, folder / name)
    return found


class Faulty(torch.nn.Tanh):
    """Off by a percent."""

    def forward(self, x):
        return super().forward(x) * torch.ones(1).mul(1.01)


class Right(torch.nn.Tanh):
    def forward(self, x):
        return super().forward(x) * torch.ones(1).mul(1.0)


def activation(faulty: bool) -> torch.nn.Module:
    kind = Faulty if faulty else Right
    kind.__name__ = "Scaled"
    return kind()


def train(rank: int, folder) -> list:
    """Two steps of data parallel training; the fault is rank 1's."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 8),
        activation(rank == 1 and folder.name == "fault"),
        torch.nn.Linear(8, 3))
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(10 + rank)
    watch = assay.Capture(folder / "trace", net, level="module",
                          mode="tensor")
    for _ in range(2):
        x = torch.randn(5, 6, generator=data)
        with watched(watch, folder):
            optimizer.zero_grad()
            parallel(x).square().mean().backward()
            optimizer.step()
    return [p.tolist() for p in net.parameters()]


def pipe(rank: int, folder) -> list:
    """A step of a pipeline of two stages; the fault is rank 0's, forward."""
    torch.manual_seed(2 + rank)
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        activation(rank == 0 and folder.name == "fault"))
    watch = assay.Capture(folder / "pipe/trace", net, mode="tensor")
    x = torch.arange(8.0).view(2, 4) / 8
    with watched(watch, folder):
        if rank == 0:
            y = net(x)
            dist.send(y.detach(), dst=1)
            gradient = torch.empty_like(y)
            dist.recv(gradient, src=1)
            y.backward(gradient)
        else:
            y = torch.empty_like(x)
            dist.recv(y, src=0)
            y.requires_grad_()
            net(y).sum().backward()
            dist.send(y.grad, dst=0)
    return [p.grad.tolist() for p in net.parameters()]


@contextlib.contextmanager
def watched(watch, folder):
    """The capture of a step, unless the folder's name says to do without."""
    if folder.name != "plain":
        watch.start()
    yield
    if folder.name != "plain":
        watch.stop()
        watch.step()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    for name in ("plain", "good", "fault"):
        (folder / name).mkdir()
    return folder, run(train_all, folder)


def compared(*arguments) -> dict:
    """The findings of assay compare."""
    result = subprocess.run(
        [ASSAY, "compare", *arguments, "--json", "-", "--quiet"],
        capture_output=True, text=True)
    return json.loads(result.stdout)


def origins(found: dict, step: int, rank: int, part: str) -> set[str]:
    """The origins of the rows of one rank whose names contain a part."""
    return {row["origin"] for row in found["rows"]
            if row["step"] == step and row["rank"] == rank
            and part in row["name"]}


def test_training_in_parallel_changes_no_bit(trained):
    for result in trained[1]:
        assert result["plain"] == result["good"] != result["fault"]


def test_equal_runs_match_on_every_rank_and_step(trained):
    good = trained[0] / "good/trace"
    found = compared(good, good)
    assert found["verdict"] == "match"
    assert [(g["step"], g["rank"]) for g in found["groups"]] == [
        (0, 0), (0, 1), (1, 0), (1, 1)]


def test_gradients_before_and_after_their_reduction(trained):
    """DistributedDataParallel averages them in a bucket, in C++."""
    flat = {}
    for rank, trace in enumerate(both(trained[0] / "good")):
        bucket = torch.tensor(loaded(
            trace, "Distributed.all_reduce.0.forward.output.0"))
        mine = torch.cat([torch.tensor(loaded(
            trace, f"Module.{i}.Linear.parameters_grad.0.{name}")).flatten()
            for i in (0, 2) for name in ("weight", "bias")])
        assert bucket.numel() == mine.numel()
        flat[rank] = mine, bucket
    average = (flat[0][0] + flat[1][0]) / 2
    for _, bucket in flat.values():  # whatever the order in the bucket
        assert torch.allclose(bucket.sort()[0], average.sort()[0])
    assert not torch.equal(flat[0][0], flat[1][0])


def test_a_fault_that_arrives_by_all_reduce_is_blamed_on_its_rank(trained):
    found = compared(trained[0] / "good/trace", trained[0] / "fault/trace")
    first = found["first_divergence"]
    assert (first["step"], first["rank"]) == (0, 1)
    assert first["name"] == "Module.1.Scaled.forward.0"
    assert first["kind"] == "born"
    reduced = "Distributed.all_reduce.0.forward"
    assert origins(found, 0, 0, reduced + ".input") == {"none"}
    assert origins(found, 0, 0, reduced + ".output") == {"inherited"}
    assert origins(found, 0, 1, reduced) == {"inherited"}
    assert found["counts"]["born"] == 1


def test_a_fault_is_followed_through_a_pipeline(trained):
    found = compared(trained[0] / "good/pipe/trace",
                     trained[0] / "fault/pipe/trace")
    first = found["first_divergence"]
    assert (first["rank"], first["name"]) == (0, "Tensor.mul.0.forward")
    assert origins(found, 0, 1, "Distributed.recv.0.forward.output") == {
        "inherited"}
    assert "born" not in origins(found, 0, 1, "")


def late(rank: int, folder) -> list:
    """Captures two steps; torch.distributed is initialised in the first."""
    here = [p for p in os.environ if p in ("RANK", "WORLD_SIZE")]
    rendezvous = f"file://{folder}/late"
    dist.destroy_process_group()
    watch = assay.Capture(folder / "trace", mode="tensor")
    watch.start()
    first = watch.directory.name
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank,
                            world_size=2)
    for _ in range(2):
        all_reduce(torch.full((2,), 1.0 + rank))
        watch.step()
    watch.close()
    return [here, first == f"proc{os.getpid()}"]


def test_ranks_that_are_known_late_have_folders_of_their_own(tmp_path):
    assert run(late, tmp_path / "run") == [[[], True]] * 2
    trace = tmp_path / "run/trace"
    for step in ("step0", "step1"):
        assert sorted(p.name for p in (trace / step).iterdir()) == [
            "rank0", "rank1"]
    for rank in range(2):
        one = operators(trace / f"step0/rank{rank}")
        assert one["Distributed.all_reduce.0.forward"][
            "leaves"]["input.0"]["max"] == 1 + rank


def test_a_process_that_knows_no_rank(tmp_path, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    context = torch.multiprocessing.get_context("fork")
    child = context.Process(target=captured_alone, args=(tmp_path,))
    child.start()
    child.join(60)
    assert [p.name for p in (tmp_path / "step0").iterdir()] == [
        f"proc{child.pid}"]
    assert "Torch.neg.0.forward.output.0" in names(tmp_path)


def captured_alone(folder) -> None:
    with assay.capture(folder, level="api"):
        torch.neg(torch.ones(2))
