"""Modules: their calls, their parameters and the parameters' gradients."""

from __future__ import annotations

from typing import Any, Iterable, Union

import torch

from assay.capture.calls import Call
from assay.capture.recorder import Recorder

Module = torch.nn.Module
Models = Union[Module, Iterable[Module], None]


def named_modules(models: Models) -> list[tuple[str, Module]]:
    """Every module under its qualified name; several models are numbered."""
    if models is None:
        return []
    if isinstance(models, Module):
        return list(models.named_modules())
    found = []
    for i, model in enumerate(models):
        if not isinstance(model, Module):
            raise TypeError(f"model: {type(model).__name__}, expected a "
                            "torch.nn.Module or a list of them")
        found.extend((f"{i}.{name}" if name else str(i), module)
                     for name, module in model.named_modules())
    return found


class ModuleHooks:
    """Hooks on every module of the models, until remove()."""

    def __init__(self, recorder: Recorder, models: Models,
                 calls: bool) -> None:
        self.recorder = recorder
        self._handles: list[Any] = []
        self._gradient_ops: dict[tuple[str, int], int] = {}
        self._contributions: dict[int, int] = {}
        seen: set[int] = set()
        for name, module in named_modules(models):
            stem = ".".join(filter(None, ("Module", name,
                                          type(module).__name__)))
            if calls:
                self._watch_calls(stem, module)
            if recorder.options.backward:
                self._watch_parameters(stem, module, seen)

    def _watch_calls(self, stem: str, module: Module) -> None:
        self._handles.append(module.register_forward_pre_hook(
            lambda m, args, kwargs: self._before(stem, m, args, kwargs),
            with_kwargs=True))
        self._handles.append(module.register_forward_hook(
            lambda m, args, kwargs, out: self._after(stem, out),
            with_kwargs=True, always_call=True))

    def _before(self, stem: str, module: Module, args: tuple,
                kwargs: dict) -> None:
        recorder = self.recorder
        if not recorder.alive:
            return
        number = recorder.next_call(stem)
        call = Call(recorder, "Module", stem[len("Module."):], stem,
                    f".{number}", number)
        with recorder.guarded():
            call.begin(args, kwargs)
            for name, parameter in module.named_parameters(recurse=False):
                if call.op >= 0:
                    recorder.tensor(call.op, "parameter",
                                    f"parameters.{name}", parameter)
        recorder.state.calls.append(call)

    def _after(self, stem: str, result: Any) -> None:
        calls = self.recorder.state.calls
        if not calls or calls[-1].stem != stem:
            return  # it was entered before the capture began
        call = calls.pop()
        with self.recorder.guarded():
            if self.recorder.alive:
                call.end(result)

    def _watch_parameters(self, stem: str, module: Module,
                          seen: set[int]) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            self._handles.append(parameter.register_hook(
                lambda gradient, stem=stem, name=name, key=id(parameter):
                self._gradient(stem, name, key, gradient)))

    def _gradient(self, stem: str, name: str, key: int,
                  gradient: torch.Tensor) -> None:
        """The gradient of one backward pass, before it is added to .grad."""
        recorder = self.recorder
        if not recorder.alive:
            return
        with recorder.guarded():
            number = self._contributions.get(key, 0)
            self._contributions[key] = number + 1
            op = self._gradient_ops.get((stem, number))
            if op is None:
                op = recorder.begin(
                    f"{stem}.parameters_grad.{number}",
                    stem[len("Module."):], "Module", number,
                    "parameters_grad", parent=-1, stack=False)
                self._gradient_ops[stem, number] = op
            if op >= 0:
                recorder.tensor(op, "gradient", name, gradient)

    def remove(self) -> None:
        """Takes every hook off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
