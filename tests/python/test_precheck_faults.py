"""Planted faults of operators end as mismatches that name the operator, and
healthy operators beside them as matches: in float32 and bf16, from a trace
with tensors and from one with statistics alone."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from paths import ASSAY, LONG, PACKAGE

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from precheck_faults import FAULTS  # noqa: E402

pytestmark = pytest.mark.skipif(
    b"--golden" not in subprocess.run([ASSAY, "precheck", "run", "--help"],
                                      capture_output=True).stdout,
    reason="the program has no `precheck run`")
HERE = pathlib.Path(__file__).parent
HEALTHY = f"{sys.executable} -m assay.worker --provider torch"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE)}
MODES = ("tensor", "statistics")
# Call 0 of an API is in float32, call 1 in bf16 (precheck_calls.py).

# What no comparison of the kind can tell: (mode, call) and why.
EIGHT_SUMS = ("eight partial sums in bf16 double the rounding error of a bf16 "
              "result, which is what frameworks allow themselves")
ORDER_OF_SUMS = "another order moves a bf16 result by its rounding alone"
HALVES = "no generated value lies halfway between two integers"
UNSEEN = {
    ("tensor", "Torch.matmul.1"): EIGHT_SUMS,
    ("statistics", "Torch.matmul.1"): EIGHT_SUMS,
    ("tensor", "Torch.mean.1"): ORDER_OF_SUMS,
    ("statistics", "Torch.mean.1"): ORDER_OF_SUMS,
    ("statistics", "Torch.round.0"): HALVES,
    ("statistics", "Torch.round.1"): HALVES,
}

@pytest.fixture(scope="module")
def traces(precheck_traces):
    return precheck_traces


def verdicts(traces, faults, tmp_path):
    """{(mode, call): its worst verdict} of a worker with these faults."""
    worker = f"{sys.executable} {HERE / 'precheck_faults.py'}"
    done = subprocess.run(
        [ASSAY, "precheck", "run", traces, "--worker",
         f"{worker} {','.join(faults)}", "--golden", HEALTHY, "--jobs", "1",
         "--every-call", "--quiet", "-o", tmp_path / "out", "--json",
         tmp_path / "run.json"],
        capture_output=True, text=True, timeout=600, env=ENVIRONMENT)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {}
    for row in json.loads((tmp_path / "run.json").read_text())["rows"]:
        call = MODES[row["step"]], row["op"].rpartition(".")[0]
        worst = found.setdefault(call, row["verdict"])
        if ORDER.index(row["verdict"]) > ORDER.index(worst):
            found[call] = row["verdict"]
    return found


ORDER = ("empty", "match", "incomplete", "mismatch")


def expected_of(key, planted):
    """The verdict that a call has to have."""
    api = key[1].rpartition(".")[0]
    return "mismatch" if api in planted and key not in UNSEEN else "match"


def check(traces, names, tmp_path):
    found = verdicts(traces, names, tmp_path)
    planted = {FAULTS[name].api for name in names}
    assert {call.rpartition(".")[0] for _, call in found} == {
        fault.api for fault in FAULTS.values()}
    assert found == {key: expected_of(key, planted) for key in found}


# Every fault is planted in one of two runs, and absent in the other: what is
# healthy there has to match.
@pytest.mark.parametrize("half", (0, 1))
def test_faults_are_named_and_healthy_operators_are_not(traces, half,
                                                        tmp_path):
    check(traces, list(FAULTS)[half::2], tmp_path)


@pytest.mark.skipif(not LONG, reason="minutes")
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_alone(traces, name, tmp_path):
    check(traces, [name], tmp_path)
