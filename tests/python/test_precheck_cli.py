"""The API pre-check on the command line: healthy and faulty devices, reports,
interruption."""

from __future__ import annotations

import csv
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
import zipfile
from xml.etree import ElementTree

import pytest

from paths import ASSAY, ROOT

pytest.importorskip("torch")

SCRIPTED = ROOT / "tests/precheck/workers/scripted.py"
FAULTY = ROOT / "tests/python/precheck_faults.py"
ENVIRONMENT = {**os.environ, "ASSAY_PYTHON": sys.executable,
               "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def tensors(precheck_traces):
    """A trace that has the elements."""
    return precheck_traces / "step0"


def scripted(folder, apis, shape, seconds=0.0):
    """Workers of the device and the golden that take as long and answer
    zeros whatever they are asked."""
    zeros = ["F32", shape, "00000000" * math.prod(shape)]
    answer = {"tensors": {"output.0": zeros}, "seconds": seconds}
    script = folder / "script.json"
    script.write_text(json.dumps({side: dict.fromkeys(apis, answer)
                                  for side in ("device", "golden", "given")}))
    return [shlex.join(["python3", "-I", "-S", str(SCRIPTED), str(script),
                        side, str(folder / "count")])
            for side in ("device", "golden")]


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


def test_a_healthy_device_has_no_mismatch(precheck_traces, tmp_path):
    files = {kind: tmp_path / f"r.{kind}"
             for kind in ("html", "csv", "xlsx", "junit")}
    flags = [each for kind, path in files.items()
             for each in (f"--{kind}", path)]
    done, report = precheck(precheck_traces, tmp_path / "out",
                            "--every-call", *flags)
    assert failing(report) == []
    counts = report["counts"]
    assert counts["match"] > 300
    left = [(row["name"], row["reasons"][0]["text"])
            for row in report["rows"] if row["verdict"] == "incomplete"]
    assert len(left) <= 12, left
    assert "judged by float64" in done.stdout
    assert "Functional.gelu.0" in files["html"].read_text()
    check_reports(files, report)
    with open(tmp_path / "out/details.csv", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {row["Status"] for row in rows} <= {"pass", "warning", "SKIP",
                                               "error", " "}
    assert len(rows) > 300


def check_reports(files, report):
    """Every row is in every report, with its verdict."""
    rows = {(str(row["step"]), row["name"]): row["verdict"]
            for row in report["rows"]}
    with open(files["csv"], encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    assert {(row["Step"], row["NPU Name"]): row["Verdict"]
            for row in table} == rows
    suite = ElementTree.parse(files["junit"]).getroot()
    assert not list(suite.iter("failure"))
    assert len(list(suite.iter("testcase"))) >= 100
    with zipfile.ZipFile(files["xlsx"]) as book:
        sheets = [name for name in book.namelist() if "/sheet" in name]
        text = "".join(book.read(name).decode() for name in sheets)
        text += "".join(book.read(name).decode() for name in book.namelist()
                        if "sharedStrings" in name)
    assert all(name in text for _, name in rows)


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
    device, golden = scripted(tmp_path, ["Torch.mean"], [])
    _, report = precheck(tensors, tmp_path / "out", "--only", "Torch.mean.0",
                         "--standard", "msprobe-precheck", "--golden", golden,
                         worker=device)
    assert report["standard"]["name"] == "msprobe-precheck"
    assert report["counts"]["match"] == 1
    reasons = {r["criterion"] for row in report["rows"]
               for r in row["reasons"]}
    assert "msprobe_status" in reasons


def test_resumed_it_says_the_same(tensors, tmp_path):
    apis = {json.loads(line)["prefix"] + "." + json.loads(line)["api"]
            for line in next(tensors.rglob("trace.jsonl")).open()
            if line.startswith('{"op"')}
    device, golden = scripted(tmp_path, apis, [2], 0.05)
    flags = ["--golden", golden, "--only", "Torch.*", "--jobs", "1"]
    count = tmp_path / "count"
    _, whole = precheck(tensors, tmp_path / "whole", *flags, worker=device)
    calls = count.read_text().count("device")
    process = subprocess.Popen(
        [ASSAY, "precheck", "run", tensors, "--worker", device, "--out",
         tmp_path / "part", *flags], env=ENVIRONMENT, text=True,
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
    _, resumed = precheck(tensors, tmp_path / "part", *flags, "--resume",
                          worker=device)
    # What was finished is kept.
    assert count.read_text().count("device") == 2 * calls
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
