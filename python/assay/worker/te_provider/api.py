"""Finds and calls what releases and ports spell differently."""

from __future__ import annotations

import importlib
import inspect
import typing

from assay.worker.call import Unsupported


def resolve(path: str) -> typing.Any | None:
    """The object of a dotted name; None where a part of it is missing.

    The longest importable module first, attributes from there on: classes may
    hide modules of the same name.
    """
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        try:
            for name in parts[cut:]:
                found = getattr(found, name)
        except AttributeError:
            continue
        return found
    return None


def require(*paths: str) -> typing.Any:
    """The first that exists: new names before legacy ones."""
    for path in paths:
        found = resolve(path)
        if found is not None:
            return found
    raise Unsupported(f"no {' or '.join(paths)}")


def parameters_of(function: typing.Any) -> list[inspect.Parameter] | None:
    """None where it has no signature (a pybind function)."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def call_named(function: typing.Any,
               arguments: dict[str, typing.Any]) -> typing.Any:
    """Calls with arguments in the order of NVTE's signature, by name where the
    function takes them so and by position where it does not: bindings of C++
    functions often know no names.

    An argument that the signature lacks is an Unsupported, never dropped: the
    case would compute something else.
    """
    parameters = parameters_of(function)
    if parameters is None:
        return function(*arguments.values())
    by_name = {p.name for p in parameters if p.kind in
               (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        by_name |= arguments.keys()
    only_by_place = [p for p in parameters if p.kind == p.POSITIONAL_ONLY]
    if only_by_place or any(p.kind == p.VAR_POSITIONAL for p in parameters):
        named = {k: v for k, v in arguments.items() if k in by_name}
        placed = [v for k, v in arguments.items() if k not in by_name]
        return function(*placed, **named)
    unknown = arguments.keys() - by_name
    if unknown:
        name = getattr(function, "__qualname__", function)
        raise Unsupported(f"{name} takes no {', '.join(sorted(unknown))}")
    return function(**arguments)


def defaults_of(function: typing.Any,
                names: typing.Iterable[str]) -> dict[str, typing.Any]:
    """contract.defaults: of these keyword arguments. One that is not there is
    absent from the answer, so that the comparison names it."""
    found = {}
    for parameter in parameters_of(function) or []:
        if parameter.name in names and parameter.default is not parameter.empty:
            found[parameter.name] = parameter.default
    return found
