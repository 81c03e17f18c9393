"""The optimizer's step: what it is given and what it leaves behind.

torch.optim has hooks for every optimizer (since 2.0); GradScaler has none, so
its two methods are replaced while a capture runs.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterator

import torch

from assay.capture.calls import Call
from assay.capture.leaves import leaves
from assay.capture.modules import ModuleHooks, Models, numbered
from assay.capture.guards import THREAD
from assay.capture.recorder import Recorder

Tensor = torch.Tensor


class OptimizerHooks:
    """Records every optimizer's step until remove().

    Optimizer.AdamW.0.forward: gradients (`input.grad.layers.0.weight`) and
    the options of each group as inputs, parameters and state before the step
    as parameters, both after it as outputs. Parameters of the models have
    their qualified names, others their place in the groups.
    """

    def __init__(self, recorder: Recorder, models: Models,
                 modules: ModuleHooks) -> None:
        self.recorder, self.modules = recorder, modules
        self._names = {
            id(parameter): name for prefix, model in numbered(models)
            for name, parameter in model.named_parameters(prefix=prefix)}
        self._steps: list[tuple[Any, Call]] = []
        self._handles: list[Any] = []
        hooks = sys.modules[torch.optim.Optimizer.__module__]
        for register, hook in (
                ("register_optimizer_step_pre_hook", self._before),
                ("register_optimizer_step_post_hook", self._after)):
            if hasattr(hooks, register):
                self._handles.append(getattr(hooks, register)(hook))

    def _before(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        recorder = self.recorder
        if THREAD.busy or not recorder.alive:
            return
        with recorder.guarded(f"Optimizer.{type(optimizer).__name__}"):
            # Clipping and unscaling by foreign kernels count no versions.
            recorder.forget()
            self.modules.main_gradients()
            call = begun(recorder, type(optimizer).__name__,
                         sys._getframe(1))
            self._steps.append((optimizer, call))
            if call.op >= 0:
                self._record_before(optimizer, call.op)

    def _record_before(self, optimizer: Any, op: int) -> None:
        recorder = self.recorder
        for i, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if key != "params":
                    recorder.leaves(op, "input",
                                    leaves(value, f"input.group{i}.{key}"))
        for name, parameter in self._parameters(optimizer):
            if parameter.grad is not None:
                recorder.tensor(op, "input", f"input.grad.{name}",
                                parameter.grad)
        self._record_state(optimizer, op, "parameter", "parameters")

    def _record_state(self, optimizer: Any, op: int, role: str,
                      path: str) -> None:
        recorder = self.recorder
        for name, parameter in self._parameters(optimizer):
            recorder.tensor(op, role, f"{path}.{name}", parameter)
            state = optimizer.state.get(parameter)
            if isinstance(state, dict):
                for key, value in state.items():
                    recorder.leaves(op, role, leaves(
                        value, f"{path}.state.{key}.{name}"))

    def _parameters(self, optimizer: Any) -> Iterator[tuple[str, Tensor]]:
        for i, group in enumerate(optimizer.param_groups):
            for j, parameter in enumerate(group["params"]):
                yield (self._names.get(id(parameter), f"group{i}.{j}"),
                       parameter)

    def _after(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        recorder = self.recorder
        if not any(one is optimizer for one, _ in self._steps):
            return  # it was entered before the capture began
        while True:  # steps inside that raised an error end with this one
            other, call = self._steps.pop()
            ended(recorder, call)
            if other is optimizer:
                break
        with recorder.guarded(call):
            if call.op >= 0 and recorder.alive:
                if not _counts_versions(optimizer):
                    recorder.forget()
                self._record_state(optimizer, call.op, "output", "output")
                recorder.checkpoint(call.op)

    def remove(self) -> None:
        """Sees no more steps."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        with self.recorder.guarded("the end of a step"):
            for _, call in self._steps:  # it raised an error
                ended(self.recorder, call)
            self._steps.clear()
            if self.recorder.alive:
                self.modules.main_gradients()


def begun(recorder: Recorder, api: str, frame: Any) -> Call:
    """A call that encloses what this thread does until ended(), or until
    `frame` is left."""
    number = recorder.next_call(f"Optimizer.{api}")
    call = Call(recorder, "Optimizer", api, f"Optimizer.{api}.{number}", "",
                number)
    call.op = recorder.begin(call.name("forward"), api, "Optimizer", number,
                             "forward", parent=recorder.enclosing_op())
    call.frames = (frame,)
    recorder.state.calls.append(call)
    return call


def ended(recorder: Recorder, call: Call) -> None:
    """The call, and whatever in it was not ended, is over."""
    calls = recorder.state.calls
    if call in calls:
        for inner in calls[calls.index(call):]:
            inner.frames, inner.handled = (), None
        del calls[calls.index(call):]


def _counts_versions(optimizer: Any) -> bool:
    """torch's own optimizers write by operators of torch."""
    return type(optimizer).__module__.startswith("torch.optim")


class ScalerHooks:
    """Records GradScaler.step() and update(): scale, found_inf."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._inside: set[tuple[int, str]] = set()
        self._replaced: list[tuple[type, str, Callable]] = []
        for kind in _scalers():
            for name in ("step", "update"):
                if name in vars(kind):
                    self._replace(kind, name)

    def _replace(self, kind: type, name: str) -> None:
        method = vars(kind)[name]

        @functools.wraps(method)
        def replacement(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            key = id(scaler), name
            if (key in self._inside or THREAD.busy or not scaler.is_enabled()
                    or not self.recorder.alive):
                return method(scaler, *args, **kwargs)
            self._inside.add(key)
            call = None
            with self.recorder.guarded(f"GradScaler.{name}"):
                call = begun(self.recorder, f"GradScaler.{name}",
                             sys._getframe())
                self._record(call.op, "input", scaler)
            try:
                return method(scaler, *args, **kwargs)
            finally:
                self._inside.discard(key)
                with self.recorder.guarded(call):
                    if call is not None:
                        ended(self.recorder, call)
                        self._found(call.op, scaler, args)
                        self._record(call.op, "output", scaler)

        setattr(kind, name, replacement)
        self._replaced.append((kind, name, method))

    def _record(self, op: int, role: str, scaler: Any) -> None:
        for name in ("_scale", "_growth_tracker"):
            value = getattr(scaler, name, None)
            if op >= 0 and isinstance(value, Tensor):
                self.recorder.tensor(op, role, role + name.replace("_", ".", 1),
                                     value)

    def _found(self, op: int, scaler: Any, args: tuple) -> None:
        """Whether the gradients of the step's optimizer had a NaN or Inf."""
        states = getattr(scaler, "_per_optimizer_states", {})
        if op < 0 or not args or id(args[0]) not in states:
            return
        found = states[id(args[0])].get("found_inf_per_device", {})
        for i, value in enumerate(found.values()):
            self.recorder.tensor(op, "output", f"output.found_inf.{i}", value)

    def remove(self) -> None:
        """Puts the methods back."""
        for kind, name, method in reversed(self._replaced):
            setattr(kind, name, method)
        self._replaced.clear()


def _scalers() -> list[type]:
    """Every class of gradient scalers there is."""
    found: list[type] = []
    waiting = [getattr(getattr(torch, "amp", None), "GradScaler", None),
               getattr(torch.cuda.amp, "GradScaler", None)]
    while waiting:
        kind = waiting.pop()
        if kind is not None and kind not in found:
            found.append(kind)
            waiting.extend(kind.__subclasses__())
    return found
