"""Every API call of a trace again, by itself, on a device: assay.precheck."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
from typing import Sequence, Union

from assay.results import Comparison
from assay.traces import reported

# A command line, or its words.
Worker = Union[str, Sequence[str]]


def precheck(trace: str | os.PathLike, worker: Worker = "torch", *,
             golden: Worker = "torch", standard: str = "assay",
             out: str | os.PathLike | None = None, resume: bool = False,
             only: str | Sequence[str] = (),
             flags: Sequence[str] = ()) -> Comparison:
    """Replays the API calls of a trace on a worker's device and judges each
    by a golden in float64: `assay precheck run` (docs/precheck.md).

    trace: a capture with API calls, or an msprobe dump.
    worker: the device: "torch" (this interpreter, on the CPU), or the command
    line of a worker, as text or as its words.
    golden: who computes in float64.
    standard: a shipped precision standard, a YAML file, "msprobe-precheck".
    out: the folder of details.csv and the journal; precheck-TRACE in the
    working directory without it. `.details` of the result is that csv.
    resume: keep what an interrupted run in `out` has finished.
    only: globs of calls or APIs.
    flags: further flags of the command ("--step", "0").

    Ctrl-C finishes the calls in hand; resume=True goes on from there.
    """
    folder = _folder(trace) if out is None else os.fspath(out)
    command = ["precheck", "run", "--worker", _line(worker),
               "--golden", _line(golden), "--standard", os.fspath(standard),
               "--out", folder]
    for glob in [only] if isinstance(only, str) else only:
        command += ["--only", glob]
    if resume:
        command.append("--resume")
    try:
        found = reported([*command, *map(str, flags)], trace)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"assay.precheck was interrupted; resume=True, out={folder!r} "
            "goes on from there") from None
    return dataclasses.replace(found,
                               details=str(pathlib.Path(folder, "details.csv")))


def compare_devices(device: str | os.PathLike | Comparison,
                    reference: str | os.PathLike | Comparison, *,
                    level: str | None = None, profile: str = "msprobe-26",
                    flags: Sequence[str] = ()) -> Comparison:
    """Holds the errors of a device to those of a reference device, both
    judged by their goldens before: `assay precheck compare`.

    device, reference: what assay.precheck gave, its `out` folder, or a details
    csv, msprobe's too.
    level: "L0", "L1" or "L2": how strict, instead of each API's own.
    profile: "msprobe-26", the rules of its code, or "published".
    """
    command = ["precheck", "compare", "--profile", profile]
    if level is not None:
        command += ["--level", level]
    return reported([*command, *map(str, flags)], _details(device),
                    _details(reference))


def _details(side: str | os.PathLike | Comparison) -> str:
    if not isinstance(side, Comparison):
        return os.fspath(side)
    if side.details is None:
        raise TypeError("a Comparison without details: expected one of "
                        "assay.precheck, or a path")
    return side.details


def _folder(trace: str | os.PathLike) -> str:
    """As the program calls it: resume finds what the command line began."""
    return f"precheck-{os.path.basename(os.path.abspath(os.fspath(trace)))}"


def _line(worker: Worker) -> str:
    return worker if isinstance(worker, str) else shlex.join(
        map(os.fspath, worker))
