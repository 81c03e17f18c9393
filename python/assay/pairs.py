"""Compares tensors, containers of tensors, and traces: assay.compare."""

from __future__ import annotations

import enum
import os
import pathlib
import sys
from typing import Any, Sequence

from assay import _core, trees
from assay.results import Comparison, Row, read
from assay.tensors import Unreadable, described, host_view, is_tensor
from assay.traces import compare_traces


def error_stats(golden: Any, target: Any) -> _core.ErrorStats:
    """Every error figure of a pair of tensors of equal shape, without a
    verdict; d = target - golden.

    Raises TypeError for what is no readable tensor, assay.Error where the
    shapes differ or one side alone is complex.
    """
    x, x_dtype = host_view(golden)
    y, y_dtype = host_view(target)
    return _core.error_stats(x, y, x_dtype, y_dtype)


def compare(golden: Any, target: Any, *, standard: str = "assay",
            op: str = "", names: str | Sequence[str] | None = None,
            flags: Sequence[str] = ()) -> Row | Comparison:
    """Judges `target` against `golden`.

    Two tensors (of torch on any device, numpy, any DLPack producer, numbers)
    give a Row. Two containers (dict, list, tuple, dataclass, torch.nn.Module
    or its state dict, nested) give a Comparison with a row a leaf; a leaf of
    one side only, or one that cannot be read, makes it "incomplete". Two paths
    (dumps, traces, tensor files) give the Comparison that `assay compare`
    makes of them, with the operator where they part.

    standard: a shipped precision standard or the path of a YAML file.
    op: the operator that computed the tensors ("softmax"), for the bounds.
    names: what the pair, or the items of two sequences, are called.
    flags: of paths, further flags of `assay compare` ("--only", "*.gelu.*").

    A result is no truth value: look at .verdict, or .matched.
    """
    paths = [isinstance(side, (str, os.PathLike)) for side in (golden, target)]
    if all(paths):
        if op or names is not None:
            raise TypeError("op and names are for tensors; flags=('--only', "
                            "GLOB) narrows a comparison of paths")
        return compare_traces(golden, target, standard, flags)
    if flags:
        raise TypeError("flags are for two paths")
    found = _core.Pairs(standard)
    if not (trees.is_container(golden) or trees.is_container(target)):
        _demand_tensor(golden, target)
        name = names if isinstance(names, str) else op or "tensor"
        found.add(_utf8(name), op, _side(golden), _side(target))
        return Row.of(read(found.json())["rows"][0])
    for name, x, y in trees.pairs(_labelled(golden, names),
                                  _labelled(target, names)):
        found.add(_utf8(name), op, _side(x), _side(y))
    return Comparison.of(read(found.json()), found.text())


def _demand_tensor(golden: Any, target: Any) -> None:
    if is_tensor(golden) or is_tensor(target):
        return
    kinds = " and ".join(_type_name(side) for side in (golden, target))
    raise TypeError(f"expected tensors, containers of them or two paths, "
                    f"found {kinds}")


def _labelled(value: Any, names: str | Sequence[str] | None) -> Any:
    if names is None:
        return value
    if isinstance(names, str) or not isinstance(value, (list, tuple)):
        raise TypeError("names are one for a pair of tensors, or one for "
                        "each item of two sequences")
    if len(names) != len(value) or len(set(names)) != len(names):
        raise ValueError(f"{len(names)} names, {len(set(names))} of them "
                         f"different, for {len(value)} items")
    return dict(zip(names, value))


def _side(value: Any) -> _core.Side | None:
    if value is trees.ABSENT:
        return None
    if isinstance(value, trees.Unwalked):
        return _core.Side.value("", "", value.why)
    if is_tensor(value) and not _is_large(value):
        try:
            return _core.Side.tensor(*host_view(value))
        except (Unreadable, _core.Error) as error:
            return _core.Side.unreadable(str(error), *described(value))
    return _value_side(value)


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not -2**63 <= value < 2**63


def _value_side(value: Any) -> _core.Side:
    """What is no tensor matches what is of its type and reads the same."""
    kind = _type_name(value)
    if trees.is_container(value):
        return _core.Side.value(kind, f"of {trees.size_of(value)} items")
    if isinstance(value, str):
        return _core.Side.value(kind, _utf8(value))
    if _is_plain(value):
        return _core.Side.value(kind, _utf8(repr(value)))
    return _core.Side.value(kind, "", f"a {kind} is not compared")


def _is_plain(value: Any) -> bool:
    """Whether repr() says everything of it."""
    plain: tuple = (type(None), int, bytes, enum.Enum, slice, range,
                    pathlib.PurePath)
    torch = sys.modules.get("torch")
    if torch is not None:
        plain += (torch.dtype, torch.device, torch.layout,
                  torch.memory_format)
    return isinstance(value, plain)


def _type_name(value: Any) -> str:
    kind = type(value)
    if kind.__module__ in ("builtins", "torch"):
        return ("torch." if kind.__module__ == "torch" else "") + kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


def _utf8(text: str) -> str:
    """Lone surrogates, which are no text, as they are written in source."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
