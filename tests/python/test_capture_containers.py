"""assay.capture and every form of arguments and results: containers, texts,
numbers and names."""

from __future__ import annotations

import collections
import dataclasses
import enum

import pytest
import torch
import torch.nn.functional as F

import assay
from capturing import compared, lines, rows


@dataclasses.dataclass
class Parts:
    first: torch.Tensor
    rest: list


class Colour(enum.IntEnum):
    RED = 3


Pair = collections.namedtuple("Pair", "left right")


class Odd(torch.nn.Module):
    """Returns what it is told to."""

    def forward(self, *, give):
        return give


def outputs(tmp_path, value) -> dict[str, str]:
    """Rows of a module's results, without the module's name."""
    net = Odd()
    with assay.capture(tmp_path, net, level="module", mode="tensor") as c:
        net(give=value)
    assert c.faults == []
    stem = "Module.Odd.forward.0.output"
    return {name[len(stem):]: rest for name, rest in rows(tmp_path).items()
            if name.startswith(stem)}


@pytest.mark.parametrize("make, expected", [
    (lambda t: Parts(t, [t, 1]), [".first", ".rest.0", ".rest.1"]),
    (lambda t: Pair(t, {"k": t}), [".0", ".1.k"]),
    (lambda t: collections.OrderedDict(last=t, none=None),
     [".last", ".none"]),
    (lambda t: collections.UserDict(ids=t), [".ids"]),
    (lambda t: {3: t, (1, 2): t, None: t, t: t},
     [".3", ".(1, 2)", ".None", ".Tensor3"]),
    (lambda t: collections.deque([t, t]), [".0", ".1"]),
    (lambda t: [t, [], ((), {})], [".0", ".1", ".2.0", ".2.1"]),
    (lambda t: (), []),
    (lambda t: (v for v in [t]), [".0"]),
    (lambda t: "text\nof two lines \udc80 \0", [".0"]),
    (lambda t: 10 ** 5000, [".0"]),
    (lambda t: Parts, [".0"]),
    (lambda t: None, [".0"]),
], ids=["dataclass", "namedtuple", "ordered", "userdict", "keys", "deque",
        "empty parts", "nothing",
        "generator", "text", "bigint", "class", "none"])
def test_results_of_every_form(tmp_path, make, expected):
    """Of a namedtuple nothing is lost: other dumps make it a tuple."""
    value = make(torch.ones(2))
    found = outputs(tmp_path, value)
    # A key with a space ends the name where rows() splits.
    assert sorted(found) == sorted(k.split()[0] for k in expected)
    if isinstance(value, type(v for v in ())):
        assert next(value).sum() == 2, "it was consumed"


def test_values_keep_their_text(tmp_path):
    with assay.capture(tmp_path, level="api"):
        assay.save([Colour.RED, 10 ** 5000, "a\ud800b", 1.5, True], "it")
    texts = [line["value"] for line in lines(tmp_path / "step0/rank0")
             if "value" in line]
    assert texts[0] == "RED" and texts[2:] == ["a\\ud800b", "1.5", "True"]
    assert texts[1].startswith("0x") and " characters, SHA-256 " in texts[1]


def test_a_model_output_of_transformers_like_form(tmp_path):
    @dataclasses.dataclass
    class Output(collections.OrderedDict):
        logits: torch.Tensor = None
        loss: torch.Tensor = None

        def __post_init__(self):
            self["logits"] = self.logits

    assert list(outputs(tmp_path, Output(torch.ones(2)))) == [".logits"]


def test_containers_that_hold_themselves_end(tmp_path):
    loop: list = [torch.ones(1)]
    loop.append(loop)
    wide: list = [torch.ones(1)]
    for _ in range(60):
        wide = [wide, wide]  # 2 ** 60 leaves
    deep: list = [torch.ones(1)]
    for _ in range(2000):
        deep = [deep]
    assert set(outputs(tmp_path / "a", loop)) == {".0", ".1"}
    whys = []
    for name, value in (("b", wide), ("c", deep)):
        outputs(tmp_path / name, value)
        whys += [line["unreadable"] for line in
                 lines(tmp_path / name / "step0/rank0")
                 if "unreadable" in line and line["role"] == "output"]
    assert "nested more than 32 deep" in whys[-1]
    assert len(whys) > 1


def test_long_lists_end(tmp_path):
    """A row says where the list breaks off, so that it is no match."""
    with assay.capture(tmp_path, level="api", mode="hash"):
        assay.save(list(range(20_000)), "long")
        torch.stack(list(torch.zeros(20_000).unbind()))
    assert len(rows(tmp_path)) < 31_000
    found = [line for line in lines(tmp_path / "step0/rank0")
             if "unreadable" in line]
    assert [line["leaf"] for line in found] == [
        "tensor.10000", "output.10000", "input.0.10000"]
    assert compared(tmp_path, tmp_path) == 4


def test_names_with_surrogates_and_lines(tmp_path):
    net = torch.nn.Sequential()
    net.add_module("a\nb\udc80", torch.nn.Linear(2, 2))
    with assay.capture(tmp_path, net) as capture:
        code = compile("import torch\ntorch.ones(2).neg()", "d\udcff.py",
                       "exec")
        exec(code, {})
        net(torch.ones(1, 2))
        assay.save(torch.ones(1), "n\udc80")
    assert capture.faults == []
    names = [line["op"] for line in lines(tmp_path / "step0/rank0")
             if "op" in line]
    assert "Module.a\nb\\udc80.Linear.forward.0" in names
    assert "n\\udc80.0.debug" in names
    assert F.relu is torch.nn.functional.relu


def test_empty_containers_are_told_apart(tmp_path):
    """A call with an empty argument is another than one with none."""
    for name, empty in (("list", []), ("dict", {}), ("none", None)):
        net = Odd()
        with assay.capture(tmp_path / name, net, level="module"):
            net(give=[torch.ones(2), empty])
    assert compared(tmp_path / "list", tmp_path / "list") == 0
    assert compared(tmp_path / "list", tmp_path / "dict") == 1
    assert compared(tmp_path / "list", tmp_path / "none") == 1
