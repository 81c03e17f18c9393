"""What a capture does, kept apart from the training that it watches."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any, Callable, Optional

import torch


class _Thread(threading.local):
    busy = False  # a capture is calling torch


# Of every capture: what one of them calls, another does not see.
THREAD = _Thread()

# report(error, what): of an error in the capture's own work.
Report = Callable[[Exception, Any], None]


class Stop(Exception):
    """What a capture ends the training with, because it was asked to."""


class Guard:
    """A context for everything that a capture does.

    An error in it is reported and goes no further. What torch is asked for
    meanwhile is nobody's call: no function mode (a default device, one of the
    user's) and no dispatch mode (FakeTensorMode, selective checkpointing's
    cache, a profile of FLOPs) sees it, torch.jit.trace does not put it into
    its graph, and torch.compile does not compile it.
    """

    __slots__ = ("_report", "_what", "_busy", "_functions", "_modes",
                 "_tracing", "_compiler")

    def __init__(self, report: Report, what: Any = None) -> None:
        self._report = report
        self._what = what

    def __enter__(self) -> None:
        self._busy, THREAD.busy = THREAD.busy, True
        self._compiler = None
        if _set_compiler is not None and "torch._dynamo" in sys.modules:
            self._compiler = _set_compiler(None)
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
        if self._compiler is not None:
            _set_compiler(self._compiler)
        if not isinstance(error, Exception) or isinstance(error, Stop):
            return False  # Ctrl-C is the user's
        self._report(error, self._what)
        return True


# Whether torch.compile() traces the caller; torch 2.1 does not tell.
is_compiling = getattr(torch.compiler, "is_compiling", lambda: False)

_no_functions = torch._C.DisableTorchFunction
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_tracing = (getattr(torch._C, "_get_tracing_state", None)
            if hasattr(torch._C, "_set_tracing_state") else None)


def _skipper() -> Optional[Callable[[Any], None]]:
    """What marks a code object, and not what it calls, as one that is never
    compiled; None where this torch keeps it elsewhere."""
    dynamo = _frames()
    skip = getattr(dynamo, "skip_code", None)  # before 2.6
    if skip is not None:
        return skip
    try:
        actions = dynamo._FrameAction
        strategy = dynamo._FrameExecStrategy(actions.SKIP, actions.DEFAULT)
        mark = dynamo.set_code_exec_strategy
    except AttributeError:
        return None
    return lambda code: mark(code, strategy)


def _frames() -> Any:
    try:
        from torch._C._dynamo import eval_frame
        return eval_frame
    except ImportError:
        return None


_set_compiler = getattr(_frames(), "set_eval_frame", None)


def never_compiled(package: str) -> None:
    """Tells torch.compile to leave the functions of a package alone, as far
    as it is imported.

    Where it could not compile a model as a whole it tries each Python
    function that the rest calls, and so those that a capture puts between;
    compiled, they would see nothing. What is inlined into a graph is not
    touched by this: there the hooks vanish (is_compiling()).
    """
    skip = _skipper()
    if skip is None:
        return
    for name, module in list(sys.modules.items()):
        if not name.startswith(f"{package}."):
            continue
        for each in vars(module).values():
            if getattr(each, "__module__", "") != name:
                continue
            for function in (each, *getattr(each, "__dict__", {}).values()):
                function = getattr(function, "fget", function)
                function = getattr(function, "__func__", function)
                _skip(skip, getattr(function, "__code__", None))


def _skip(skip: Callable[[Any], None], code: Any) -> None:
    if isinstance(code, types.CodeType):
        skip(code)
        for inner in code.co_consts:
            _skip(skip, inner)


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
