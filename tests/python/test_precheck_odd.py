"""Replays that are delicate, in mode tensor (step 0) and statistics (step 1):
precheck_odd_calls.py on the device of precheck_odd_device.py, and on a healthy
one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from paths import ASSAY, ROOT

pytest.importorskip("torch")
np = pytest.importorskip("numpy")

import precheck_odd_calls  # noqa: E402

DEVICE = shlex.join([sys.executable,
                     str(ROOT / "tests/python/precheck_odd_device.py")])
ENVIRONMENT = {**os.environ, "ASSAY_PYTHON": sys.executable,
               "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    for step, mode in enumerate(("tensor", "statistics")):
        precheck_odd_calls.record(folder / mode, mode)
        (folder / mode / "step0").rename(folder / f"step{step}")
        (folder / mode).rmdir()
    return folder


def precheck(trace, out, *more, worker=DEVICE):
    done = subprocess.run(
        [ASSAY, "precheck", "run", trace, "--worker", worker, "--jobs", "1",
         "--every-call", "--out", out, "--json", out.with_suffix(".json"),
         *more], capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode in (0, 1, 4), done.stdout + done.stderr
    report = json.loads(out.with_suffix(".json").read_text())
    return {(row["step"], row["name"]): row for row in report["rows"]}


@pytest.fixture(scope="module")
def odd(trace, tmp_path_factory):
    return precheck(trace, tmp_path_factory.mktemp("odd-run") / "out")


# Rows that are no match on the odd device: in both steps.
MISMATCH = {
    "Torch.argmin.0.forward.output.0": "exact",
    "Torch.argsort.0.forward.output.0": "exact",
    "Torch.median.0.forward.output.1": "exact",
    "Tensor.sort.0.forward.output.1": "exact",
    "Torch.index_add.0.forward.output.0": "element_bound",
    "Torch.mm.0.backward.output.0": "element_bound",
    "Torch.view_as_complex.0.forward.output.0": "element_bound|exact",
}
INCOMPLETE = {"Tensor.index_copy.0.forward.output.0": "order_of_writes"}
EMPTY = {"Tensor.__getitem__.4.forward.output.0": "empty"}  # x[[]]


def test_what_is_right_otherwise_matches_and_what_is_wrong_does_not(odd):
    found = {kind: {} for kind in ("match", "mismatch", "incomplete",
                                   "empty")}
    for (step, name), row in odd.items():
        found[row["verdict"]][step, name] = row["reasons"][0]["criterion"]
    for kind, wanted in (("mismatch", MISMATCH), ("incomplete", INCOMPLETE),
                         ("empty", EMPTY)):
        assert set(found[kind]) == {(step, name) for name in wanted
                                    for step in (0, 1)}, kind
        for (_, name), criterion in found[kind].items():
            assert re.fullmatch(wanted[name], criterion), name
    assert len(found["match"]) > 100


def texts(row, criterion):
    return [r["text"] for r in row["reasons"] if r["criterion"] == criterion]


@pytest.mark.parametrize("name", [
    "Torch.topk.0.forward.output.1", "Torch.sort.0.forward.output.1",
    "Torch.max.0.forward.output.1", "Torch.argmax.0.forward.output.0",
    "Torch.kthvalue.0.forward.output.1", "Torch.cummax.0.forward.output.1",
])
def test_ties_are_told(odd, name):
    for step in (0, 1):
        row = odd[step, name]
        (text,) = texts(row, "ties")
        assert text.endswith("each selects an equal value (ties)")
        assert row["mismatches"] > 0 and row["verdict"] == "match"


def test_gradients_go_where_the_device_chose(odd):
    for api in ("topk", "sort", "max"):
        row = odd[0, f"Torch.{api}.0.backward.output.0"]
        assert row["bitwise_equal"] and texts(row, "ties")


def test_what_does_not_repeat_says_by_how_much(odd):
    row = odd[0, "Torch.cumsum.0.forward.output.0"]
    (reason,) = [r for r in row["reasons"] if r["criterion"] == "repeats"]
    assert reason["note"] and "does not repeat" in reason["text"]
    # A float32 result against its neighbour: 2^-24 to 2^-23 of it.
    assert 2**-25 < reason["figure"] < 2**-23
    assert texts(odd[0, "Torch.index_add.0.forward.output.0"], "repeats")


def test_runs_are_asked_of_every_call(trace, odd, tmp_path):
    name = 0, "Torch.sum.0.forward.output.0"
    assert odd[name]["verdict"] == "match"
    row = precheck(trace, tmp_path / "out", "--step", "0", "--only",
                   "Torch.sum", "--runs", "2")[name]
    assert row["verdict"] == "mismatch"
    assert row["reasons"][0]["criterion"] == "repeats"
    assert "torch names no such operator" in row["reasons"][0]["text"]


def test_a_healthy_device_has_no_mismatch(trace, tmp_path):
    rows = precheck(trace, tmp_path / "out", "--runs", "2", worker="torch")
    left = {name: row["verdict"] for (_, name), row in rows.items()
            if row["verdict"] != "match"}
    assert left == {name: "empty" for name in EMPTY}


def test_resume_looks_at_the_elements(trace, tmp_path):
    """Of a dump without hashes: other elements of equal statistics."""
    subprocess.run([ASSAY, "convert", trace / "step0", tmp_path / "dump"],
                   check=True, capture_output=True, env=ENVIRONMENT)
    dump = next((tmp_path / "dump").rglob("dump.json"))
    dump.write_text(re.sub(r', "md5": "[^"]*"', "", dump.read_text()))
    script, count = tmp_path / "script.json", tmp_path / "count"
    answer = {"tensors": {"output.0": ["F64", [64], "00" * 8 * 64]}}
    script.write_text(json.dumps({side: {"Torch.sum": answer} for side in
                                  ("device", "golden", "given")}))
    workers = [shlex.join(["python3", "-I", "-S", str(
        ROOT / "tests/precheck/workers/scripted.py"), str(script), side,
        str(count)]) for side in ("device", "golden")]

    def asked(*more):
        count.write_text("")
        precheck(dump.parent, tmp_path / "out", "--only", "Torch.sum",
                 "--golden", workers[1], *more, worker=workers[0])
        return count.read_text().count("device")

    assert asked() == 1
    assert asked("--resume") == 0
    (file,) = dump.parent.rglob("Torch.sum.0.forward.input.0.npy")
    np.save(file, np.load(file)[::-1].copy())
    assert asked("--resume") == 1
    assert asked("--resume") == 0
