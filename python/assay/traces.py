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
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        report = pathlib.Path(folder) / "report.json"
        done = run(["compare", "--standard", standard, "--color", "never",
                    "--json", str(report), *map(str, flags), "--",
                    os.fspath(golden), os.fspath(target)], _VERDICTS)
        try:
            document = read(report.read_text(encoding="utf-8"))
        except OSError as missing:
            raise error(f"assay compare left no report: {missing}",
                        "internal") from missing
    return Comparison.of(document, done.stdout)
