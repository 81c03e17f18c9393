"""`assay fuzz`: a script in a process of its own, its rows as reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from paths import ASSAY, ROOT

pytest.importorskip("torch")

HEAD = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests/python")!r})
import torch
import planted
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 8)
"""
LOOP = """
for i in range({steps}):
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
    print("step", i)
"""


def environment():
    return {**os.environ, "ASSAY_PYTHON": sys.executable}


@pytest.fixture
def fuzz(tmp_path):
    def call(*arguments, code, loss="model(x).sum()", steps=3, end=""):
        (tmp_path / "train.py").write_text(
            HEAD + LOOP.format(loss=loss, steps=steps) + end)
        result = subprocess.run(
            [ASSAY, "fuzz", *map(str, arguments)], text=True,
            capture_output=True, cwd=tmp_path, timeout=300,
            env=environment())
        assert result.returncode == code, result.stdout + result.stderr
        return result

    return call


def test_a_python_without_torch_is_named(tmp_path, bare_python):
    (tmp_path / "train.py").write_text("import torch")
    done = subprocess.run(
        [ASSAY, "fuzz", "train.py"], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "ASSAY_PYTHON": bare_python})
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "has no torch; $ASSAY_PYTHON names a Python that has" in done.stderr


def test_a_healthy_script_matches(fuzz, tmp_path):
    result = fuzz("train.py", "--mode", "repeat", "--json", "f.json", code=0)
    assert result.stdout.splitlines()[1].startswith("match")
    document = json.loads((tmp_path / "f.json").read_text())
    assert document["counts"]["mismatch"] == 0
    assert {row["step"] for row in document["rows"]} == {0}
    modules = {reason["text"] for row in document["rows"]
               for reason in row["reasons"] if reason["criterion"] == "module"}
    assert modules == {"Module.0.Linear", "Module.1.Tanh"}


def test_the_reports_are_those_of_a_comparison(fuzz, tmp_path):
    loss = "planted.uncertain(model(x).repeat(1, 8)).sum()"
    result = fuzz("train.py", "--mode", "repeat", "--steps", 2,
                  "--html", "f.html", "--json", "f.json", "--junit", "f.xml",
                  "--csv", "f.csv", code=1, loss=loss)
    assert "first unsteady: planted.uncertain.0.forward" in result.stdout
    assert "does not repeat" in result.stdout
    document = json.loads((tmp_path / "f.json").read_text())
    assert document["first_divergence"]["again"] == (
        "assay fuzz train.py --mode repeat --steps 2 --only "
        "planted.uncertain.0")
    found = [row for row in document["rows"] if row["verdict"] == "mismatch"]
    assert {row["step"] for row in found} == {0, 1}
    assert all(row["max_abs"] > 0 and row["index"] for row in found)
    assert "planted.uncertain" in (tmp_path / "f.html").read_text()
    again = fuzz("train.py", "--mode", "repeat", "--only",
                 "planted.uncertain.0", "-q", code=1, loss=loss)
    assert len(again.stdout.splitlines()) == 1


def test_what_the_child_has_is_what_the_program_reports(fuzz, tmp_path):
    """Rows that went through the journal are those that did not."""
    end = f"""
import assay
with assay.fuzz(model, mode="improve_precision") as check:
    y = planted.cancel(x)
    z = (y > 0).long().sum(0)
check.save(json={str(tmp_path / "own.json")!r})
"""
    (tmp_path / "own.py").write_text(HEAD + "torch.manual_seed(0)\n"
                                     "x = torch.randn(16, 8)\n" + end)
    subprocess.run([sys.executable, "own.py"], cwd=tmp_path, check=True,
                   env={**environment(), "PYTHONPATH": str(
                       ROOT / "build/release/python")})
    (tmp_path / "child.py").write_text(
        HEAD + "torch.manual_seed(0)\nx = torch.randn(16, 8)\n"
        "y = planted.cancel(x)\nz = (y > 0).long().sum(0)\n")
    subprocess.run([ASSAY, "fuzz", "child.py", "--json", "child.json",
                    "--only", "planted.*", "--only", "Tensor.gt.*",
                    "--only", "Tensor.long.*", "--only", "Tensor.sum.*"],
                   cwd=tmp_path, env=environment(), capture_output=True)
    own, child = (json.loads((tmp_path / name).read_text())
                  for name in ("own.json", "child.json"))
    assert own["rows"] == child["rows"]
    assert own["counts"] == child["counts"]
    assert len(own["rows"]) > 3


def test_a_script_that_fails_keeps_its_rows(fuzz, tmp_path):
    result = fuzz("train.py", "--mode", "repeat", "--steps", 9, code=4,
                  steps=1, end="raise ValueError('no data')\n")
    assert "it failed before its end: ValueError: no data" in result.stdout
    (tmp_path / "bad.py").write_text("raise ValueError('no data')\n")
    result = fuzz("bad.py", code=3)
    assert "bad.py: failed: ValueError: no data" in result.stderr


def test_a_killed_script_keeps_its_rows(fuzz):
    result = fuzz("train.py", "--mode", "repeat", "--steps", 9, code=4,
                  steps=1, end="import os\nos.kill(os.getpid(), 9)\n")
    assert "SIGKILL" in result.stdout
    assert "match" in result.stdout


def test_ctrl_c_reports_what_there_is(tmp_path):
    (tmp_path / "train.py").write_text(
        HEAD + LOOP.format(loss="model(x).sum()", steps=1)
        + "open('ready', 'w').close()\nimport time\ntime.sleep(100)\n")
    process = subprocess.Popen(
        [ASSAY, "fuzz", "train.py", "--mode", "repeat", "--steps", "5"],
        cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    while not (tmp_path / "ready").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out and "match" in out


def test_arguments_reach_the_script_and_the_check(fuzz, tmp_path):
    end = "assert sys.argv[1:] == ['--rows', '4'], sys.argv\n"
    result = fuzz("train.py", "--mode", "add_noise", "--noise", "32",
                  "--sample", "0.5", "--steps", 9, "--json", "-", "--",
                  "--rows", "4", code=0, end=end, loss="model(x).exp().sum()")
    document = json.loads(result.stdout)
    assert any("not in the sample" in text for text in document["warnings"])


@pytest.mark.parametrize("flags, what", [
    (["--mode", "no_change"], "mode: no_change"),
    (["--stage", "both"], "--stage: both"),
    (["--stage", "backward", "--mode", "swap"], "--stage backward"),
    (["--sample", "0"], "--sample: 0"), (["--sample", "x"], "--sample: x"),
    (["--wide", "float8"], "--wide: float8"),
    (["--noise", "3"], "--noise: is for"),
    (["--seed", "-1"], "--seed: -1"), (["--steps", "0"], "steps")])
def test_what_cannot_be_meant_is_refused(fuzz, flags, what):
    result = fuzz("train.py", *flags, code=2)
    assert what in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_no_script_is_unreadable(fuzz):
    assert "no such script" in fuzz("absent.py", code=3).stderr


def test_the_backward_stage(fuzz, tmp_path):
    result = fuzz("train.py", "--stage", "backward", "--json", "f.json",
                  code=1, loss="planted.lossy_grad(model(x)).sum()")
    assert "planted.lossy_grad.0.backward" in result.stdout
