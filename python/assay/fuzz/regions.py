"""Autocast regions, left for a while or entered again."""

from __future__ import annotations

import contextlib
from typing import Iterator, Optional

import torch

from assay.capture.autocast import _autocast_devices

# Of the devices that this process has.
_KINDS = _autocast_devices()


def _state(kind: str) -> tuple[bool, Optional[torch.dtype]]:
    if hasattr(torch, "get_autocast_dtype"):
        on = torch.is_autocast_enabled(kind)
        return on, torch.get_autocast_dtype(kind) if on else None
    if kind == "cpu":  # before 2.4
        on = torch.is_autocast_cpu_enabled()
        return on, torch.get_autocast_cpu_dtype() if on else None
    on = kind == "cuda" and torch.is_autocast_enabled()
    return on, torch.get_autocast_gpu_dtype() if on else None


class Regions:
    """The autocast regions around the caller."""

    def __init__(self) -> None:
        self.on = {kind: dtype for kind in _KINDS
                   for active, dtype in (_state(kind),) if active}

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """As they are here, but casts are not kept for later: those that the
        training keeps are of its own tensors."""
        with contextlib.ExitStack() as stack:
            for kind, dtype in self.on.items():
                stack.enter_context(torch.autocast(kind, dtype=dtype,
                                                   cache_enabled=False))
            yield

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for kind in _KINDS:
                if _state(kind)[0]:
                    stack.enter_context(torch.autocast(kind, enabled=False))
            yield
