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
    if (name == "rms_norm" and args and precision.real is not None
            and arguments.recorded(args[0]) != torch.float64):
        _name_epsilon(args, keywords)
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


def _name_epsilon(args: list[Any], keywords: dict[str, Any]) -> None:
    """rms_norm without an eps takes the smallest step of the dtype that it
    computes in, which is float32 for all narrower ones."""
    if len(args) > 3 and args[3] is None:
        args[3] = torch.finfo(torch.float32).eps
    elif len(args) <= 3 and keywords.get("eps") is None:
        keywords["eps"] = torch.finfo(torch.float32).eps
