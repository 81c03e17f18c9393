"""Backward passes: which one runs, and what to do when it is over."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch


def _no_pass() -> int:
    return -1


# The number of the pass that this thread works for; -1 outside of any.
current_pass: Callable[[], int] = getattr(
    torch._C, "_current_graph_task_id", _no_pass)


class Passes:
    """Calls of which a pass has reached a part.

    What a pass leaves out, the next through the same graph must not be added
    to; and where the end of passes is known, what has come is complete then.
    """

    def __init__(self, guard: Callable[[Any], Any]) -> None:
        self._guard = guard
        self._open: dict[int, dict[Any, None]] = {}

    def join(self, call: Any) -> int:
        """call.pass_is_over() is called at the end of the pass that runs,
        unless it leaves before. Returns the pass."""
        number = current_pass()
        mine: dict[Any, None] = {}
        waiting = self._open.setdefault(number, mine)
        if waiting is mine:
            engine = getattr(torch.autograd.Variable, "_execution_engine",
                             None)
            if number >= 0 and hasattr(engine, "queue_callback"):
                engine.queue_callback(functools.partial(self._over, number))
        waiting[call] = None
        return number

    def leave(self, number: int, call: Any) -> None:
        """All of the call's gradients have come."""
        self._open.get(number, {}).pop(call, None)

    def _over(self, number: int) -> None:
        for call in self._open.pop(number, ()):
            with self._guard("the end of a backward pass"):
                call.pass_is_over()
