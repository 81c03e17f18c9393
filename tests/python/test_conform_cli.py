"""The golden loop on the command line: stores, packs, interruption, exit
codes."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from paths import ASSAY, ROOT

SPEC = """module: copy
summary: outputs are the inputs
api: [copy]
parameters:
  n: [1, 2, 3, 4]
inputs:
  x: {shape: [n, 4], dtype: float32, values: normal}
outputs:
  x: {shape: [n, 4], dtype: float32, class: movement}
"""
HOSTILE = ROOT / "tests/conform/workers/hostile.py"


def worker(options=""):
    return f"{sys.executable} -I -S {shlex.quote(str(HOSTILE))} {options}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/copy.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def goldens(assay, folder):
    assay("conform", "collect", "--specs", "specs", "--worker", worker())
    return folder / "goldens"


def run(assay, *more, options="", goldens="goldens", code=0):
    return assay("conform", "run", "--specs", "specs", "--goldens", goldens,
                 "--target", worker(options), *more, code=code)


def cases(folder):
    result = json.loads((folder / "assay-run/run.json").read_text())
    return result, result["modules"][0]["cases"]


def test_the_engine_against_its_reference(assay, folder):
    text = assay("conform", "loop", "--reference", "reference", "--target",
                 "cpu", "--module", "linear", "-o", "out").stdout
    assert "assay-cpu" in text and "assay-reference" in text
    result = json.loads((folder / "out/run.json").read_text())
    assert result["verdict"] == "match"
    assert result["golden"]["implementation"] == "assay-reference"
    assert result["modules"][0]["module"] == "linear"


@pytest.mark.parametrize("mode, code", [("", 0), ("wrong", 1), ("segv", 4)])
def test_exit_codes_are_those_of_the_verdict(assay, goldens, mode, code):
    run(assay, options=f"--mode {mode}" if mode else "", code=code)


def test_a_failing_case_prints_what_repeats_it(assay, goldens, folder):
    text = run(assay, options="--mode wrong", code=1).stdout
    again = next(line for line in text.splitlines() if "again: " in line)
    command = shlex.split(again.split("again: ")[1])
    assert command[0] == "assay"
    assay(*command[1:], code=1)
    result, only = cases(folder)
    assert [c["parameters"]["n"] for c in only] == [2]
    assert result["verdict"] == "mismatch"


def test_a_pack_is_a_store(assay, goldens, folder):
    text = assay("conform", "pack", "goldens", "one.pack").stdout
    assert "4 goldens" in text
    run(assay, goldens="one.pack")
    assay("conform", "unpack", "one.pack", "other")
    run(assay, goldens="other")
    data = bytearray((folder / "one.pack").read_bytes())
    data[-1] ^= 1
    (folder / "bad.pack").write_bytes(data)
    error = assay("conform", "unpack", "bad.pack", "third", code=3).stderr
    assert "bad.pack: store.json: " in error and error.count("\n") == 1
    assert not (folder / "third").exists()


@pytest.mark.parametrize("arguments, message", [
    (["run", "--target", "cpu"], "--goldens"),
    (["run", "--goldens", "goldens"], "--target"),
    (["loop", "--target", "cpu", "--timeout", "0"], "--timeout"),
    (["loop", "--target", "cpu", "--memory-limit", "4X"], "--memory-limit"),
    (["loop", "--target", "cpu", "--slower", "fast"], "--slower"),
    (["loop", "--target", "cpu", "--tier", "huge"], "huge"),
    (["loop", "--target", "cpu", "--module", "liner"], "linear"),
    (["loop", "--target", "'cpu"], "quote"),
])
def test_usage(assay, folder, arguments, message):
    error = assay("conform", *arguments, code=2).stderr
    assert message in error and error.count("\n") == 1


def test_what_cannot_be_read(assay, folder):
    run(assay, goldens="nowhere", code=3)
    (folder / "text").write_text("no pack")
    error = run(assay, goldens="text", code=3).stderr
    assert "a golden pack" in error
    assay("conform", "run", "--specs", "specs", "--goldens", "nowhere",
          "--target", "no-such-program", code=3)


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("nothing happened")


def count(folder):
    file = folder / "count"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_control_c_finishes_the_case_in_hand(assay, goldens, folder):
    options = f"--delay 0.3 --count {folder}/count"
    arguments = ["conform", "run", "--specs", "specs", "--goldens", "goldens",
                 "--workers", "1", "--target", worker(options)]
    with subprocess.Popen([ASSAY, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        wait_for(lambda: count(folder) >= 3)
        # To all of them, as the terminal does.
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in out
    result, first = cases(folder)
    endings = [c["ending"] for c in first]
    done = endings.count("compared")
    assert result["interrupted"] and result["verdict"] == "incomplete"
    assert 2 <= done < 4 and set(endings) == {"compared", "not_run"}
    assert count(folder) == 2 * done
    assay(*arguments, "--resume")
    assert count(folder) == 8
    assert cases(folder)[0]["verdict"] == "match"


def test_a_second_control_c_leaves_no_worker(assay, goldens, folder):
    arguments = ["conform", "run", "--specs", "specs", "--goldens", "goldens",
                 "--workers", "1", "--target",
                 worker(f"--mode fork-exit --at 1 --note {folder}/note")]
    with subprocess.Popen([ASSAY, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        note = folder / "note"
        wait_for(lambda: note.exists() and len(note.read_text().split()) == 2)
        child = int(note.read_text().split()[0])
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    wait_for(lambda: not alive(child))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_collects_at_once(assay, folder):
    arguments = [ASSAY, "conform", "collect", "--specs", "specs", "--worker",
                 worker("--delay 0.05")]
    both = [subprocess.Popen(arguments) for _ in range(2)]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    run(assay)


def test_a_perf_baseline_names_what_got_slower(assay, goldens, folder):
    run(assay)
    os.rename("assay-run", "before")
    text = run(assay, "--perf-baseline", "before").stdout
    assert "no times were compared" in text  # a copy takes a millisecond
