"""Which of the processes that train together this is, and its folder.

torch.distributed tells once it is initialised, the launcher's environment
before that. A process that knows neither (torch.multiprocessing.spawn starts
such) may be one of several: its trace is proc{pid}, as the readers of traces
know processes without a rank. It is named by the rank at the end of the step
if torch.distributed was initialised meanwhile.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib

import torch


def _distributed() -> bool:
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()


def rank() -> int:
    """This process among those that train together."""
    if _distributed():
        return torch.distributed.get_rank()
    return int(os.environ.get("RANK", "0") or 0)


def world_size() -> int:
    """How many they are."""
    if _distributed():
        return torch.distributed.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1") or 1)


def folder() -> str:
    """The name of this process's folder, as far as it is known."""
    if (_distributed() or os.environ.get("RANK")
            or multiprocessing.parent_process() is None):
        return f"rank{rank()}"
    return f"proc{os.getpid()}"


def settle(directory: pathlib.Path) -> None:
    """Gives a finished trace the name that is known by now, unless that is
    taken."""
    final = directory.parent / f"rank{rank()}"
    if _distributed() and final != directory and not final.exists():
        try:
            directory.rename(final)
        except OSError:  # another process was quicker
            return
