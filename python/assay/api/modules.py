"""The modules of a tree and what their names stand for in the end.

`from ours.extensions import Linear` is a use of `theirs.Linear` where
`ours/extensions.py` has `from theirs import Linear` or `Linear =
theirs.Linear`: this index follows such names through any number of modules.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass
from typing import Iterable, Optional

from assay.api.bindings import Bindings, Path, scope_bindings
from assay.api.files import Source

MAX_HOPS = 200  # modules that one name is followed through


@dataclass
class Module:
    """A file and the names of its outermost scope."""

    source: Source
    bindings: Bindings

    @property
    def package(self) -> Path:
        """The folder that relative imports count from."""
        parts = self.source.parts
        return parts if self.source.is_package else parts[:-1]


def read_module(source: Source, tree: ast.Module) -> Module:
    """Binds the names of a file, those of `global` in functions as well."""
    module = Module(source, Bindings())
    module.bindings = scope_bindings(tree.body, module.package)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            _bind_globals(module, tree)
            break
    return module


def _bind_globals(module: Module, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = scope_bindings(node.body, module.package)
            for name, imported in inner.global_imports:
                module.bindings.imports.setdefault(name, []).append(imported)


class ModuleIndex:
    """Finds modules by name and resolves names through their imports."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = frozenset(roots)
        self._by_parts: dict[Path, Module] = {}
        self._by_last: dict[str, list[Module]] = defaultdict(list)

    def add(self, module: Module) -> None:
        parts = module.source.parts
        if parts not in self._by_parts:
            self._by_parts[parts] = module
            self._by_last[parts[-1]].append(module)

    def modules(self) -> list[Module]:
        return [self._by_parts[parts] for parts in sorted(self._by_parts)]

    def is_root(self, path: Path) -> bool:
        return bool(path) and path[0] in self._roots

    def find(self, path: Path, near: Source) -> Optional[tuple[Module, Path]]:
        """The module that `path` begins with, and the rest of the path."""
        if path and path[0] == "":
            for length in range(len(path), 1, -1):
                module = self._by_parts.get(path[1:length])
                if module:
                    return module, path[length:]
            return None
        for length in range(len(path), 0, -1):
            module = self._absolute(path[:length], near)
            if module:
                return module, path[length:]
        return None

    def _absolute(self, name: Path, near: Source) -> Optional[Module]:
        best: tuple[int, Optional[Module]] = (-1, None)
        for module in self._by_last.get(name[-1], ()):
            parts = module.source.parts
            # An absolute name begins in a folder that is no package.
            start = self._by_parts.get(parts[:-len(name)])
            if parts[-len(name):] != name or start:
                continue
            common = 0
            for mine, theirs in zip(parts, near.parts):
                if mine != theirs:
                    break
                common += 1
            if common > best[0]:
                best = (common, module)
        return best[1]

    def resolve(self, path: Path, near: Source) -> list[Path]:
        """Names of the roots, or definitions as ("", *file, name, ...)."""
        found: dict[Path, None] = {}
        self._resolve(path, near, set(), found)
        return list(found)

    def resolve_name(self, module: Module, name: str) -> list[Path]:
        """What a name of a module stands for, a submodule of it aside."""
        found: dict[Path, None] = {}
        self._resolve_name(module, (name,), set(), found)
        return list(found)

    def _resolve(self, path: Path, near: Source, seen: set,
                 found: dict[Path, None]) -> None:
        if self.is_root(path):
            found[path] = None
            return
        place = self.find(path, near)
        if place and place[1]:
            self._resolve_name(place[0], place[1], seen, found)

    def _resolve_name(self, module: Module, name: Path, seen: set,
                      found: dict[Path, None]) -> None:
        key = (module.source.parts, name)
        # Cycles end here, and chains that no one follows by hand.
        if key in seen or len(seen) >= MAX_HOPS:
            return
        seen.add(key)
        bindings, rest = module.bindings, name[1:]
        imported = bindings.imports.get(name[0], [])
        copies = bindings.aliases.get(name[0], [])
        for one in imported:
            self._resolve((*one.target, *rest), module.source, seen, found)
        for copy in copies:
            self._resolve_name(module, (*copy, *rest), seen, found)
        if name[0] in bindings.others:
            found[("", *module.source.parts, *name)] = None
        if not imported and name[0] not in bindings.others:
            for star in bindings.star_imports:
                self._resolve((*star, *name), module.source, seen, found)
