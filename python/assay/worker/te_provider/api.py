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


def call_named(function: typing.Any, arguments: dict[str, typing.Any],
               neutral: dict[str, typing.Any] | None = None) -> typing.Any:
    """Calls with arguments in the order of NVTE's signature, by name where the
    function takes them so and by position where it does not: bindings of C++
    functions often know no names.

    An argument that the signature lacks is an Unsupported, never dropped: the
    case would compute something else. `neutral`: values that ask for nothing,
    left out where the signature is older than they are.
    """
    parameters = parameters_of(function)
    if parameters is None:
        return call_binding(function, arguments)
    arguments = without_neutral(parameters, arguments, neutral or {})
    by_name = {p.name for p in parameters if p.kind in
               (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    kinds = {p.kind for p in parameters}
    # (*args, **kwargs) is what autograd functions show, and take no names.
    by_place = kinds & {inspect.Parameter.POSITIONAL_ONLY,
                        inspect.Parameter.VAR_POSITIONAL}
    if inspect.Parameter.VAR_KEYWORD in kinds and not by_place:
        by_name |= arguments.keys()
    if by_place:
        named = {k: v for k, v in arguments.items() if k in by_name}
        placed = [v for k, v in arguments.items() if k not in by_name]
        return function(*placed, **named)
    unknown = arguments.keys() - by_name
    if unknown:
        name = getattr(function, "__qualname__", function)
        raise Unsupported(f"{name} takes no {', '.join(sorted(unknown))}")
    return function(**arguments)


def call_binding(function: typing.Any,
                 arguments: dict[str, typing.Any]) -> typing.Any:
    """By position. pybind11 says with these words that no overload takes the
    arguments: another release's signature."""
    try:
        return function(*arguments.values())
    except TypeError as error:
        if "incompatible function arguments" in str(error):
            name = getattr(function, "__name__", function)
            raise Unsupported(f"{name} takes no ({', '.join(arguments)})"
                              ) from None
        raise


def without_neutral(parameters: list[inspect.Parameter],
                    arguments: dict[str, typing.Any],
                    neutral: dict[str, typing.Any]) -> dict[str, typing.Any]:
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL, p.POSITIONAL_ONLY)
           for p in parameters):
        return arguments
    names = {p.name for p in parameters}
    return {name: value for name, value in arguments.items()
            if name in names or name not in neutral
            or value != neutral[name]}


def defaults_of(function: typing.Any,
                names: typing.Iterable[str]) -> dict[str, typing.Any]:
    """contract.defaults: of these keyword arguments. One that is not there is
    absent from the answer, so that the comparison names it."""
    found = {}
    for parameter in parameters_of(function) or []:
        if parameter.name in names and parameter.default is not parameter.empty:
            found[parameter.name] = parameter.default
    return found
