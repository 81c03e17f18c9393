"""The watch itself: hooks around the optimizer's step."""

from __future__ import annotations

import os
import resource
import shlex
import sys
import time
from typing import Any, Callable, Iterable

import torch

from assay.capture.modules import Models
from assay.capture.session import rank, world_size
from assay.watch import backward
from assay.watch.line import StepFigures
from assay.watch.log import Log, last_step, of_rank
from assay.watch.names import chosen_modules, named_parameters


class Watch:
    """Counts the optimizer's steps and logs every `every`-th.

    Steps count from 1. On the others nothing is done but to count them and
    their tokens. What is computed only reads: losses, gradients and weights
    are the same bits as without a watch.

    model        a module, or a list of them (pipeline stages)
    optimizer    anything with step(); hooks of torch's are used where it has
                 them, else its step is wrapped until close()
    every, path  which steps, and the file; with several ranks each has its
                 own, run.rank3.jsonl
    activations  globs of modules whose outputs are summarised
    loss         called without arguments on a watched step instead of taking
                 the sum of what backward() is called on
    scaler       a GradScaler, by whose scale the loss is divided
    tokens_per_step  else counted: the first integer tensor that each call of
                 the model gets in training
    updates      the norm of what a step changed, for which the parameters are
                 copied on watched steps
    step         steps done before, for an optimizer whose state does not say
    """

    def __init__(self, model: Models, optimizer: Any, *, every: int = 10,
                 path: str | os.PathLike = "run.jsonl",
                 activations: Iterable[str] = (),
                 loss: Callable[[], Any] | None = None, scaler: Any = None,
                 tokens_per_step: int | None = None, updates: bool = True,
                 step: int | None = None) -> None:
        if not callable(getattr(optimizer, "step", None)):
            raise TypeError(f"optimizer: {type(optimizer).__name__} has no "
                            "step()")
        if every < 1:
            raise ValueError(f"every: {every}, expected 1 or more")
        self.every, self.path = every, of_rank(path, rank(), world_size())
        if os.path.isdir(self.path):
            raise ValueError(f"path: {self.path} is a folder, expected the "
                             "file of the log")
        self._model, self._optimizer = model, optimizer
        self._chosen = chosen_modules(model, activations)
        self._loss_of, self._scaler = loss, scaler
        self._tokens_per_step, self._updates = tokens_per_step, updates
        self._step = step
        self._log: Log | None = None
        self._figures: StepFigures | None = None
        self._tokens = 0
        self._steps = 0  # since the line before
        self._since, self._spent = time.perf_counter(), 0.0
        self._handles: list[Any] = []
        self._step_handles: list[Any] = []
        self._hook()

    @property
    def step(self) -> int:
        """Steps that are done."""
        return self._step or 0

    def loss(self, value: Any) -> None:
        """The loss of the step to come, instead of what backward() sees."""
        self.log(loss=value)

    def log(self, **figures: Any) -> None:
        """Further numbers for the line of the step to come."""
        if "step" in figures:
            raise ValueError("step: the watch counts steps itself")
        if self._due():
            self._begun().user.update({
                name: value.detach().clone()
                if isinstance(value, torch.Tensor) else value
                for name, value in figures.items()})

    def close(self) -> None:
        """Removes every hook and closes the file."""
        for handle in [*self._handles, *self._step_handles]:
            handle.remove()
        self._handles, self._step_handles = [], []
        backward.ignore(self._on_backward)
        if self._log is not None:
            self._log.close()
        self._log = self._figures = None

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()

    def _hook(self) -> None:
        self._handles += _around_step(self._optimizer, self._before_step,
                                      self._after_step)
        if self._tokens_per_step is None:
            models = ([self._model] if isinstance(self._model, torch.nn.Module)
                      else self._model or [])
            for model in models:
                self._handles.append(model.register_forward_pre_hook(
                    self._count_tokens, with_kwargs=True))
        if self._loss_of is None:
            backward.listen(self._on_backward)
        if self._step is None:
            self._step = _steps_done(self._optimizer, self.path)
        self._prepare()

    def _due(self) -> bool:
        return (self.step + 1) % self.every == 0

    def _begun(self) -> StepFigures:
        if self._figures is None:
            self._figures = StepFigures()
        return self._figures

    def _prepare(self) -> None:
        """Modules have hooks only while a watched step is to come."""
        if self._due() and not self._step_handles:
            self._step_handles = [
                module.register_forward_hook(self._on_output(name))
                for name, module in self._chosen]

    def _on_output(self, name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            if module.training:
                start = time.perf_counter()
                self._begun().activation(name, output)
                self._spent += time.perf_counter() - start
        return hook

    def _on_backward(self, roots: list[torch.Tensor]) -> None:
        if self._due():
            self._begun().loss(roots)

    def _count_tokens(self, module: torch.nn.Module, args: tuple,
                      kwargs: dict) -> None:
        if module.training and torch.is_grad_enabled():
            self._tokens += _tokens_in(args, kwargs)

    def _before_step(self) -> None:
        if self._steps == 0 and self._log is None:
            self._learn_step()
        if not self._due():
            return
        start = time.perf_counter()
        figures = self._begun()
        figures.before(named_parameters(self._model), self._updates)
        if self._loss_of is not None:
            figures.user.setdefault("loss", self._loss_of())
        self._spent += time.perf_counter() - start

    def _learn_step(self) -> None:
        """A checkpoint may have been loaded after the watch began."""
        done = _steps_in_state(self._optimizer)
        if done is not None and done > self.step:
            self._step = done
            if not self._due():
                self._figures = None

    def _after_step(self) -> None:
        due = self._due()
        self._steps += 1
        if due and self._figures is not None:
            self._write()
        self._step = self.step + 1
        if due:
            for handle in self._step_handles:
                handle.remove()
            self._step_handles, self._figures = [], None
        self._prepare()

    def _write(self) -> None:
        start = time.perf_counter()
        figures = self._figures
        assert figures is not None
        numbers = figures.after(self._model, self._scale())
        now = time.perf_counter()  # the device has been waited for
        spent = self._spent + now - start
        line = {"step": self.step + 1, **numbers,
                **self._speed(now - self._since - spent, figures.waited),
                **_memory(self._model)}
        groups = getattr(self._optimizer, "param_groups", None)
        if groups and "lr" in groups[0]:
            line["lr"] = float(groups[0]["lr"])
        if self._log is None:
            self._log = Log(self.path, self._heading(), self.step)
        self._log.write({**line, "watch_seconds": spent})
        self._tokens = self._steps = 0
        self._since, self._spent = time.perf_counter(), 0.0

    def _speed(self, seconds: float, waited: float) -> dict[str, Any]:
        """Of a step, the mean since the line before, without the watch but
        for its waiting for the device, which had work to do."""
        seconds = (seconds + waited) / self._steps
        tokens = (self._tokens / self._steps if self._tokens_per_step is None
                  else self._tokens_per_step)
        figures: dict[str, Any] = {"seconds": seconds}
        if tokens > 0:
            figures["tokens"] = round(tokens)
            figures["tokens_per_second"] = tokens / seconds
        return figures

    def _scale(self) -> float:
        return float(self._scaler.get_scale()) if self._scaler else 1.0

    def _heading(self) -> dict[str, Any]:
        parameters = [p for _, p in named_parameters(self._model)]
        return {"torch": torch.__version__,
                "device": parameters[0].device.type if parameters else "cpu",
                "world": world_size(), "rank": rank(),
                "parameters": sum(p.numel() for p in parameters),
                "every": self.every, "command": shlex.join(sys.argv)}


class _Wrapped:
    """The step of an optimizer without hooks, wrapped until remove()."""

    def __init__(self, optimizer: Any, before: Callable[[], None],
                 after: Callable[[], None]) -> None:
        self._optimizer, plain = optimizer, optimizer.step

        def step(*args: Any, **kwargs: Any) -> Any:
            before()
            result = plain(*args, **kwargs)
            after()
            return result

        self._step = step
        optimizer.step = step

    def remove(self) -> None:
        if self._optimizer.__dict__.get("step") is self._step:
            del self._optimizer.step


def _around_step(optimizer: Any, before: Callable[[], None],
                 after: Callable[[], None]) -> list[Any]:
    if hasattr(optimizer, "register_step_post_hook"):
        return [
            optimizer.register_step_pre_hook(lambda o, args, kw: before()),
            optimizer.register_step_post_hook(lambda o, args, kw: after())]
    return [_Wrapped(optimizer, before, after)]


def _steps_in_state(optimizer: Any) -> int | None:
    """Of optimizers that count, as Adam does; None of the others."""
    state = getattr(optimizer, "state", None) or {}
    try:
        steps = [entry["step"] for entry in state.values() if "step" in entry]
    except (AttributeError, TypeError):
        return None
    return int(float(steps[0])) if steps else None


def _steps_done(optimizer: Any, path: Any) -> int:
    """An optimizer with a state that does not count has been resumed, too:
    it goes on behind the last step of the file."""
    done = _steps_in_state(optimizer)
    if done is not None:
        return done
    return last_step(path) if getattr(optimizer, "state", None) else 0


def _tokens_in(args: tuple, kwargs: dict) -> int:
    values = [kwargs.get("input_ids"), *args, *kwargs.values()]
    for value in values:
        if (isinstance(value, torch.Tensor) and value.dim() > 0 and
                value.dtype in (torch.int64, torch.int32)):
            return value.numel()
    return 0


def _memory(model: Models) -> dict[str, int]:
    """Peaks in bytes: of the process, and of its device where it has one."""
    unit = 1 if sys.platform == "darwin" else 1024
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = {"peak_rss_bytes": usage.ru_maxrss * unit}
    for _, parameter in named_parameters(model)[:1]:
        device = getattr(torch, parameter.device.type, None)
        peak = getattr(device, "max_memory_allocated", None)
        if peak is not None and parameter.device.type != "cpu":
            found["device_peak_bytes"] = int(peak(parameter.device))
    return found
