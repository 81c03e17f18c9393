"""Captures from the user's side: start, step, stop."""

from __future__ import annotations

import atexit
import itertools
import os
import pathlib
import weakref
from typing import Any, Optional, Union

import torch

from assay import _core
from assay.capture import guards, mode_stack
from assay.capture.aten import AtenMode
from assay.capture.collectives import Collectives
from assay.capture.faults import warn
from assay.capture.functions import FunctionMode
from assay.capture.modules import ModuleHooks, Models, numbered
from assay.capture.optimizer import OptimizerHooks, ScalerHooks
from assay.capture.options import Options
from assay.capture.ranks import folder, rank, settle, world_size
from assay.capture.recorder import Recorder

Path = Union[str, "os.PathLike[str]"]

_active: list["Capture"] = []
_numbers = itertools.count()
# Those whose trace is not ended: a loop that forgets close() loses nothing.
_unfinished: "weakref.WeakSet[Capture]" = weakref.WeakSet()
# The only kind of capture that may be made now, and what others are told.
_reserved: Optional[tuple[type, str]] = None


def reserve(kind: type, why: str) -> None:
    """From now on this process makes no captures but of this kind."""
    global _reserved
    _reserved = (kind, why)


class Capture:
    """Captures steps of a training loop.

        c = assay.Capture("run", model, level="mix", mode="statistics")
        for batch in loader:
            c.start()
            ... forward, backward, optimizer ...
            c.stop()
            c.step()

    start() and stop() bound what is seen of a step; step() ends it: its trace
    is complete in path/step{N}/rank{R}. As a context manager it is started on
    entry and stopped on exit, also by an exception. ValueError names an
    argument that cannot be meant; a folder that holds a trace already is an
    error: nothing is written over.

    model: a module or a list of them; without one only functions are seen.
    level: "module", "api" (functions), "mix" (both) or "aten".
    mode: "statistics", "tensor", "hash", or "overflow".
    ranks, steps: numbers, [0, 2], "4-6"; others are not captured.
    include, exclude: globs over operator names ("Module.layers.3.*").
    slices: {dimension: slice} of tensors that are kept in part.
    stacks, backward: whether call stacks and gradients are recorded.
    stop_after: with "overflow", at which birth of a NaN or Inf to stop.
    queue_bytes: how much may wait to be written before training waits.
    """

    def __init__(self, path: Path, model: Models = None, *, first_step: int = 0,
                 **options: Any) -> None:
        if _reserved is not None and not isinstance(self, _reserved[0]):
            raise RuntimeError(_reserved[1])
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path: {type(path).__name__}, expected the "
                            "folder that the trace goes to")
        self.path = pathlib.Path(path)
        self.options = Options.checked(**options)
        if model is None and self.options.level == "module":
            raise ValueError("model: level 'module' needs one")
        if not (model is None or isinstance(model, torch.nn.Module)
                or hasattr(model, "numbered")):
            # A generator can be read once.
            model = [module for _, module in numbered(model)]
        self._model = model
        self._faults: list[str] = []
        self._told = False
        self._key = f"assay{next(_numbers)}"
        self._process = 0  # that called start() first
        self._step = first_step
        self._recorder: Optional[Recorder] = None
        self._mode: Optional[FunctionMode] = None
        self._hooks: Optional[ModuleHooks] = None
        self._others: list[Any] = []
        self._started = False
        self._births = 0  # of NaN and Inf, up to the last step that ended

    @property
    def current_step(self) -> int:
        """The number of the step that is captured now, or next."""
        return self._step

    @property
    def directory(self) -> pathlib.Path:
        """Where this rank's trace of the current step goes."""
        return self.path / f"step{self._step}" / folder()

    @property
    def running(self) -> bool:
        """Whether calls are seen now: between start() and stop(), in a step
        and rank that were chosen."""
        return self._hooks is not None

    @property
    def faults(self) -> list[str]:
        """What could not be recorded, call by call, and why; as far as it is
        known, the trace has a row for each that never matches."""
        recorder = self._recorder
        return self._faults + (recorder.faults.texts if recorder else [])

    @property
    def counts(self) -> _core.CaptureCounts:
        """What was written of the current step."""
        return (_core.CaptureCounts() if self._recorder is None
                else self._recorder.writer.counts)

    def start(self) -> "Capture":
        """Begins to see calls; does nothing in steps and ranks not chosen."""
        if self._started:
            raise RuntimeError("the capture is running already")
        self._started = True
        if not self._chosen():
            return self
        if self._recorder is None:
            self._started = False  # where the trace cannot be begun
            self._recorder = self._new_recorder()
            self._started = True
            _unfinished.add(self)
        recorder = self._recorder
        recorder.begin_here()
        with torch._C.DisableTorchFunction():
            self._hooks = ModuleHooks(recorder, self._model,
                                      self.options.modules, self._key)
        self._tell_of(self._hooks.unseen)
        if self._model is None and self.options.level == "mix":
            self._tell("no model was given: functions are seen, modules are "
                       "not (level 'api' is that without this warning)")
        for make in (lambda: Collectives(recorder),
                     lambda: OptimizerHooks(recorder, self._model,
                                            self._hooks),
                     lambda: ScalerHooks(recorder)):
            with recorder.guarded("start()"):
                self._others.append(make())
        if self.options.level == "aten":
            self._others.append(AtenMode(recorder))
            self._others[-1].__enter__()
        if self.options.functions:
            self._mode = FunctionMode(recorder)
            mode_stack.enter(self._mode)
        _active.append(self)
        return self

    def stop(self) -> None:
        """Stops to see calls and puts everything back as it was."""
        self._started = False
        if not self.running:
            return
        _active.remove(self)
        if self._mode is not None:
            self._mode.on = False
            mode_stack.leave(self._mode)
        while self._others:
            self._others.pop().remove()
        if self._hooks is not None:
            self._hooks.remove()
        self._mode = self._hooks = None

    def step(self) -> None:
        """Ends the step's trace; a running capture goes on with the next.

        Raises assay._core.Error where the trace could not be written.
        """
        again = self._started
        self.stop()
        try:
            self._close()
        finally:
            self._step += 1
        if again:
            self.start()

    def skip(self) -> None:
        """The next step gets the number after this one, which is not
        captured."""
        self.close()
        self._step += 1

    def close(self) -> None:
        """Stops, and ends the trace of the current step."""
        self.stop()
        self._close()

    def enter(self, name: str, module: torch.nn.Module, args: tuple,
              kwargs: dict, frame: Any) -> None:
        """As ModuleHooks.enter()."""
        if self._hooks is not None:
            self._hooks.enter(name, module, args, kwargs, frame)

    def save(self, value: Any, name: str) -> None:
        """Records a value of interest under a name of the user's."""
        if self._recorder is not None and self.running:
            self._recorder.save(value, name)

    def __enter__(self) -> "Capture":
        return self.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if error is not None:
                self._end_early(f"it was left by {type(error).__name__}")
            self.close()
        except Exception as problem:
            if error is None:
                raise
            warn(f"{problem}")  # what the user sees is the first error

    def _new_recorder(self) -> Recorder:
        arguments = (str(self.directory), self.options, self._step, rank(),
                     world_size(), self._device())
        if self.options.mode != "overflow":
            return Recorder(*arguments)
        from assay.capture.overflow import OverflowRecorder
        return OverflowRecorder(*arguments, before=self._births)

    def _end_early(self, why: str) -> None:
        """Two steps that were left at the same place are no match."""
        if self._recorder is not None and self.running:
            self._recorder.left(f"the step is not complete: {why}")

    def _chosen(self) -> bool:
        steps, ranks = self.options.steps, self.options.ranks
        self._process = self._process or os.getpid()
        return (self._process == os.getpid()  # not one forked from it
                and (steps is None or self._step in steps)
                and (ranks is None or rank() in ranks))

    def _device(self) -> str:
        models = self._model
        if isinstance(models, torch.nn.Module):
            models = [models]
        with torch._C.DisableTorchFunction():
            for one in models or []:
                for parameter in one.parameters():
                    return parameter.device.type
        return "cpu"

    def _tell_of(self, unseen: list[str]) -> None:
        if not unseen:
            return
        some = ", ".join(unseen[:3]) + (", ..." if unseen[3:] else "")
        self._tell(f"torch.compile or TorchScript runs {some}: modules in "
                   "there are not seen, and functions as far as the compiled "
                   "code calls them")

    def _tell(self, text: str) -> None:
        """Warns, of one thing a capture."""
        if not self._told:
            self._told = True
            warn(text)

    def _close(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        _unfinished.discard(self)
        self._births = getattr(recorder, "births", 0)
        try:
            recorder.close()
            if self._process == os.getpid():
                settle(pathlib.Path(recorder.directory))
        finally:
            self._faults += recorder.faults.texts
            if recorder.faults.count > 1:
                warn(f"{recorder.faults.count} calls of step {self._step} are "
                     "not in the trace; Capture.faults has them")


def capture(path: Path, model: Models = None, **options: Any) -> Capture:
    """A Capture for a with statement; its arguments are Capture's."""
    return Capture(path, model, **options)


def save(value: Any, name: str) -> None:
    """Records a value in every capture that is running; else does nothing."""
    for one in _active:
        one.save(value, name)


@atexit.register
def _close_all() -> None:
    for one in list(_unfinished):
        try:
            if one.running:
                one._end_early("the program ended in it")
            one.close()
        except Exception as problem:
            warn(f"{problem}")


guards.never_compiled("assay.capture")
