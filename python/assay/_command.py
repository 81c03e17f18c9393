"""The `assay` command of an installed package: the program beside it."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "assay"
    # What of it is Python runs on this interpreter.
    os.environ.setdefault("ASSAY_PYTHON", sys.executable)
    os.execv(program, [str(program), *sys.argv[1:]])
