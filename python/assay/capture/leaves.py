"""The arguments and results of a call, leaf by leaf, in the trace's names."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Callable, Iterator

import torch

Tensor = torch.Tensor
# Deeper containers than any call has; what refers to itself ends here.
MAX_DEPTH = 32
# Longer texts say their length instead of their end.
MAX_TEXT = 1000


def leaves(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(path, leaf) of nested containers: "input.0.k". A None is a leaf."""
    if depth < MAX_DEPTH:
        if isinstance(value, (list, tuple)) and not isinstance(
                value, torch.Size):
            for i, item in enumerate(value):
                yield from leaves(item, f"{path}.{i}", depth + 1)
            return
        if isinstance(value, dict):
            for key, item in value.items():
                yield from leaves(item, f"{path}.{key}", depth + 1)
            return
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                yield from leaves(getattr(value, field.name, None),
                                  f"{path}.{field.name}", depth + 1)
            return
    yield path, value


def arguments(args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    """Leaves of a call: positional by index, keywords by name."""
    for i, value in enumerate(args):
        if isinstance(value, Tensor):
            yield f"input.{i}", value
        else:
            yield from leaves(value, f"input.{i}")
    for key, value in kwargs.items():
        yield from leaves(value, f"input.{key}")


def results(value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves of what a call returned; several results count from 0."""
    if isinstance(value, Tensor):
        yield "output.0", value
    elif isinstance(value, (list, tuple)) and not isinstance(
            value, torch.Size):
        yield from leaves(value, "output")
    elif isinstance(value, dict) or dataclasses.is_dataclass(value):
        yield from leaves(value, "output")
    else:
        yield from leaves(value, "output.0")


def tensors_in(found: Iterator[tuple[str, Any]]) -> list[tuple[str, Tensor]]:
    """The leaves that are tensors."""
    return [(path, leaf) for path, leaf in found if isinstance(leaf, Tensor)]


def _plain(text: Callable[[Any], str], kind: str):
    return lambda value: (kind, text(value))


# The texts are those that the readers of other tools' dumps produce, so that
# traces of both pair without a word about them.
_SCALARS: dict[type, Callable[[Any], tuple[str, str]]] = {
    int: _plain(str, "int"),
    bool: _plain(str, "bool"),
    float: _plain(repr, "float"),
    complex: _plain(repr, "complex"),
    str: _plain(str, "str"),
    type(None): _plain(str, "NoneType"),
    torch.dtype: _plain(str, "torch.dtype"),
    torch.device: _plain(str, "torch.device"),
    torch.Size: _plain(lambda v: json.dumps(list(v)), "torch.Size"),
    slice: _plain(lambda v: json.dumps([v.start, v.stop, v.step],
                                       default=str), "slice"),
    type(...): _plain(lambda v: "...", "ellipsis"),
}


def described(value: Any) -> tuple[str, str]:
    """(type, text) of a leaf that is no tensor; never fails, never long.

    Of objects that nobody knows only the class: their repr may hold an
    address, and would differ from run to run.
    """
    known = _SCALARS.get(type(value))
    if known is None:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, (torch.memory_format, torch.layout)):
            return name, str(value)
        if callable(value) and hasattr(value, "__qualname__"):
            return name, str(value.__qualname__)
        return name, ""
    kind_name, text = known(value)
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}... ({len(text)} characters)"
    return kind_name, text
