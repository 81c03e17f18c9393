"""The manifest of a package that is imported: what its objects say.

This runs the package's code, and only where the user asks for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib
import inspect
import os
import pkgutil
import sys
import types
from typing import Any, Iterator

from assay.api.definitions import is_public
from assay.api.files import Problem
from assay.api.values import OPAQUE, object_text, parameter

KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "var-positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "var-keyword",
}


def extract(package: str) -> tuple[str, str, dict, list[Problem]]:
    """Name, version, symbols and what could not be imported."""
    problems: list[Problem] = []
    with _stdout_to_stderr():
        try:
            top = importlib.import_module(package)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            raise OSError(0, f"import failed: {_line(error)}", package) \
                from error
        modules = [top, *_submodules(top, problems)]
        symbols: dict[str, dict] = {}
        for module in modules:
            name = module.__name__
            symbols[name] = {"kind": "module", "paths": [name]}
        for module in modules:
            for name, value in sorted(vars(module).items()):
                _add(symbols, package, module, name, value)
    version = getattr(top, "__version__", "")
    return package, str(version), symbols, problems


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What a package prints while it is imported, its compiled parts as well,
    is no part of the document."""
    sys.stdout.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:400]


def _submodules(top: types.ModuleType,
                problems: list[Problem]) -> Iterator[types.ModuleType]:
    def failed(name: str) -> None:
        problems.append(Problem(name, f"import failed: "
                                f"{_line(sys.exc_info()[1] or Exception())}"))

    prefix = top.__name__ + "."
    for found in pkgutil.walk_packages(getattr(top, "__path__", []), prefix,
                                       failed):
        if found.name.endswith(".__main__"):
            continue  # a program, which importing would run
        try:
            yield importlib.import_module(found.name)
        except (Exception, SystemExit):
            if not any(p.file == found.name for p in problems):
                failed(found.name)


def _add(symbols: dict, package: str, module: types.ModuleType, name: str,
         value: Any) -> None:
    path = f"{module.__name__}.{name}"
    if isinstance(value, types.ModuleType):
        return
    if inspect.isclass(value) or inspect.isroutine(value):
        home = getattr(value, "__module__", "") or ""
        if home != package and not home.startswith(package + "."):
            return
        key = f"{home}.{getattr(value, '__qualname__', name)}"
        if "<locals>" in key:
            key = path
    elif is_public(name):
        key = path
    else:
        return
    if key not in symbols:
        symbols[key] = {**_symbol(value), "paths": []}
    symbols[key]["paths"] = sorted({*symbols[key]["paths"], path})


def _symbol(value: Any) -> dict:
    if inspect.isclass(value):
        return _class(value)
    if inspect.isroutine(value):
        return {"kind": "function", **_signature(value, 0)}
    return {"kind": "constant", "value": object_text(value)}


def _signature(function: Any, skip: int) -> dict:
    """{"parameters": ...}, or {} where the object does not say."""
    try:
        given = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return {}
    return {"parameters": [
        parameter(p.name, KINDS[p.kind],
                  None if p.default is p.empty else object_text(p.default))
        for p in given]}


def _class(value: type) -> dict:
    if issubclass(value, enum.Enum):
        members = value.__members__
        return {"kind": "enum", "values": {
            name: object_text(members[name].value) for name in sorted(members)}}
    entry: dict = {"kind": "class", "methods": {}}
    if dataclasses.is_dataclass(value):
        entry["kind"] = "dataclass"
        entry["fields"] = [_field(f) for f in dataclasses.fields(value)]
    ours = value.__module__.split(".")[0]
    for base in reversed(value.__mro__):
        if base.__module__.split(".")[0] != ours:
            continue
        for name, raw in vars(base).items():
            if is_public(name):
                method = _method(raw)
                if method:
                    entry["methods"][name] = method
    if "fields" in entry:
        entry["methods"].pop("__init__", None)  # the fields say it
    if "get_extra_state" in entry["methods"]:
        entry["extra_state"] = True
    entry["methods"] = dict(sorted(entry["methods"].items()))
    return entry


def _method(raw: Any) -> dict:
    if isinstance(raw, property):
        return {"kind": "property"}
    if isinstance(raw, (classmethod, staticmethod)):
        kind = type(raw).__name__
        skip = int(kind == "classmethod")
        return {"kind": kind, **_signature(raw.__func__, skip)}
    if inspect.isroutine(raw):
        return {"kind": "method", **_signature(raw, 1)}
    return {}


def _field(found: dataclasses.Field) -> dict:
    if found.default is not dataclasses.MISSING:
        return parameter(found.name, "field", object_text(found.default))
    if found.default_factory is not dataclasses.MISSING:
        try:
            return parameter(found.name, "field",
                             object_text(found.default_factory()))
        except Exception:  # code of others
            return parameter(found.name, "field", OPAQUE)
    return parameter(found.name, "field", None)
