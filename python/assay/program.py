"""The `assay` program that belongs to this package, and how to run it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any, Sequence

import assay

# What the program's exit codes say besides a verdict.
_CODES = {2: "usage", 3: "unreadable"}


def program() -> pathlib.Path:
    """bin/assay of the package; in a build tree that of the build."""
    package = pathlib.Path(__file__).parent
    beside = package / "bin" / "assay"
    built = package.parent.parent / "bin" / "assay"
    for path in (beside, built):
        if path.is_file():
            return path
    raise ImportError(f"the program assay is not at {beside}: `pip install .` "
                      "in the source tree builds it")


def environment() -> dict[str, str]:
    """What of the program is Python runs on this interpreter."""
    return {"ASSAY_PYTHON": sys.executable, **os.environ}


def error(message: str, code: str) -> Exception:
    """assay.Error, as the library raises it."""
    raised = assay.Error(message)
    raised.code = code
    return raised


def run(arguments: Sequence[str], expected: Sequence[int] = (0,)) -> Any:
    """Runs the program. Raises assay.Error with what it says where it ends
    otherwise than `expected`."""
    done = subprocess.run([str(program()), *arguments], text=True,
                          stdin=subprocess.DEVNULL, env=environment(),
                          capture_output=True, errors="backslashreplace")
    if done.returncode in expected:
        return done
    lines = done.stderr.strip().splitlines()
    said = lines[-1] if lines else f"assay ended with {done.returncode}"
    said = said[len("assay: "):] if said.startswith("assay: ") else said
    raise error(said, _CODES.get(done.returncode, "internal"))
