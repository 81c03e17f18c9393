"""seed_all: seeds, switches of determinism, and no dropout."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any, Callable

from assay.random import switches
from assay.random.checks import BACKENDS, checked_seed


class Seeded:
    """What seed_all did. restore(), or the end of a `with`, puts switches,
    environment and dropout back as they were; seeds stay.

    done: one line for each thing that was set. not_done: what could not be,
    with the reason. noted: settings that change results and were left alone.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.done: list[str] = []
        self.not_done: list[str] = []
        self.noted: list[str] = []
        self._undo: list[Callable[[], None]] = []

    def undo_by(self, undo: Callable[[], None]) -> None:
        self._undo.append(undo)

    def restore(self) -> None:
        """Once; a second call does nothing."""
        while self._undo:
            self._undo[-1]()  # stays where it raises
            self._undo.pop()

    def __enter__(self) -> Seeded:
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    def __str__(self) -> str:
        return "\n".join([*self.done,
                          *(f"not done: {line}" for line in self.not_done),
                          *(f"left as it is: {line}" for line in self.noted)])


def seed_all(seed: int = 1234, deterministic: bool = False,
             drop_dropout: bool = False) -> Seeded:
    """Seeds all that a training process draws from.

    Python's random, numpy, torch on the CPU and on every backend present (all
    devices), and PYTHONHASHSEED for the processes started from here: this
    one's string hashes were fixed when it began.

    deterministic: also switches torch, cuDNN and the libraries below to
    algorithms that give the same bits every time. Operators of torch without
    one raise an error. Settings of the environment are read by the libraries
    when they start: call this first of all.

    drop_dropout: every dropout returns its input, for this thread, until
    restore(). docs/determinism.md says what that reaches.
    """
    report = Seeded(checked_seed("seed_all", seed))
    _seed_python(report)
    _seed_numpy(report)
    _seed_torch(report)
    try:
        if deterministic:
            switches.make_deterministic(report)
        switches.note_reduced_precision(report)
        if drop_dropout:
            _drop_dropout(report)
    except BaseException:
        report.restore()
        raise
    return report


def _seed_python(report: Seeded) -> None:
    random.seed(report.seed)
    report.done.append(f"random.seed({report.seed})")
    switches.set_environment(report, "PYTHONHASHSEED", str(report.seed))
    report.done.append(f"PYTHONHASHSEED={report.seed} for new processes")
    if _began_with("PYTHONHASHSEED") != str(report.seed):
        report.not_done.append(
            "string hashes of this process were fixed when it began: start it "
            f"with PYTHONHASHSEED={report.seed}")


def _began_with(name: str) -> str | None:
    """The variable as this process found it, where the system tells."""
    try:
        found = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    return next((line[len(prefix):].decode(errors="replace")
                 for line in found if line.startswith(prefix)), None)


def _seed_numpy(report: Seeded) -> None:
    if importlib.util.find_spec("numpy") is None:
        report.not_done.append("numpy is not installed")
        return
    import numpy
    numpy.random.seed(report.seed)
    report.done.append(f"numpy.random.seed({report.seed})")
    report.not_done.append("generators made by numpy.random.default_rng() "
                           "have seeds of their own")


def _seed_torch(report: Seeded) -> None:
    if importlib.util.find_spec("torch") is None:
        report.not_done.append("torch is not installed")
        return
    import torch
    torch.manual_seed(report.seed)
    report.done.append(f"torch.manual_seed({report.seed})")
    for name in BACKENDS:
        backend = getattr(torch, name, None)
        if backend is None or not _present(backend):
            continue
        # torch.manual_seed() does this for the backends it knows of.
        for function in ("manual_seed_all", "manual_seed"):
            seeder = getattr(backend, function, None)
            if seeder is not None:
                seeder(report.seed)
                report.done.append(f"torch.{name}.{function}({report.seed})")
                break
        else:
            report.not_done.append(f"torch.{name} has no manual_seed()")


def _present(backend: Any) -> bool:
    available = getattr(backend, "is_available", None)
    try:
        return available is not None and bool(available())
    except Exception:  # a driver that does not start
        return False


def _drop_dropout(report: Seeded) -> None:
    from assay.random.dropless import DropNothing, DropNothingBelow
    from assay.random.stack import ModeStack
    modes = ModeStack("seed_all")
    modes.enter(DropNothing())
    modes.enter(DropNothingBelow())
    report.undo_by(modes.leave)
    report.done.append("every dropout is the identity in this thread")
