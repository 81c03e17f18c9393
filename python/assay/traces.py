"""Compares what two runs left on disk, by the program."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Sequence

from assay.program import error, run
from assay.results import Comparison, read

# Match, mismatch, incomplete.
_VERDICTS = (0, 1, 4)


def compare_traces(golden: str | os.PathLike, target: str | os.PathLike,
                   standard: str = "assay",
                   flags: Sequence[str] = ()) -> Comparison:
    """`assay compare` of two paths. Raises assay.Error with its message."""
    return reported(["compare", "--standard", standard, *map(str, flags)],
                    golden, target)


def reported(command: Sequence[str], *paths: str | os.PathLike) -> Comparison:
    """What a command of the program that ends in a comparison found in
    `paths`. Raises assay.Error with its message."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        report = pathlib.Path(folder) / "report.json"
        done = run([*command, "--color", "never", "--json", str(report), "--",
                    *map(os.fspath, paths)], _VERDICTS)
        try:
            document = read(report.read_text(encoding="utf-8"))
        except OSError as missing:
            raise error(f"assay {command[0]} left no report: {missing}",
                        "internal") from missing
    return Comparison.of(document, done.stdout)
