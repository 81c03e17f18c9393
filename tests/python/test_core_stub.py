"""python/assay/_core.pyi says what assay._core has."""

import subprocess
import sys

from paths import PACKAGE, ROOT

STUB = ROOT / "python/assay/_core.pyi"
COMMAND = [sys.executable, "-m", "nanobind.stubgen", "-q", "-i", str(PACKAGE),
           "-m", "assay._core", "-o"]


def test_the_stub_is_that_of_the_module(tmp_path):
    found = tmp_path / "_core.pyi"
    subprocess.run([*COMMAND, found], check=True)
    assert STUB.read_text() == found.read_text(), (
        "made anew by: " + " ".join([*COMMAND, str(STUB)]))
