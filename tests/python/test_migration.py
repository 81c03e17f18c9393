"""The migration of docs/capture.md: each mistake is named by one command."""

import os
import re
import subprocess
import sys

import pytest

from paths import ASSAY, ROOT


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What each command of the section printed, by its last word."""
    text = (ROOT / "docs/capture.md").read_text()
    section = text.split("## Finding three mistakes", 1)[1]
    work = tmp_path_factory.mktemp("migration")
    (work / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "PATH": f"{ASSAY.parent}:{os.path.dirname(sys.executable)}:"
                + os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "build/release/python")}
    found = {}
    for block in re.findall(r"```sh\n(.*?)```", section, re.S):
        for line in block.splitlines():
            result = subprocess.run(line.split(), cwd=work, text=True,
                                    capture_output=True, env=environment)
            assert not result.stderr.startswith("Traceback"), result.stderr
            if line.startswith("assay"):
                found[line.split()[-1]] = result
    return section, found


@pytest.mark.parametrize("run, words", [
    ("port", ("Functional.softmax.0.forward.input.dtype", "bfloat16")),
    ("port1", ("Functional.dropout.0.forward.input.p",
               "golden 0.0, target 0.1")),
    ("port2", ("Functional.gelu.0.forward.input.approximate",
               "golden none, target tanh")),
])
def test_a_mistake_is_named(printed, run, words):
    result = printed[1][run]
    assert result.returncode == 1
    first = result.stdout.split("again:")[0]
    assert "first divergence" in first and "port.py" in first
    assert all(word in first for word in words), first


def test_without_mistakes_everything_agrees(printed):
    result = printed[1]["port3"]
    assert result.returncode == 0
    assert "all agree" in result.stdout


def test_the_document_shows_what_was_printed(printed):
    section, found = printed
    shown = re.search(r"```text\n(.*?)```", section, re.S)[1]
    assert shown in found["port"].stdout
