"""`assay overflow` as a user meets it."""

import json
import re

import numpy as np
import pytest

LEAF = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [4],
        "Mean": 0.5, "Norm": 2.0, "requires_grad": False}


def leaf(low, high):
    return {**LEAF, "Max": high, "Min": low}


def dump(path, entries):
    """An msprobe dump of (name, inputs, outputs)."""
    path.mkdir(parents=True)
    data = {name: {"input_args": inputs, "input_kwargs": {}, "output": outputs}
            for name, inputs, outputs in entries}
    (path / "dump.json").write_text(json.dumps(
        {"task": "statistics", "level": "L1", "framework": "pytorch",
         "dump_data_dir": None, "data": data}))


@pytest.fixture
def run(tmp_path):
    """Step 0 is finite; in step 1 rank 1's exp overflows."""
    good = ("Torch.abs.0.forward", [leaf(-1, 2)], [leaf(0, 2)])
    inf = float("inf")
    bad = ("Torch.exp.0.forward", [leaf(-1, 12)], [leaf(0.37, inf)])
    sub = ("Torch.sub.0.forward", [leaf(0.37, inf)],
           [leaf(float("nan"), float("nan"))])
    for step in (0, 1):
        for rank in (0, 1):
            entries = [good, bad, sub] if step == rank == 1 else [good]
            dump(tmp_path / f"run/step{step}/rank{rank}", entries)
    return tmp_path / "run"


def test_names_the_first_over_steps_and_ranks(assay, run):
    text = assay("overflow", run, code=1).stdout
    assert "first: Torch.exp.0.forward  (step 1, rank 1)" in text
    assert "born here" in text and "the largest float16 is 65504" in text
    assert "went on to  Torch.sub.0.forward" in text
    assert "born 1 " in text and "propagated 1 " in text


def test_json_holds_it_all(assay, run, tmp_path):
    document = json.loads(assay("overflow", run, "--json", "-", code=1).stdout)
    assert document["verdict"] == "overflow"
    assert document["steps"] == document["ranks"] == [0, 1]
    first = document["first"]
    assert (first["kind"], first["name"]) == ("born", "Torch.exp.0.forward")
    assert first["leaf"]["pos_inf"] is True
    assert first["inputs"][0]["max"] == 12
    assert document["counts"]["records"] == 12
    assay("overflow", run, "--json", tmp_path / "r.json", code=1)
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["found"] == document["found"]


def test_steps_ranks_and_names_narrow_it(assay, run):
    assay("overflow", run, "--steps", "0", code=0)
    assay("overflow", run, "--ranks", "0", code=0)
    assay("overflow", run, "--steps", "1", "--ranks", "0-1", code=1)
    assay("overflow", run, "--only", "Torch.abs.*", code=0)
    text = assay("overflow", run, "--only", "Torch.sub.*", code=1).stdout
    assert "no captured operator put it out" in text


def test_finite_and_quiet(assay, run):
    text = assay("overflow", run, "--steps", "0").stdout
    assert "finite   4 records of 2 operators looked at" in text
    assert assay("overflow", run, "-q", code=1).stdout.count("\n") == 1


def test_what_was_not_looked_at_is_not_finite(assay, tmp_path):
    dump(tmp_path / "d/step0/rank0",
         [("Torch.abs.0.forward", [leaf(-1, 2)], [leaf(None, None)])])
    text = assay("overflow", tmp_path / "d", code=4).stdout
    assert "incomplete   1 of 2 records could not be looked at" in text
    assert "Torch.abs.0.forward.output.0" in text


def test_refuses_in_one_line(assay, run, tmp_path):
    for arguments, code in [((tmp_path / "no",), 3),
                            ((run, "--steps", "7"), 2),
                            ((run, "--steps", "3-1"), 2),
                            ((run, "--ranks", "x"), 2),
                            ((run, "--limit", "0"), 2),
                            ((run, "--json", tmp_path / "no/r.json"), 3)]:
        error = assay("overflow", *arguments, code=code).stderr
        assert error.startswith("assay: ") and error.count("\n") == 1
    (run / "step0/rank0/dump.json").write_text("{")
    assay("overflow", run / "step0/rank0", code=3)


def test_a_plain_file_is_looked_at_by_its_elements(assay, tmp_path):
    x = np.zeros((64, 64), np.float32)
    np.save(tmp_path / "x.npy", x)
    assay("overflow", tmp_path / "x.npy", code=0)
    x[3, 5], x[7, 7] = np.nan, -np.inf
    np.save(tmp_path / "x.npy", x)
    text = assay("overflow", tmp_path / "x.npy", code=1).stdout
    assert "1 NaN, 1 -inf of 4,096 elements" in text


def test_the_example_dumps_are_finite_and_masked(assay, dumps):
    document = json.loads(assay("overflow", dumps / "golden", "--json",
                                "-").stdout)
    assert document["verdict"] == "finite"
    assert document["counts"]["masked"] == document["counts"]["absorbed"] == 6


@pytest.mark.parametrize("folder, kind, name, leaf", [
    # What msprobe's overflow_check names too.
    ("overflow", "born", "Tensor.__matmul__.0.forward", "output.0"),
    # There it names masked_fill, which is asked for its -inf.
    ("nan_weight", "entered", "Module.out.Linear.forward.0",
     "parameters.weight"),
    ("gradient", "entered", "Functional.linear.1.backward", "input.0"),
])
def test_msprobes_dumps_of_an_attention(assay, root, folder, kind, name, leaf):
    path = root / "tests/data/trace/attention_f16" / folder
    first = json.loads(assay("overflow", path, "--json", "-",
                             code=1).stdout)["first"]
    assert (first["kind"], first["name"], first["leaf"]["leaf"]) == (
        kind, name, leaf)


def test_the_document_shows_what_is_printed(assay, root):
    document = (root / "docs/overflow.md").read_text()
    shown = re.search(r"^```text\n(.*?)^```", document, re.M | re.S)[1]
    printed = assay("overflow", root / "examples/overflow_dump/run",
                    code=1).stdout
    assert re.sub(r"\d\.\d\d s", "0.00 s", printed, count=1) == shown


def test_a_real_step_is_followed_over_ranks(assay, root):
    document = json.loads(assay("overflow", root / "examples/overflow_dump/run",
                                "--json", "-", code=1).stdout)
    first = document["first"]
    assert (first["rank"], first["name"]) == (1, "Tensor.matmul.0.forward")
    assert first["stack"][0].endswith("in scores")
    assert first["call_path"] == ["Module.Attention.forward.0"]
    arrived = [f for f in document["found"] if f["kind"] == "arrived"]
    assert [(f["rank"], f["from_rank"]) for f in arrived] == [(0, 1)]
    assert document["counts"]["born"] == 1
