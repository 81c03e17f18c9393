"""What of a call has to change where it runs elsewhere, or in other dtypes
than those it was recorded in."""

from __future__ import annotations

import re
from typing import Any, Callable

import torch

from assay.worker.api_call.arguments import Arguments
from assay.worker.api_call.precision import Precision

# Methods that move a tensor to the device of their name.
_MOVES = frozenset(("cuda", "ipu", "mps", "musa", "npu", "xpu"))
_DEVICE = re.compile(r"(cuda|ipu|mps|musa|npu|xpu)(:\d+)?\Z")
# "torch.cuda.HalfTensor", as Tensor.type() has it.
_TENSOR_TYPE = re.compile(r"torch\.(?:\w+\.)?(\w+)Tensor\Z")
_TYPES = {"Half": torch.float16, "BFloat16": torch.bfloat16,
          "Float": torch.float32, "Double": torch.float64,
          "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16,
          "Int": torch.int32, "Long": torch.int64, "Bool": torch.bool}

Prepared = "tuple[Callable[..., Any], list[Any], dict[str, Any]]"


def adjusted(function: Callable[..., Any], api: str, arguments: Arguments,
             device: torch.device, precision: Precision) -> Prepared:
    """Function, positional arguments and keywords to call it with."""
    name = api.rpartition(".")[2]
    args, keywords = arguments.positional, dict(arguments.keywords)
    if api.startswith("Tensor."):
        if name in _MOVES:
            return _moved, [args[0], device], {}
        function = _cast(function, name, precision)
    args = [_text(name, each, device, precision) for each in args]
    keywords = {key: _text(name, each, device, precision) if key in
                ("device", "dtype") else each
                for key, each in keywords.items()}
    if device.type == "cpu":  # memory is pinned for accelerators alone
        keywords.pop("pin_memory", None)
    recorded = arguments.recorded(args[0]) if args else None
    if precision.real is not None and recorded is not None and (
            recorded.is_floating_point):
        _name_limits(name, recorded, args, keywords)
    return function, args, keywords


def _moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    return tensor.to(device)


def _cast(function: Callable[..., Any], name: str,
          precision: Precision) -> Callable[..., Any]:
    instead = precision.function(name)
    return function if instead == name else getattr(torch.Tensor, instead)


def _text(name: str, value: Any, device: torch.device,
          precision: Precision) -> Any:
    """Devices and types of tensors that are written as texts."""
    if not isinstance(value, str):
        return value
    if _DEVICE.match(value):
        return device
    found = _TENSOR_TYPE.match(value)
    if name == "type" and found and found[1] in _TYPES:
        return precision.dtype(_TYPES[found[1]])
    return value


def _name_limits(name: str, recorded: torch.dtype, args: list[Any],
                 keywords: dict[str, Any]) -> None:
    """Defaults that a dtype decides are those of the recorded one."""
    if name in ("nan_to_num", "nan_to_num_"):
        limits = torch.finfo(recorded)
        _default(args, keywords, 2, "posinf", limits.max)
        _default(args, keywords, 3, "neginf", limits.min)
    elif name == "rms_norm":
        # Of what it computes in: float32 for all that is narrower.
        wide = recorded if recorded.itemsize > 4 else torch.float32
        _default(args, keywords, 3, "eps", torch.finfo(wide).eps)


def _default(args: list[Any], keywords: dict[str, Any], position: int,
             name: str, value: float) -> None:
    """Gives an argument its value where it has none or None."""
    if len(args) > position:
        if args[position] is None:
            args[position] = value
    elif keywords.get(name) is None:
        keywords[name] = value
