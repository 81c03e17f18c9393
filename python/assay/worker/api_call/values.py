"""Values of a trace, from their words: the inverse of
assay.capture.leaves.described(), and of what msprobe's dumps say."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Optional

import torch

from assay.worker.call import Unsupported

# How described() ends what it cut.
_CUT = re.compile(r"\.\.\. \(\d+ characters, SHA-256 [0-9a-f]+\.\.\.\)\Z")
_DEVICE = re.compile(r"[a-z]+(:\d+)?\Z")
_RANGE = re.compile(r"range\((-?\d+), (-?\d+)(?:, (-?\d+))?\)\Z")


def _bool(text: str) -> bool:
    return {"True": True, "False": False}[text]


def _integer(text: str) -> int:
    digits = text.lstrip("-")
    return int(text, 16 if digits.startswith("0x") else 10)


def _none(text: str) -> None:
    return {"None": None}[text]


def _ellipsis(text: str) -> Any:
    return {"...": ...}[text]


def _empty(text: str) -> Any:
    """Containers with items have those as leaves of their own."""
    return {"[]": list, "{}": dict}[text]()


def _integers(text: str) -> list[Optional[int]]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(
            each is None or type(each) is int for each in found):
        raise ValueError
    return found


def _size(text: str) -> torch.Size:
    return torch.Size(_integers(text))


def _slice(text: str) -> slice:
    start, stop, step = _integers(text)
    return slice(start, stop, step)


def _range(text: str) -> range:
    found = _RANGE.match(text)
    return range(*(int(part) for part in found.groups() if part is not None))


def _member(kind: type) -> Callable[[str], Any]:
    """Of torch, by name: "torch.bfloat16", "channels_last"."""

    def read(text: str) -> Any:
        found = vars(torch).get(text.rpartition("torch.")[2])
        if not isinstance(found, kind):
            raise ValueError
        return found

    return read


def _numpy_scalar(text: str) -> Any:
    for read in (_bool, _integer, float, complex):
        try:
            return read(text)
        except (KeyError, ValueError):
            continue
    raise ValueError


class Device(str):
    """A device of the recorded run, which this torch need not know."""


class Seed(int):
    """Of a generator, which has to be made on the worker's device."""


def _seed(text: str) -> Seed:
    return Seed(re.fullmatch(r"seed (\d+)", text)[1])


def _device(text: str) -> Device:
    if not _DEVICE.match(text):
        raise ValueError
    return Device(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "int": _integer,
    "bool": _bool,
    "float": float,
    "complex": complex,
    "str": str,
    "NoneType": _none,
    "ellipsis": _ellipsis,
    "list": _empty,
    "dict": _empty,
    "slice": _slice,
    "range": _range,
    "builtins.range": _range,
    "torch.Size": _size,
    "torch.dtype": _member(torch.dtype),
    "torch.layout": _member(torch.layout),
    "torch.memory_format": _member(torch.memory_format),
    "torch.qscheme": _member(torch.qscheme),
    "torch.device": _device,
    "torch.Generator": _seed,
    "torch._C.Generator": _seed,
}


def read(kind: str, text: Optional[str]) -> Any:
    """The value. Raises Unsupported that says what cannot be made of it."""
    reader = _READERS.get(kind)
    if reader is None and kind.startswith("numpy."):
        reader = _numpy_scalar
    if reader is None:
        raise Unsupported(f"no value of type {kind} can be made")
    if not isinstance(text, str):
        raise Unsupported(f"the trace has no value of this {kind}")
    if _CUT.search(text):
        raise Unsupported(f"the trace has the beginning of this {kind} alone")
    try:
        return reader(text)
    except (AttributeError, KeyError, OverflowError, RuntimeError, TypeError,
            ValueError):
        shown = text if len(text) < 80 else text[:77] + "..."
        raise Unsupported(f"{shown!r} is no {kind}") from None
