"""Two nested containers, walked together: the pairs of their leaves."""

from __future__ import annotations

import collections.abc
import dataclasses
import sys
from typing import Any, Iterator

# A side that has no such leaf.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()

_DEEPEST = 100


@dataclasses.dataclass(frozen=True)
class Unwalked:
    """A leaf for what was not looked into."""

    why: str


@dataclasses.dataclass(frozen=True)
class _Inside:
    """The items of a container under their keys, in order."""

    kind: str  # containers of different kinds have no items in common
    items: dict


def _inside(value: Any) -> _Inside | None:
    """None: `value` is a leaf."""
    if isinstance(value, collections.abc.Mapping):
        return _Inside("mapping", dict(value))
    if isinstance(value, (list, tuple)):
        return _Inside("sequence", dict(enumerate(value)))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.nn.Module):
        return _Inside("mapping", dict(value.state_dict()))
    if dataclasses.is_dataclass(value) and not isinstance(
            value, (type, Unwalked)):
        return _Inside("mapping", {field.name: getattr(value, field.name)
                                   for field in dataclasses.fields(value)})
    return None


def is_container(value: Any) -> bool:
    return _inside(value) is not None


def size_of(value: Any) -> int:
    """Items of a container."""
    inside = _inside(value)
    return len(inside.items) if inside else 0


def _named(parent: str, key: Any) -> str:
    if not isinstance(key, str):
        return f"{parent}[{key!r}]"
    return f"{parent}.{key}" if parent else key


def pairs(golden: Any, target: Any, name: str = "",
          depth: int = 0) -> Iterator[tuple[str, Any, Any]]:
    """(name, golden leaf, target leaf), in the golden's order, then what the
    target alone has. ABSENT stands for a leaf that a side lacks.

    Mappings pair by key, sequences by position; a module is its state dict, a
    dataclass its fields. Where one side has a container and the other has none
    or one of another kind, the two are one pair.
    """
    a, b = _inside(golden), _inside(target)
    if golden is ABSENT and b is not None and b.items:
        a = _Inside(b.kind, {})
    if target is ABSENT and a is not None and a.items:
        b = _Inside(a.kind, {})
    if a is None or b is None or a.kind != b.kind:
        yield name, golden, target
        return
    if depth == _DEEPEST:
        deep = Unwalked(f"nested deeper than {_DEEPEST} levels")
        yield name, deep, deep
        return
    for key in {**a.items, **b.items}:
        yield from pairs(a.items.get(key, ABSENT), b.items.get(key, ABSENT),
                         _named(name, key), depth + 1)
