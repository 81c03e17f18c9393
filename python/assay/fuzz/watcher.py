"""Sees calls of functions and modules, for a check that answers them."""

from __future__ import annotations

import threading
from typing import Any, Callable

from assay.capture.functions import FunctionMode
from assay.capture.guards import Guard
from assay.capture.modules import ModuleHooks


class FuzzMode(FunctionMode):
    """Hands API calls to a check, which makes them."""

    def escape(self, args: tuple) -> None:
        """No tensor is remembered here: memory may be handed out."""

    def _recorded(self, kind: tuple[str, str], func: Callable, args: tuple,
                  kwargs: dict) -> Any:
        return self.recorder.call(kind, func, args, kwargs)


class _Calls(threading.local):
    def __init__(self) -> None:
        self.calls: list[Any] = []


class _Options:
    backward = False
    modules = True


class ModulePath:
    """Which modules this thread is inside of.

    It is the recorder of capture's hooks on modules, and writes nothing.
    """

    options = _Options()
    watches_gradients = False
    alive = True

    def __init__(self, models: Any, guarded: Callable[[Any], Guard]) -> None:
        self.state = _Calls()
        self.guarded = guarded
        self.hooks = ModuleHooks(self, models, True, f"assay.fuzz{id(self)}")

    def here(self) -> str:
        """The innermost module, as captures name it."""
        calls = self.state.calls
        return calls[-1].stem if calls else ""

    def look_at_thread(self) -> None:
        pass

    def next_call(self, stem: str) -> int:
        return 0

    def begin(self, *args: Any, **kwargs: Any) -> int:
        return -1

    def checkpoint(self, op: int) -> None:
        pass
