"""The program from Python: pre-checks, devices, environments; what is shown on
a terminal, and Ctrl-C."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import pickle
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from paths import PACKAGE, ROOT

pytest.importorskip("torch")

import assay  # noqa: E402

TRACE = ROOT / "examples/precheck/trace"
WORKER = [sys.executable, ROOT / "examples/precheck/worker.py"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PACKAGE),
               "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    os.environ["OMP_NUM_THREADS"] = "1"


def children(pid):
    return subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)],
                          capture_output=True, text=True).stdout.split()


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A pre-check on a terminal that was interrupted after some calls: its
    folder, how Python ended, what it showed, the program's process."""
    out = tmp_path_factory.mktemp("cpu") / "out"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", f"import assay; assay.precheck({str(TRACE)!r}, "
         f"out={str(out)!r}, flags=['--jobs', '1'])"], stderr=theirs,
        stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    os.close(theirs)
    journal = out / "journal.jsonl"
    deadline = time.monotonic() + 60
    while not (journal.exists() and journal.read_text().count("\n") > 2):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    (program,) = children(process.pid)
    process.send_signal(signal.SIGINT)  # to Python alone, as a notebook does
    shown = everything(ours)
    return out, process.wait(timeout=60), shown, program


@pytest.fixture(scope="module")
def healthy(interrupted):
    """The same, finished."""
    return assay.precheck(TRACE, out=interrupted[0], resume=True,
                          flags=["--jobs", "1"])


def everything(terminal):
    """What is shown on it until nobody holds it any more."""
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return shown.decode()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """Some calls, on a device with a fault, in the folder without `out`."""
    folder = tmp_path_factory.mktemp("npu")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        found = assay.precheck(TRACE, WORKER, only="Functional.*")
    assert found.details == "precheck-trace/details.csv"
    return dataclasses.replace(found, details=str(folder / found.details))


def test_a_healthy_device_matches(healthy):
    assert healthy.matched, healthy
    assert healthy.counts["match"] > 40 and healthy.first_divergence is None


def test_the_planted_operator_is_named_and_no_other(faulty):
    assert faulty.verdict == "mismatch"
    assert faulty.first_divergence.name == "Functional.gelu.0.forward"
    assert "GELU" in faulty.first_divergence.cause
    assert {row.name.rsplit(".", 3)[0]
            for row in faulty.of_verdict("mismatch")} == {"Functional.gelu.0"}
    assert "Functional.gelu" in repr(faulty)


def test_the_guide_shows_what_it_prints(faulty):
    guide = (ROOT / "docs/migration.md").read_text()
    shown, = re.findall(r"```text\n(.*?)```", guide, re.S)
    # How many elements are how far over hangs on the processor's own tanh.
    assert without_figures(shown) in without_figures(faulty.text)


def without_figures(text: str) -> str:
    return re.sub(r"\b\d+(\.\d+)?(e[+-]\d+)?\b", "#", text)


def test_only_what_was_asked_for_is_replayed(faulty, healthy):
    assert all(row.name.startswith("Functional.") for row in faulty)
    assert 10 < len(faulty) < len(healthy)


def test_details_are_where_it_says(faulty):
    assert "Functional.gelu.0" in pathlib.Path(faulty.details).read_text(
        encoding="utf-8-sig")
    assert pickle.loads(pickle.dumps(faulty)).details == faulty.details


def test_two_devices_are_compared_by_what_their_checks_gave(faulty, healthy):
    found = assay.compare_devices(faulty, healthy)
    assert found.verdict == "mismatch"
    names = {row.name for row in found.of_verdict("mismatch")}
    assert names and all("gelu" in name for name in names)
    again = assay.compare_devices(pathlib.Path(faulty.details).parent,
                                  healthy.details, level="L0")
    assert again.verdict == "mismatch"
    assert not assay.compare_devices(healthy, healthy).of_verdict("mismatch")


def test_what_has_no_details_is_no_device(healthy):
    with pytest.raises(TypeError, match="without details"):
        assay.compare_devices(assay.compare({"a": 1.0}, {"a": 1.0}), healthy)


def test_an_interrupt_stops_the_program_and_keeps_what_it_has(interrupted):
    _, code, shown, program = interrupted
    assert code in (-signal.SIGINT, 128 + signal.SIGINT), shown
    assert "resume=True" in shown.splitlines()[-1]
    assert not pathlib.Path(f"/proc/{program}").exists()


def test_progress_is_shown_on_a_terminal_alone(interrupted, healthy, capfd):
    shown = interrupted[2]
    assert " calls" in shown and "[#" in shown
    assay.compare(TRACE, TRACE)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("arguments, code, said", [
    ({"trace": "no_such_trace"}, "unreadable", "no_such_trace"),
    ({"trace": TRACE, "standard": "strictest"}, "usage", "strictest"),
    ({"trace": TRACE, "worker": "'"}, "usage", "quote"),
])
def test_what_is_refused_is_an_error_of_one_line(arguments, code, said,
                                                 tmp_path):
    with pytest.raises(assay.Error) as raised:
        assay.precheck(**arguments, out=tmp_path / "out")
    assert raised.value.code == code
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_environments_are_compared_as_files_and_as_documents(tmp_path):
    a = assay.env.snapshot(tmp_path / "a.json", config={"eps": 1e-5, "n": 2})
    b = assay.env.snapshot(config={"eps": 1e-6, "n": 2})
    found = assay.env.diff(tmp_path / "a.json", b)
    assert found.verdict == "mismatch"
    assert found.first_divergence.name == "hyperparameters.eps"
    row = found["hyperparameters.eps"]
    assert (float(row.golden.value), float(row.target.value)) == (1e-5, 1e-6)
    assert assay.env.diff(a, b, ignore="hyperparameters.eps").matched
    assert len(assay.env.diff(a, b, sections=["hyperparameters"])) == 2
    with pytest.raises(assay.Error, match="golden.json"):
        assay.env.diff({"format": "other"}, b)


def test_an_error_on_a_terminal_is_the_programs():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c",
         "import assay\ntry: assay.compare('no_such_a', 'no_such_b')\n"
         "except assay.Error as e: assert str(e).startswith('no_such_a'), e"],
        stderr=theirs, env=ENVIRONMENT)
    os.close(theirs)
    shown = everything(ours)
    assert process.wait() == 0, shown
