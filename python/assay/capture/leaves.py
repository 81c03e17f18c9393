"""The arguments and results of a call, leaf by leaf, in the trace's names."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import json
import pathlib
from typing import Any, Callable, Iterable, Iterator, Optional

import torch

Tensor = torch.Tensor
# Deeper containers than any call has.
MAX_DEPTH = 32
# More leaves than any call has whose leaves mean something.
MAX_LEAVES = 10_000
# Longer texts say their length and a hash instead of their end.
MAX_TEXT = 1000


_DICTS = (dict, collections.UserDict)
_SIZED = (list, tuple, collections.deque, *_DICTS)


class Cut:
    """Stands where leaves are not listed; the trace says why."""

    def __init__(self, why: str) -> None:
        self.why = why


def utf8(text: str) -> str:
    """The text without lone surrogates, which no file of ours can hold."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def leaves(value: Any, path: str,
           inside: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """(path, leaf) of nested containers: "input.0.k". A None is a leaf, and
    so is an empty container: f(()) and f() are two calls."""
    items = _items(value)
    if items is None:
        yield path, value
    elif isinstance(value, _SIZED) and not value:
        yield path, {} if isinstance(value, _DICTS) else []
    elif id(value) in inside:
        yield path, Cut("the container holds itself")
    elif len(inside) == MAX_DEPTH:
        yield path, Cut(f"containers are nested more than {MAX_DEPTH} deep")
    else:
        inside = (*inside, id(value))
        for key, item in items:
            yield from leaves(item, f"{path}.{key}", inside)


def _items(value: Any) -> Optional[Iterable[tuple[Any, Any]]]:
    """Names and items of a container; None of what is a leaf."""
    if isinstance(value, Tensor):
        return None
    if isinstance(value, (list, tuple, collections.deque)):
        return None if isinstance(value, torch.Size) else enumerate(value)
    if isinstance(value, _DICTS):
        return ((_key(key, i), item)
                for i, (key, item) in enumerate(value.items()))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None))
                for field in dataclasses.fields(value))
    return None


def _key(key: Any, position: int) -> str:
    """A key as part of a name: the same in every run."""
    if isinstance(key, str):
        return utf8(key)
    if isinstance(key, (int, float, tuple, torch.dtype, type(None))):
        return utf8(str(key))
    return f"{type(key).__qualname__}{position}"


def limited(found: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """At most MAX_LEAVES: containers that share parts can have more leaves
    than there is memory."""
    for number, (path, leaf) in enumerate(found):
        if number == MAX_LEAVES:
            yield path, Cut(f"more than {MAX_LEAVES} leaves: from this one "
                            "on they are not captured")
            return
        yield path, leaf


def arguments(args: tuple, kwargs: dict) -> Iterator[tuple[str, Any]]:
    """Leaves of a call: positional by index, keywords by name."""
    for i, value in enumerate(args):
        if isinstance(value, Tensor):
            yield f"input.{i}", value
        else:
            yield from limited(leaves(value, f"input.{i}"))
    for key, value in kwargs.items():
        yield from limited(leaves(value, f"input.{_key(key, 0)}"))


def results(value: Any) -> Iterator[tuple[str, Any]]:
    """Leaves of what a call returned; several results count from 0, and none
    of them has no leaf."""
    if isinstance(value, Tensor):
        yield "output.0", value
    elif isinstance(value, _SIZED) and not value:
        return
    elif _items(value) is not None:
        yield from limited(leaves(value, "output"))
    else:
        yield "output.0", value


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
    list: _plain(json.dumps, "list"),  # empty ones: others have leaves
    dict: _plain(json.dumps, "dict"),
}


def described(value: Any) -> tuple[str, Optional[str]]:
    """(type, text) of a leaf that is no tensor; never fails, never long.

    Of objects that nobody knows only the class, and None: their repr may hold
    an address and differ from run to run, and what two of them hold cannot be
    told apart.
    """
    kind = type(value)
    known = _SCALARS.get(kind)
    if known is None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        known = _plain(_text_of_unknown, name)
    try:
        name, text = known(value)
    except ValueError:  # an integer of more digits than Python prints
        name, text = kind.__name__, hex(value)
    except Exception:  # of a class of the user's
        name, text = f"{kind.__module__}.{kind.__qualname__}", None
    if text is None:
        return utf8(name), None
    text = utf8(text)
    if len(text) > MAX_TEXT:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        text = (f"{text[:MAX_TEXT]}... ({len(text)} characters, "
                f"SHA-256 {digest}...)")
    return utf8(name), text


# Values whose str() says everything of them.
_WRITTEN = (range, pathlib.PurePath, decimal.Decimal, fractions.Fraction,
            datetime.date, datetime.time, datetime.timedelta,
            torch.memory_format, torch.layout, torch.qscheme)


def _text_of_unknown(value: Any) -> Optional[str]:
    if isinstance(value, enum.Enum):
        return value.name
    for base, text in ((int, int.__repr__), (float, float.__repr__),
                       (str, str.__str__)):
        if isinstance(value, base):  # of a class of its own
            return text(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, _WRITTEN):
        return str(value)
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return repr(value.item())
    if isinstance(value, (set, frozenset)):
        return _joined(value, sort=True)
    if isinstance(value, functools.partial):
        return _joined((value.func, *value.args, *(
            item for pair in sorted(value.keywords.items()) for item in pair)))
    if isinstance(value, torch.Generator):
        return f"seed {value.initial_seed()}"
    if isinstance(getattr(kind, "__members__", None), dict):
        return str(value.name)  # an enumeration of C++
    if callable(value) and "<lambda>" not in getattr(
            value, "__qualname__", "<lambda>"):
        return str(value.__qualname__)
    return None


def _joined(values: Iterable[Any], sort: bool = False) -> Optional[str]:
    """Texts of plain values; None where one of them is none."""
    texts = []
    for value in values:
        kind, text = described(value)
        if text is None or isinstance(value, Tensor):
            return None
        texts.append(f"{kind} {text}")
    return json.dumps(sorted(texts) if sort else texts)
