"""The contract manifest of a package, from its sources; nothing is executed.

docs/api-inventory.md shows the schema. `imported` asks the live package
instead, which runs its code.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.metadata
import os
import platform
from collections import defaultdict
from typing import Optional

from assay.api import live
from assay.api.bindings import Path
from assay.api.definitions import Definition, definitions, is_public
from assay.api.files import Problem, Source, find_sources, parse, read_bytes
from assay.api.modules import Module, ModuleIndex, read_module

SCHEMA = 1
ENUMS = frozenset({"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"})


def extract(package: str, imported: bool = False) -> dict:
    """The manifest of an installed package or of a folder or file.

    Raises OSError where there is no such package.
    """
    if imported:
        name, version, symbols, problems = live.extract(package)
    else:
        name, folder = locate(package)
        static = _Static(name, folder)
        symbols = static.symbols()
        version = static.version() or _installed_version(package)
        problems = static.problems
    return {
        "assay_api_manifest": SCHEMA,
        "package": name,
        "version": version,
        "how": "import" if imported else "sources",
        "python": platform.python_version(),
        "problems": [p.as_json() for p in problems],
        "symbols": {key: symbols[key] for key in sorted(symbols)},
    }


def locate(package: str) -> tuple[str, str]:
    """The name and the place of a package; finds it without importing it."""
    path = package.rstrip(os.sep)
    if os.path.isdir(path) or path.endswith(".py"):
        os.stat(path)
        name = os.path.basename(path)
        return (name[:-3] if name.endswith(".py") else name), path
    spec = None
    if package.replace("_", "a").isalnum():
        spec = importlib.machinery.PathFinder.find_spec(package)
    if spec and spec.submodule_search_locations:
        return package, list(spec.submodule_search_locations)[0]
    if spec and spec.origin and spec.origin.endswith(".py"):
        return package, spec.origin
    what = "has no Python sources" if spec else "no such package or folder"
    raise OSError(0, what, package)


def _installed_version(package: str) -> str:
    """What the installer noted of a package that was given by name."""
    if os.path.exists(package):
        return ""
    try:
        return importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return ""


class _Static:
    """The modules of one package and their definitions."""

    def __init__(self, name: str, folder: str) -> None:
        self.problems: list[Problem] = []
        self._name = name
        self._index = ModuleIndex(())
        self._definitions: dict[Path, dict[str, Definition]] = {}
        self._top: Optional[Path] = None
        for entry in find_sources(folder):
            if isinstance(entry, Problem):
                self.problems.append(entry)
            else:
                self._read(entry)
        base = os.path.abspath(folder)
        base = base[:-3] if base.endswith(".py") else base
        self._base = tuple(p for p in base.split(os.sep) if p)

    def _read(self, source: Source) -> None:
        data = read_bytes(source)
        tree = data if isinstance(data, Problem) else parse(source, data)
        if isinstance(tree, Problem):
            self.problems.append(tree)
            return
        try:
            module, found = read_module(source, tree), definitions(tree)
        except RecursionError:
            self.problems.append(Problem(source.path, "nested too deeply"))
            return
        self._index.add(module)
        self._definitions[source.parts] = found

    def version(self) -> str:
        top = self._definitions.get(self._base, {}).get("__version__")
        if top and top.kind == "constant" and top.value.startswith("'"):
            return top.value[1:-1]
        return ""

    def symbols(self) -> dict[str, dict]:
        paths = self._import_paths()
        found: dict[str, dict] = {}
        for module in self._index.modules():
            parts = module.source.parts
            found[self._dotted(parts)] = {"kind": "module",
                                          "paths": [self._dotted(parts)]}
        for (parts, name), dotted in paths.items():
            definition = self._definitions[parts][name]
            key = f"{self._dotted(parts)}.{name}"
            if definition.kind == "constant" and not is_public(name):
                continue
            module = self._index_module(parts)
            entry = self._symbol(module, name, definition)
            entry["paths"] = sorted(dotted)
            # A module may have the name of what its package takes from it.
            found[key + (":name" if key in found else "")] = entry
        for target, dotted in self._companions().items():
            found[target] = {"kind": "external", "paths": sorted(dotted)}
        return found

    def _companions(self) -> dict[str, set[str]]:
        """What is imported from `<package>_torch` and the like: known by
        name, and compiled, so that nothing more is to be read."""
        paths: dict[str, set[str]] = defaultdict(set)
        for module in self._index.modules():
            for name, imports in module.bindings.imports.items():
                for one in imports:
                    if (one.from_import
                            and one.target[0].startswith(self._name + "_")):
                        paths[".".join(one.target)].add(
                            f"{self._dotted(module.source.parts)}.{name}")
        return paths

    def _index_module(self, parts: Path) -> Module:
        place = self._index.find(("", *parts), None)
        assert place
        return place[0]

    def _dotted(self, parts: Path) -> str:
        return ".".join((self._name, *parts[len(self._base):]))

    def _import_paths(self) -> dict[tuple[Path, str], set[str]]:
        """Definition -> every dotted name it can be imported by."""
        paths: dict[tuple[Path, str], set[str]] = defaultdict(set)
        for module in self._index.modules():
            for name in self._names(module):
                dotted = f"{self._dotted(module.source.parts)}.{name}"
                for path in self._index.resolve_name(module, name):
                    place = self._definition(path)
                    if place:
                        paths[place].add(dotted)
        return paths

    def _names(self, module: Module) -> set[str]:
        bindings = module.bindings
        names = {*bindings.imports, *bindings.aliases,
                 *self._definitions[module.source.parts]}
        for star in bindings.star_imports:
            place = self._index.find(star, module.source)
            if place and not place[1]:
                inner = self._definitions[place[0].source.parts]
                names |= {n for n in {*inner, *place[0].bindings.imports}
                          if not n.startswith("_")}
        return names

    def _definition(self, path: Path) -> Optional[tuple[Path, str]]:
        place = self._index.find(path, None)
        if not place or len(place[1]) != 1:
            return None
        parts, name = place[0].source.parts, place[1][0]
        return (parts, name) if name in self._definitions[parts] else None

    # Classes with what they inherit inside the package.

    def _symbol(self, module: Module, name: str,
                definition: Definition) -> dict:
        if definition.kind == "function":
            return {"kind": "function", "parameters": definition.parameters}
        if definition.kind == "constant":
            for copy in module.bindings.aliases.get(name, []):
                if copy[0] in module.bindings.imports:  # torch.jit.script
                    return {"kind": "external"}
            return {"kind": "constant", "value": definition.value}
        line, outside = self._ancestry(module, definition)
        if any(path[-1] in ENUMS for path in outside):
            values = _enum_values(definition.values)
            return {"kind": "enum", "values": values}
        methods: dict[str, dict] = {}
        state: set[str] = set()
        for one in line:
            for name, method in one.methods.items():
                methods.setdefault(name, method)
            state |= set(one.state)
        entry = {"kind": "class", "methods": dict(sorted(methods.items()))}
        if any(one.is_dataclass for one in line):
            entry["kind"] = "dataclass"
            entry["fields"] = _fields(line)
        if state:
            entry["state_dict"] = sorted(state)
        if any(one.computed_state for one in line):
            entry["state_dict_is_open"] = True
        if "get_extra_state" in methods:
            entry["extra_state"] = True
        return entry

    def _ancestry(self, module: Module, definition: Definition
                  ) -> tuple[list[Definition], list[Path]]:
        """The class and its bases in the package, each once, and bases of
        others."""
        line, outside = [], []
        waiting = [(module, definition)]
        while waiting:
            place, one = waiting.pop()
            if any(one is known for known in line):
                continue
            line.append(one)
            bases = []
            for base in one.bases:
                inner = self._base_class(place, base)
                if inner:
                    bases.append(inner)
                else:
                    outside.append(base)
            waiting.extend(reversed(bases))
        return line, outside

    def _base_class(self, module: Module,
                    base: Path) -> Optional[tuple[Module, Definition]]:
        anchored = ("", *module.source.parts, *base)
        for path in self._index.resolve(anchored, module.source):
            place = self._definition(path)
            if place:
                found = self._definitions[place[0]][place[1]]
                if found.kind == "class":
                    return self._index_module(place[0]), found
        return None


def _fields(line: list[Definition]) -> list[dict]:
    """Those of the bases first, an overridden one in its first place."""
    merged: dict[str, dict] = {}
    for one in reversed(line):
        for entry in one.fields if one.is_dataclass else []:
            merged[entry["name"]] = entry
    return list(merged.values())


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _enum_values(assigned: dict[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    last = 0
    for name, text in assigned.items():
        if name.startswith("_"):
            continue
        if text in ("auto()", "enum.auto()"):
            text = str(last + 1)
        if text.lstrip("-").isdigit():
            last = int(text)
        values[name] = text if _is_literal(text) else f"<{text}>"
    return dict(sorted(values.items()))
