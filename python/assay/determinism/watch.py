"""Captures a program that knows nothing of it, one optimizer step after the
other.

Modules and steps are found by hooks that torch has for every module and every
optimizer: a module that is called by no other is a root and names what is
below it, the end of an optimizer's step ends a step. What runs before the
first call of a root (initial weights, the first batch) is a trace of its own:
memory that nobody has written yet is part of it.
"""

from __future__ import annotations

import os
import pathlib
import sys
import threading
from typing import Any, Callable, Iterator, Optional

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from assay.capture import session
from assay.capture.guards import THREAD

Module = torch.nn.Module


class Enough(BaseException):
    """Ends the script after its last step; no `except Exception` of the
    script takes it for an error."""


class ScriptCapture(session.Capture):
    """The one capture of a script under `assay determinism`."""


class Roots(list):
    """Modules that no other module calls, in the order of their first
    call; of several of one class the later ones are numbered."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[int] = set()
        self._begins: list[str] = []

    def numbered(self) -> list[tuple[str, Module]]:
        """Each with what names below it begin with."""
        return list(zip(self._begins, self))

    def knows(self, module: Module) -> bool:
        """Whether it is a root, or below one."""
        if id(module) not in self._known:  # it may have come later
            self._known.update(id(one) for root in self
                               for one in root.modules())
        return id(module) in self._known

    def add(self, root: Module) -> str:
        """What its names begin with. It is kept alive: its number is no
        other module's, ever."""
        twins = sum(type(one) is type(root) for one in self)
        self._begins.append(str(twins) if twins else "")
        self.append(root)
        return self._begins[-1]


class ScriptWatch:
    """Captures `steps` steps into out/steps and what comes before into
    out/setup. tell: called with the number of steps done."""

    def __init__(self, out: pathlib.Path, level: str, mode: str, steps: int,
                 tell: Callable[[int], None]) -> None:
        self._out, self._steps, self._tell = out, steps, tell
        self._done = 0
        self._owner = os.getpid(), threading.get_ident()
        self._roots = Roots()
        self._setup: Optional[ScriptCapture] = None
        self._capture = ScriptCapture(out / "steps", self._roots, level=level,
                                      mode=mode)
        if level == "mix":
            self._setup = ScriptCapture(out / "setup", level="api", mode=mode)
        self._level = level
        self._handles: list[Any] = []
        self._step_handle: Any = None

    def __enter__(self) -> "ScriptWatch":
        session.reserve(ScriptCapture, (
            "assay determinism captures the whole script: take assay.capture "
            "out of it, or compare two runs of it with `assay compare`"))
        if self._level != "api":
            self._handles.append(register_module_forward_pre_hook(
                self._called))
        if self._level == "api":
            self._capture.start()
        elif self._setup is not None:
            self._setup.start()
        self._last_hook()
        return self

    def _last_hook(self) -> None:
        """Ours is called after those of the capture, and, being the last,
        may change them."""
        if self._step_handle is not None:
            self._step_handle.remove()
        self._step_handle = register_optimizer_step_post_hook(
            lambda *_: self._stepped())

    def __exit__(self, *exception: object) -> None:
        for handle in (*self._handles, self._step_handle):
            handle.remove()
        if os.getpid() != self._owner[0]:
            return
        self._end_setup()
        self._capture.close()

    def _mine(self) -> bool:
        return (os.getpid(), threading.get_ident()) == self._owner

    def _called(self, module: Module, args: tuple) -> None:
        if THREAD.busy or not self._mine() or self._roots.knows(module):
            return
        begins = self._roots.add(module)
        if self._setup is not None:
            self._setup.close()
            self._setup = None
        if not self._capture.running:
            self._capture.start()
            self._last_hook()
        # The hooks that a module has just got are not called for this call.
        self._capture.enter(begins, module, args, _keywords(),
                            sys._getframe(1))

    def _end_setup(self) -> None:
        """Where no module was called, what came before is the first step."""
        setup, self._setup = self._setup, None
        if setup is None:
            return
        written, seen = setup.directory.parent, setup.counts.ops
        setup.close()
        if seen:
            (self._out / "steps").mkdir(parents=True, exist_ok=True)
            os.rename(written, self._out / "steps" / written.name)
            os.rmdir(self._out / "setup")

    def _stepped(self) -> None:
        if not self._mine():
            return
        if self._done >= self._steps:
            raise Enough()  # the script caught the first one
        self._done += 1
        last = self._done >= self._steps
        if self._setup is not None:
            self._end_setup()
            self._capture.skip()
            if not last:
                self._capture.start()
        else:
            if last:
                self._capture.stop()
            self._capture.step()
        self._last_hook()
        self._tell(self._done)
        if last:
            raise Enough()


def _keywords() -> dict:
    """The keyword arguments of the call whose hook this is: a hook of all
    modules is not told them. {} where torch calls hooks in another way."""
    frame: Any = sys._getframe(2)
    for frame in _outer(frame, 4):
        if frame.f_code.co_name in ("inner", "_call_impl"):
            found = frame.f_locals.get("kwargs")
            if isinstance(found, dict):
                return found
    return {}


def _outer(frame: Any, most: int) -> Iterator[Any]:
    while frame is not None and most > 0:
        yield frame
        frame, most = frame.f_back, most - 1
