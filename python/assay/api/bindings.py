"""What names stand for: the bindings of one scope, without its inner scopes.

A name may be bound in several places (`try: from a import X`, `except: from b
import X`); it stands for every API that an import gives it. A name that no
import binds hides one of the same name further out.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Iterator, Optional, Sequence, Union

# A dotted name as its parts. Those of a relative import begin with "" and the
# absolute path of the folder: ("", "src", "pkg", "module", "Name").
Path = tuple[str, ...]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
INNER_SCOPES = (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)


@dataclass
class Imported:
    """One name that an import statement binds."""

    target: Path
    from_import: bool


@dataclass
class Bindings:
    """The names of one scope."""

    imports: dict[str, list[Imported]] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # assigned, defined, ...
    # Plain copies, `Split = _Split` or `x = a.b if ok else None`.
    aliases: dict[str, list[Path]] = field(default_factory=dict)
    star_imports: list[Path] = field(default_factory=list)
    outer: set[str] = field(default_factory=set)  # global and nonlocal
    global_imports: list[tuple[str, Imported]] = field(default_factory=list)


def from_module(node: ast.ImportFrom, package: Path) -> Path:
    """The module that `from ... import` names, `package` being the folder."""
    module = tuple(node.module.split(".")) if node.module else ()
    if not node.level:
        return module
    base = package[:len(package) - (node.level - 1)]
    return ("", *base, *module)


def dotted(node: ast.AST) -> Optional[Path]:
    """("te", "pytorch", "Linear") of `te.pytorch.Linear`, None of others."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return (node.id, *reversed(attributes))


def _copies(value: Optional[ast.AST]) -> Iterator[Path]:
    if isinstance(value, ast.IfExp):
        yield from _copies(value.body)
        yield from _copies(value.orelse)
    elif value is not None:
        path = dotted(value)
        if path:
            yield path


def _walk_scope(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of a scope; of an inner one only its head."""
    stack = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, INNER_SCOPES):
            stack.extend(_evaluated_outside(node))
        else:
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def _evaluated_outside(node: ast.AST) -> list[ast.AST]:
    """What of an inner scope may bind names in the one around it (`:=`)."""
    if isinstance(node, COMPREHENSIONS):
        return [n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases,
                *(k.value for k in node.keywords)]
    arguments = node.args
    heads = [*arguments.defaults, *(d for d in arguments.kw_defaults if d)]
    return heads + getattr(node, "decorator_list", [])


def _bind_import(found: Bindings, node: Union[ast.Import, ast.ImportFrom],
                 package: Path) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            parts = tuple(alias.name.split("."))
            name = alias.asname or parts[0]
            target = parts if alias.asname else parts[:1]
            found.imports.setdefault(name, []).append(Imported(target, False))
        return
    module = from_module(node, package)
    for alias in node.names:
        if alias.name == "*":
            found.star_imports.append(module)
        else:
            found.imports.setdefault(alias.asname or alias.name, []).append(
                Imported((*module, alias.name), True))


def _bind_assignment(found: Bindings, node: ast.AST) -> None:
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign):
        targets, value = [node.target], node.value
    else:
        return
    for target in targets:
        if isinstance(target, ast.Name):
            found.aliases.setdefault(target.id, []).extend(_copies(value))


def scope_bindings(body: Sequence[ast.AST], package: Path) -> Bindings:
    """What the statements of one scope bind."""
    found = Bindings()
    for node in _walk_scope(body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            _bind_import(found, node, package)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.outer.update(node.names)
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.others.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef,
                               ast.ClassDef)):
            found.others.add(node.name)
        else:
            # Names that are plain strings: `except E as name`, patterns.
            for key in ("name", "rest"):
                name = getattr(node, key, None)
                if isinstance(name, str) and not isinstance(node, ast.alias):
                    found.others.add(name)
            _bind_assignment(found, node)
    for name in found.outer:
        found.others.discard(name)
        for imported in found.imports.pop(name, []):
            found.global_imports.append((name, imported))
    return found


def argument_names(arguments: ast.arguments) -> set[str]:
    """The parameters of a function."""
    every = [*getattr(arguments, "posonlyargs", []), *arguments.args,
             *arguments.kwonlyargs]
    names = {argument.arg for argument in every}
    for argument in (arguments.vararg, arguments.kwarg):
        if argument:
            names.add(argument.arg)
    return names
