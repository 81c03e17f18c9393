"""What a module defines: functions, classes, enums, dataclasses, constants.

Read from the syntax tree, one file at a time, so that the tree can go.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Iterator, Optional, Sequence

from assay.api.bindings import Path, dotted
from assay.api.values import parameter, source_text

# Dunders that are part of what a user calls.
PUBLIC_DUNDERS = frozenset({"__init__", "__new__", "__call__", "__enter__",
                            "__exit__", "__version__"})
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_public(name: str) -> bool:
    return not name.startswith("_") or name in PUBLIC_DUNDERS


@dataclass
class Definition:
    """A name that a module's own code gives a meaning."""

    kind: str  # "function", "class", "constant"
    parameters: list[dict] = field(default_factory=list)  # of functions
    value: str = ""  # of constants
    bases: list[Path] = field(default_factory=list)
    is_dataclass: bool = False
    methods: dict[str, dict] = field(default_factory=dict)
    fields: list[dict] = field(default_factory=list)  # annotated ones
    values: dict[str, str] = field(default_factory=dict)  # assigned ones
    state: list[str] = field(default_factory=list)
    computed_state: bool = False  # there are names that only running tells


def definitions(tree: ast.Module) -> dict[str, Definition]:
    """The outermost names of a module, those in `if` and `try` as well."""
    found: dict[str, Definition] = {}
    named_tuples = {
        node.name: _field_names(node) for node in tree.body
        if isinstance(node, ast.ClassDef)
        and any((dotted(b) or ("",))[-1] == "NamedTuple" for b in node.bases)}
    for node in _statements(tree.body):
        if isinstance(node, FUNCTIONS):
            found.setdefault(node.name, Definition(
                "function", parameters=parameters(node.args)))
        elif isinstance(node, ast.ClassDef):
            found.setdefault(node.name, _class(node, named_tuples))
        else:
            for name, value in _assigned(node):
                text = source_text(value)[0] if value is not None else ""
                found.setdefault(name, Definition("constant", value=text))
    return found


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        inner: list[ast.AST] = []
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for key in ("body", "handlers", "orelse", "finalbody"):
                inner += getattr(node, key, [])
        elif isinstance(node, ast.ExceptHandler):
            inner += node.body
        stack.extend(reversed(inner))


def _assigned(node: ast.AST) -> Iterator[tuple[str, Optional[ast.AST]]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.value


def parameters(arguments: ast.arguments, skip: int = 0) -> list[dict]:
    """Parameters in order; the first `skip` are `self` or `cls`."""
    found: list[dict] = []
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    for i, argument in enumerate(positional):
        kind = ("positional-only" if i < len(arguments.posonlyargs)
                else "positional")
        default = arguments.defaults[i - required] if i >= required else None
        found.append(_parameter(argument.arg, kind, default))
    found = found[skip:]
    if arguments.vararg:
        found.append(parameter(arguments.vararg.arg, "var-positional", None))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        found.append(_parameter(argument.arg, "keyword", default))
    if arguments.kwarg:
        found.append(parameter(arguments.kwarg.arg, "var-keyword", None))
    return found


def _parameter(name: str, kind: str, default: Optional[ast.AST]) -> dict:
    if default is None:
        return parameter(name, kind, None)
    text, variable = source_text(default)
    return parameter(name, kind, text, variable)


def _field_names(node: ast.ClassDef) -> list[str]:
    return [part.target.id for part in node.body
            if isinstance(part, ast.AnnAssign)
            and isinstance(part.target, ast.Name)]


def _class(node: ast.ClassDef,
           named_tuples: dict[str, list[str]]) -> Definition:
    found = Definition("class")
    values = _Values(named_tuples)
    found.bases = [path for path in map(dotted, node.bases) if path]
    found.is_dataclass = any(_names(d, "dataclass")
                             for d in node.decorator_list)
    for statement in _statements(node.body):
        if isinstance(statement, FUNCTIONS):
            if is_public(statement.name):
                found.methods.setdefault(statement.name, _method(statement))
        elif (isinstance(statement, ast.AnnAssign)
              and isinstance(statement.target, ast.Name)):
            _add_field(found, statement)
        for name, value in _assigned(statement):
            if isinstance(statement, ast.Assign) and value is not None:
                found.values.setdefault(name, values.text(name, value))
    names = _state_names(node)
    found.state = sorted(names - {""})
    found.computed_state = "" in names
    return found


def _names(decorator: ast.AST, name: str) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return (dotted(decorator) or ("",))[-1] == name


def _method(node: ast.AST) -> dict:
    kind, skip = "method", 1
    for decorator in node.decorator_list:
        last = (dotted(decorator) or ("",))[-1]
        if last in ("property", "cached_property"):
            return {"kind": "property"}
        if last in ("classmethod", "staticmethod"):
            kind, skip = last, int(last == "classmethod")
    return {"kind": kind, "parameters": parameters(node.args, skip)}


def _add_field(found: Definition, node: ast.AnnAssign) -> None:
    annotation = node.annotation
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    if (dotted(annotation) or ("",))[-1] in ("ClassVar", "InitVar"):
        return
    value = node.value
    if isinstance(value, ast.Call) and _names(value, "field"):
        given = {k.arg: k.value for k in value.keywords}
        value = given.get("default", given.get("default_factory"))
    found.fields.append(_parameter(node.target.id, "field", value))


class _Values:
    """Values of a class's names, where named tuples are tuples.

    `HYBRID = Pair(forward=E4M3.forward, backward=E5M2.backward)` is written
    with the numbers of the members above it.
    """

    def __init__(self, named_tuples: dict[str, list[str]]) -> None:
        self._named_tuples = named_tuples
        self._known: dict[str, dict[str, ast.AST]] = {}

    def text(self, name: str, node: ast.AST) -> str:
        function = node.func if isinstance(node, ast.Call) else None
        if (isinstance(function, ast.Name)
                and function.id in self._named_tuples):
            names = self._named_tuples[function.id]
            given = dict(zip(names, node.args))
            given.update((k.arg or "", k.value) for k in node.keywords)
            parts = {field: self._looked_up(given[field])
                     for field in names if field in given}
            self._known[name] = parts
            node = ast.Tuple(list(parts.values()), ast.Load())
        return source_text(node)[0]

    def _looked_up(self, node: ast.AST) -> ast.AST:
        path = dotted(node)
        if path and len(path) == 2:
            return self._known.get(path[0], {}).get(path[1], node)
        return node


def _state_names(node: ast.ClassDef) -> set[str]:
    """Names of parameters and buffers that the class registers, "" for those
    that it computes."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and part.args:
            last = (dotted(part.func) or ("",))[-1]
            if last in ("register_parameter", "register_buffer"):
                found.add(_pattern(part.args[0]))
        elif isinstance(part, ast.Assign) and isinstance(part.value, ast.Call):
            if (dotted(part.value.func) or ("",))[-1] == "Parameter":
                for target in part.targets:
                    path = dotted(target)
                    if path and len(path) == 2 and path[0] == "self":
                        found.add(path[1])
    return found


def _pattern(node: ast.AST) -> str:
    """"weight" or f"weight{i}", which is "weight{}"; "" where computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}"
                 for part in node.values]
        text = "".join(str(part) for part in parts)
        return text if text.strip("{}") else ""
    return ""
