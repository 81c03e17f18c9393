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
from assay.script import Enough

Module = torch.nn.Module


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


def script_watch(out: pathlib.Path, level: str, mode: str, steps: int,
                 tell: Callable[[int], None]) -> "ScriptWatch":
    """Captures `steps` steps into out/steps and what comes before into
    out/setup."""
    roots = Roots()
    setup = None
    capture = ScriptCapture(out / "steps", roots, level=level, mode=mode)
    if level == "mix":
        setup = ScriptCapture(out / "setup", level="api", mode=mode)
    session.reserve(ScriptCapture, (
        "assay determinism captures the whole script: take assay.capture "
        "out of it, or compare two runs of it with `assay compare`"))
    return ScriptWatch(capture, roots, steps, tell, setup=setup,
                       models=level != "api")


class ScriptWatch:
    """Has a script's calls looked at from the first call of a module on, and
    ends a step after each step of an optimizer, `steps` in all.

    capture: a ScriptCapture of `roots`, or what has its start, stop, step,
    close, skip, enter and running. setup: the capture of what comes before.
    models: whether it is told of modules. at_once: it is started before the
    first call of one. tell: called with the number of steps done.
    """

    def __init__(self, capture: Any, roots: Roots, steps: int,
                 tell: Callable[[int], None], *,
                 setup: Optional[ScriptCapture] = None,
                 models: bool = True, at_once: bool = False) -> None:
        self._capture, self._roots = capture, roots
        self._steps, self._tell = steps, tell
        self._setup, self._models = setup, models
        self._at_once = at_once or not models
        self._done = 0
        self._owner = os.getpid(), threading.get_ident()
        self._handles: list[Any] = []
        self._step_handle: Any = None

    def __enter__(self) -> "ScriptWatch":
        if self._models:
            self._handles.append(register_module_forward_pre_hook(
                self._called))
        if self._at_once:
            self._capture.start()
        if self._setup is not None:
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
            steps = self._capture.path
            steps.mkdir(parents=True, exist_ok=True)
            os.rename(written, steps / written.name)
            os.rmdir(setup.path)

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
