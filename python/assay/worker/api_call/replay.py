"""A call of a trace, computed again."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, ContextManager

import torch

from assay.worker.api_call import fused, precision
from assay.worker.api_call.adjust import adjusted
from assay.worker.api_call.arguments import Arguments, same_bits
from assay.worker.api_call.functions import resolve
from assay.worker.api_call.gradients import SavedOutputs, backward
from assay.worker.api_call.precision import Precision
from assay.worker.api_call.results import Answer, leaves_of
from assay.worker.api_call.settings import torch_own
from assay.worker.call import Call, Refused, Result, Unsupported

Tensor = torch.Tensor
MAX_RUNS = 1000


@dataclasses.dataclass(frozen=True)
class Request:
    """The parameters of a case."""

    api: str
    arguments: dict[str, Any]
    precision: str = "given"
    backward: bool = False
    gradients: tuple[str, ...] = ()
    runs: int = 1
    autocast: str = ""

    @classmethod
    def read(cls, parameters: dict[str, Any]) -> Request:
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(parameters) - known)
        if unknown:
            raise Unsupported(f"parameter {unknown[0]} is not known here")
        try:
            request = cls(**parameters)
        except TypeError as error:
            raise Refused(str(error)) from None
        request.check()
        return request

    def check(self) -> None:
        for name, kind in (("api", str), ("arguments", dict)):
            if not isinstance(getattr(self, name), kind):
                raise Refused(f"{name}: expected a {kind.__name__}")
        if self.precision not in ("given", "float64"):
            raise Refused(f"precision: {self.precision!r}, expected given or "
                          "float64")
        if type(self.runs) is not int or not 1 <= self.runs <= MAX_RUNS:
            raise Refused(f"runs: {self.runs!r}, expected 1 to {MAX_RUNS}")
        if not isinstance(self.autocast, str) or self.autocast and (
                not isinstance(vars(torch).get(self.autocast), torch.dtype)):
            raise Refused(f"autocast: {self.autocast!r}, expected a dtype")

    def given_gradients(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """By the name of their output."""
        if not self.backward:
            return {}
        for name in self.gradients:
            if f"gradient.{name}" not in inputs:
                raise Refused(f"gradients: the inputs have no gradient.{name}")
        return {name: inputs[f"gradient.{name}"] for name in self.gradients}


def run(call: Call) -> Result:
    """Answers a case of the module `api_call`."""
    request = Request.read(call.parameters)
    function = fused.golden(request.api) if (
        request.precision == "float64") else None
    if function is None:
        function = resolve(request.api)
    wanted = precision.asked(request.precision, request.api.split(".")[1],
                             _names_dtype(request.arguments))
    try:
        answer = _runs(request, call, function, wanted)
    except (Unsupported, Refused, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001: operators raise what they like
        if wanted is not precision.FLOAT64:
            raise
        answer = _in_float32(request, call, function, error)
    if request.precision == "float64" and wanted is precision.GIVEN:
        answer.contract["precision"] = "given"
    return Result(answer.tensors, answer.contract)


def _names_dtype(arguments: dict[str, Any]) -> bool:
    return any(argument.get("type") == "torch.dtype"
               for argument in arguments.values()
               if isinstance(argument, dict))


def _in_float32(request: Request, call: Call, function: Callable[..., Any],
                error: Exception) -> Answer:
    """Of an operator that has no float64 here; `error` if that was not it."""
    try:
        answer = _runs(request, call, function, precision.FLOAT32)
    except Exception:  # noqa: BLE001: the first error says more
        raise error from None
    answer.contract["precision"] = "float32"
    return answer


def _runs(request: Request, call: Call, function: Callable[..., Any],
          wanted: Precision) -> Answer:
    answer = _once(request, call, function, wanted)
    others: dict[str, Tensor] = {}
    differ: set[str] = set()
    for _ in range(request.runs - 1):
        again = _once(request, call, function, wanted)
        for name in answer.different(again, same_bits) - differ:
            differ.add(name)
            if name in again.tensors and name in answer.tensors:
                others[name] = again.tensors[name]
    if differ:
        answer.contract["repeats"] = dict.fromkeys(sorted(differ), False)
        answer.add_runs(others)
    return answer


def _once(request: Request, call: Call, function: Callable[..., Any],
          wanted: Precision) -> Answer:
    arguments = Arguments(request.arguments, request.api, call.inputs,
                          call.device, wanted, request.backward)
    function, args, keywords = adjusted(function, request.api, arguments,
                                        call.device, wanted)
    answer = Answer()
    given = request.given_gradients(call.inputs)
    saved = SavedOutputs(given if wanted.real is not None else {})
    with torch_own(wanted.real):
        torch.manual_seed(call.seed)
        with _mode(request, call.device, wanted), saved:
            result = function(*args, **keywords)
            _synchronize(call.device)  # of copies that do not block
        leaves = list(leaves_of(result, args))
        outputs = {name: leaf for name, leaf in leaves
                   if isinstance(leaf, Tensor)}
        saved.know(outputs)
        _put_results(answer, leaves, arguments)
        if request.backward:
            backward(arguments, outputs, given, answer)
    return answer


def _synchronize(device: torch.device) -> None:
    backend = getattr(torch, device.type, None)
    if device.type != "cpu" and hasattr(backend, "synchronize"):
        backend.synchronize()


def _put_results(answer: Answer, leaves: list[tuple[str, Any]],
                 arguments: Arguments) -> None:
    for name, leaf in leaves:
        if isinstance(leaf, Tensor):
            answer.put(name, leaf)
        else:
            answer.put_value(name, leaf)
    for name, each in arguments.inputs.items():
        if each.written():
            answer.put(f"after.{name}", each.passed)


@contextlib.contextmanager
def _mode(request: Request, device: torch.device, wanted: Precision):
    """Grad mode and autocast as the call was recorded."""
    with torch.set_grad_enabled(request.backward):
        with _autocast(request, device, wanted):
            yield


def _autocast(request: Request, device: torch.device,
              wanted: Precision) -> ContextManager[Any]:
    if not request.autocast or wanted.real is not None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, getattr(torch, request.autocast))
