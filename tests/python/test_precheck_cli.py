"""The API pre-check on the command line: healthy and faulty devices, reports,
interruption."""

from __future__ import annotations

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from paths import ASSAY, ROOT

pytest.importorskip("torch")

CALLS = ROOT / "tests/python/precheck_calls.py"
FAULTY = ROOT / "tests/python/precheck_faults.py"
ENVIRONMENT = {**os.environ, "ASSAY_PYTHON": sys.executable,
               "OMP_NUM_THREADS": "1"}


def traced(folder, mode):
    subprocess.run([sys.executable, CALLS, folder, mode], check=True,
                   capture_output=True)
    return folder


@pytest.fixture(scope="module", params=["tensor", "statistics"])
def trace(request, tmp_path_factory):
    """The calls of precheck_calls.py, with their elements or without."""
    return traced(tmp_path_factory.mktemp(request.param) / "trace",
                  request.param)


@pytest.fixture(scope="module")
def tensors(tmp_path_factory):
    return traced(tmp_path_factory.mktemp("tensors") / "trace", "tensor")


def precheck(trace, out, *more, worker="torch"):
    """Exit code, and the JSON report."""
    report = out.with_suffix(".json")
    done = subprocess.run(
        [ASSAY, "precheck", "run", trace, "--worker", worker, "--out", out,
         "--json", report, *more], capture_output=True, text=True,
        env=ENVIRONMENT, timeout=300)
    assert done.returncode in (0, 1, 4), done.stdout + done.stderr
    return done, json.loads(report.read_text())


def failing(report):
    return [(row["name"], [r["text"] for r in row["reasons"]])
            for row in report["rows"] if row["verdict"] == "mismatch"]


def test_a_healthy_device_has_no_mismatch(trace, tmp_path):
    done, report = precheck(trace, tmp_path / "out", "--html",
                            tmp_path / "r.html")
    assert failing(report) == []
    counts = report["counts"]
    assert counts["match"] > 150
    left = [(row["name"], row["reasons"][0]["text"])
            for row in report["rows"] if row["verdict"] == "incomplete"]
    assert len(left) <= 6, left
    assert "judged by float64" in done.stdout
    assert "Functional.gelu.0" in (tmp_path / "r.html").read_text()
    with open(tmp_path / "out/details.csv", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {row["Status"] for row in rows} <= {"pass", "warning", "SKIP",
                                               "error", " "}
    assert len(rows) > 150


def test_one_call_is_named_by_the_command_that_repeats_it(tensors, tmp_path):
    worker = shlex.join([sys.executable, str(FAULTY), "gelu_by_tanh"])
    _, report = precheck(tensors, tmp_path / "out", "--only",
                         "Functional.gelu", worker=worker)
    first = report["first_divergence"]
    assert first["name"].startswith("Functional.gelu.")
    assert "GELU" in first["cause"]
    again = shlex.split(first["again"])
    assert again[:3] == ["assay", "precheck", "run"]
    done = subprocess.run([ASSAY, *again[1:], "--quiet"], cwd=tmp_path,
                          env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("mismatch")


def test_msprobe_judges_by_its_own_rules(tensors, tmp_path):
    _, report = precheck(tensors, tmp_path / "out", "--only",
                         "Functional.linear", "--standard",
                         "msprobe-precheck")
    assert report["counts"]["match"] > 0
    reasons = {r["criterion"] for row in report["rows"]
               for r in row["reasons"]}
    assert "msprobe_status" in reasons


def test_resumed_it_says_the_same(tensors, tmp_path):
    _, whole = precheck(tensors, tmp_path / "whole", "--only", "Functional.*")
    command = [ASSAY, "precheck", "run", tensors, "--worker", "torch",
               "--only", "Functional.*", "--out", tmp_path / "part",
               "--jobs", "1"]
    process = subprocess.Popen(command, env=ENVIRONMENT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    journal = tmp_path / "part/journal.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if journal.exists() and journal.read_text().count("\n") > 3:
            process.send_signal(signal.SIGINT)
            break
        time.sleep(0.01)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in out
    _, resumed = precheck(tensors, tmp_path / "part", "--only",
                          "Functional.*", "--resume")
    for report in (whole, resumed):
        report.pop("seconds")
        if report["first_divergence"]:
            report["first_divergence"].pop("again")
    assert resumed == whole


@pytest.mark.parametrize("arguments, message", [
    (["--worker", "torch", "--only", "Nothing.*"], "--only fits none"),
    ([], "--worker: expected the device"),
    (["--worker", "cpu"], "no module api_call"),
    (["--worker", "torch", "--step", "77"], "--step and --rank choose none"),
])
def test_what_cannot_be_done_is_refused(assay, tensors, tmp_path, arguments,
                                        message):
    done = assay("precheck", "run", tensors, *arguments, "--out",
                 tmp_path / "out", code=2, env=ENVIRONMENT)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
