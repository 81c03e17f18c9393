"""Modes of torch that are entered by one call and left by another.

torch keeps modes of each kind on a stack of the thread; leaving takes the
top away, whichever it is. Here it must be the one that was entered.
"""

from __future__ import annotations

from typing import Any


class ModeStack:
    """Modes entered together, left in the opposite order."""

    def __init__(self, caller: str) -> None:
        self._caller = caller
        self._entered: list[Any] = []

    def enter(self, mode: Any) -> None:
        mode.__enter__()
        self._entered.append(mode)

    def leave(self) -> None:
        """Raises RuntimeError, and leaves none, where a mode that was entered
        later is still there, or this is another thread."""
        for mode in self._entered:
            if not _is_top(mode):
                raise RuntimeError(
                    f"{self._caller}: a mode of torch that was entered later "
                    "is still active, or this is another thread: leave that "
                    "one first, and this one where it was entered")
        while self._entered:
            self._entered.pop().__exit__(None, None, None)


def is_active(kind: type) -> bool:
    """Whether a mode of this class is on its stack, which the threads of a
    backward pass inherit. A mode whose turn it is has left it."""
    return any(isinstance(mode, kind) for mode in _stack_of(kind) or ())


def _is_top(mode: Any) -> bool:
    stack = _stack_of(type(mode))
    return stack is None or bool(stack) and stack[-1] is mode


def _stack_of(kind: type) -> list[Any] | None:
    """None where a torch of another year does not show it."""
    from torch import overrides
    from torch.utils import _python_dispatch
    if issubclass(kind, overrides.TorchFunctionMode):
        stack = getattr(overrides, "_get_current_function_mode_stack", None)
    else:
        stack = getattr(_python_dispatch, "_get_current_dispatch_mode_stack",
                        None)
    return None if stack is None else stack()
