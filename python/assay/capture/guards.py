"""What a capture does, kept apart from the training that it watches."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

import torch


class _Thread(threading.local):
    busy = False  # a capture is calling torch


# Of every capture: what one of them calls, another does not see.
THREAD = _Thread()

# report(error, what): of an error in the capture's own work.
Report = Callable[[Exception, Any], None]


class Guard:
    """A context for everything that a capture does.

    An error in it is reported and goes no further. What torch is asked for
    meanwhile is nobody's call: no function mode (a default device, one of the
    user's) and no dispatch mode (FakeTensorMode, selective checkpointing's
    cache, a profile of FLOPs) sees it, and torch.jit.trace does not put it
    into its graph.
    """

    __slots__ = ("_report", "_what", "_busy", "_functions", "_modes",
                 "_tracing")

    def __init__(self, report: Report, what: Any = None) -> None:
        self._report = report
        self._what = what

    def __enter__(self) -> None:
        self._busy, THREAD.busy = THREAD.busy, True
        self._functions = _no_functions()
        self._functions.__enter__()
        self._modes = self._tracing = None
        if _dispatch_modes():
            self._modes = _without_modes()
        if _tracing is not None:
            self._tracing = _tracing()
            if self._tracing is not None:
                torch._C._set_tracing_state(None)

    def __exit__(self, kind: Any, error: Optional[BaseException],
                 trace: Any) -> bool:
        if self._tracing is not None:
            torch._C._set_tracing_state(self._tracing)
        if self._modes is not None:
            self._modes.__exit__(None, None, None)
        self._functions.__exit__(None, None, None)
        THREAD.busy = self._busy
        if not isinstance(error, Exception):
            return False  # Ctrl-C is the user's
        self._report(error, self._what)
        return True


_no_functions = torch._C.DisableTorchFunction
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_tracing = (getattr(torch._C, "_get_tracing_state", None)
            if hasattr(torch._C, "_set_tracing_state") else None)


def _without_modes() -> Any:
    """Takes the dispatch modes off until it is left; None where this torch
    does not offer it."""
    try:
        from torch.utils._python_dispatch import _disable_current_modes
        modes = _disable_current_modes()
        modes.__enter__()
    except (ImportError, AttributeError):
        return None
    return modes
