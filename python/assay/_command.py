"""The `assay` command of an installed package: the program beside it."""

from __future__ import annotations

import os
import sys

from assay.program import environment, program


def main() -> None:
    path = str(program())
    os.execve(path, [path, *sys.argv[1:]], environment())
