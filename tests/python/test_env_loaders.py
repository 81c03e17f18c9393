"""record_init reads batches, and the training reads what it would have."""

from __future__ import annotations

import dataclasses
import json
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

import assay


class Augmented(Dataset):
    """Draws from generators of its own, counts, remembers."""

    def __init__(self):
        self.python = random.Random(1)
        self.numpy = {"new": np.random.default_rng(2),
                      "old": [np.random.RandomState(3)]}
        self.torch = torch.Generator().manual_seed(4)
        self.calls, self.seen = 0, []

    def __len__(self):
        return 12

    def __getitem__(self, i):
        self.calls += 1
        self.seen.append(i)
        return torch.tensor([
            i, self.calls, len(self.seen), self.python.random(),
            self.numpy["new"].random(), self.numpy["old"][0].rand(),
            torch.rand((), generator=self.torch)], dtype=torch.float64)


class Epochs(Sampler):
    """Another order each time that it is asked."""

    def __init__(self):
        self.epoch = 0

    def __len__(self):
        return 12

    def __iter__(self):
        self.epoch += 1
        yield from random.Random(self.epoch).sample(range(12), 12)


def loader(**options):
    return DataLoader(Augmented(), batch_size=3, sampler=Epochs(), **options)


@pytest.mark.parametrize("options", [
    {}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}],
    ids=["here", "workers", "persistent"])
def test_a_loader_is_as_it_was(options):
    torch.manual_seed(0)
    plain = list(loader(**options))
    torch.manual_seed(0)
    one = loader(**options)
    made = assay.record_init(dataloader=one, path=None)
    read = list(one)
    assert len(made["batches"]) == 2
    assert all(map(torch.equal, read, plain))
    if not options:
        assert one.dataset.calls == 12 and one.sampler.epoch == 1


class Lines(IterableDataset):
    def __init__(self, file):
        self.file = file

    def __iter__(self):
        for line in iter(self.file.readline, ""):
            yield float(line)


class Stream(IterableDataset):
    def __init__(self, values):
        self.values = values

    def __iter__(self):
        for value in self.values:
            yield value


def test_a_file_is_where_it_was(tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(8)))
    with open(path) as file:
        one = DataLoader(Lines(file), batch_size=2)
        made = assay.record_init(dataloader=one, path=None)
        assert len(made["batches"]) == 2
        assert torch.cat(list(one)).tolist() == list(range(8))


@pytest.mark.parametrize("values", [
    iter(range(6)), (i for i in range(6)), map(float, range(6))],
    ids=["iterator", "generator", "map"])
def test_what_can_be_read_once_is_not_read(values):
    one = DataLoader(Stream(values), batch_size=2)
    made = assay.record_init(dataloader=one, path=None)
    assert not made["sections"]["data"]["collected"]
    assert "read once" in made["sections"]["data"]["missing"][0]
    assert torch.cat(list(one)).tolist() == list(range(6))


class Opaque:
    """Its repr() does not say what is in it."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Opaque(...)"


@dataclasses.dataclass
class Sample:
    x: torch.Tensor
    label: str = "a"


def prints(tmp_path, assay_program, golden, target, code):
    for name, batch in (("a", golden), ("b", target)):
        assay.record_init(dataloader=[batch], batches=1,
                          path=tmp_path / f"{name}.json")
    result = assay_program("env", "diff", tmp_path / "a.json",
                           tmp_path / "b.json", "--section", "data",
                           "--json", "-", code=code)
    return json.loads(result.stdout)


def many(last):
    return {f"k{i}": i for i in range(300)} | {"z": last}


@pytest.mark.parametrize("golden, target, code", [
    ({"x": Opaque(1)}, {"x": Opaque(2)}, 4),
    (many(1), many(2), 4),
    ({"a.b": 1, "a": {"b": 2}}, {"a.b": 3, "a": {"b": 2}}, 1),
    ({1: "x", "1": "y"}, {1: "z", "1": "y"}, 1),
    (Sample(torch.ones(2)), Sample(torch.ones(2)), 0),
    (Sample(torch.ones(2)), Sample(torch.zeros(2)), 1),
    (Sample(torch.ones(2)), Sample(torch.ones(2), "b"), 1),
    ([["a", "b"], 1.5, None], [["a", "b"], 1.5, None], 0),
    ([["a", "b"], 1.5, None], [["b", "a"], 1.5, None], 1),
], ids=["opaque", "many", "one name", "keys", "same class", "class", "label",
        "same words", "words"])
def test_batches_are_the_same_only_where_all_is_known(
        tmp_path, request, golden, target, code):
    program = request.getfixturevalue("assay")
    prints(tmp_path, program, golden, target, code)


def test_parameters_of_every_kind():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lazy = torch.nn.LazyLinear(3)
            self.meta = torch.nn.Linear(2, 2, device="meta")
            self.turned = torch.nn.Parameter(torch.arange(6.).view(2, 3).t())
            self.tied = self.turned
            self.register_buffer("quantised", torch.quantize_per_tensor(
                torch.ones(2), 0.1, 0, torch.qint8))

    made = {each["name"]: each for each in
            assay.record_init(Model(), path=None)["weights"]}
    for name in ("lazy.weight", "meta.weight", "quantised"):
        assert made[name]["hash"] == "" and made[name]["unreadable"], name
    straight = torch.nn.ParameterDict(
        {"turned": torch.arange(6.).view(2, 3).t().contiguous()})
    other = assay.record_init(straight, path=None)["weights"]
    assert other[0]["hash"] == made["turned"]["hash"]
