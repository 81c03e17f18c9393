"""Function modes put on and taken off in any order."""

from __future__ import annotations

from typing import Any

from torch import overrides

# Since torch 2.0; without them modes must be left in the order of entry.
_pop = getattr(overrides, "_pop_mode", None)
_push = getattr(overrides, "_push_mode", None)
_length = getattr(overrides, "_len_torch_function_stack", None)


def enter(mode: Any) -> None:
    """Puts the mode on top of this thread's stack."""
    mode.__enter__()


def leave(mode: Any) -> None:
    """Takes the mode off, whatever was put on above it since; what is above
    stays. Nothing happens where it is not on this thread's stack.

    Captures may overlap, and torch.set_default_device() may be called while
    one runs: leaving as a with statement does would take the wrong one off.
    """
    if _pop is None or _push is None or _length is None:
        mode.__exit__(None, None, None)
        return
    others = []
    while _length():
        top = _pop()
        # One that was stopped inside of a call it was asked about is put
        # back by torch when that call returns.
        if top is not mode and getattr(top, "on", True):
            others.append(top)
    for other in reversed(others):
        _push(other)
