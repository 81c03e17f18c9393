"""The `assay` program that belongs to this package, and how to run it."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
from typing import Any, Sequence

import assay

# What the program's exit codes say besides a verdict.
_CODES = {2: "usage", 3: "unreadable"}


def program() -> pathlib.Path:
    """bin/assay beside assay._core; in a build tree that of the build."""
    library = importlib.util.find_spec("assay._core")
    beside = pathlib.Path(library.origin if library and library.origin
                          else __file__).parent
    for path in (beside / "bin/assay", beside.parent.parent / "bin/assay"):
        if path.is_file():
            return path
    raise ImportError(f"the program assay is not in {beside}/bin: `pip install "
                      ".` in the source tree builds it")


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
