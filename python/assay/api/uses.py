"""Every use of an API in one file.

One use is one place of the source: an import, or the longest `a.b.c` that
begins with a name an import binds to the API. docs/api-inventory.md has the
rule of every kind.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence

from assay.api.bindings import (COMPREHENSIONS, Bindings, Path,
                                argument_names, dotted, from_module,
                                scope_bindings)
from assay.api.modules import Module, ModuleIndex

KINDS = ("import", "from-import", "reexport-import", "dyn-import", "call",
         "subclass", "super-call", "isinstance", "load", "store", "hasattr",
         "getattr", "annotation", "string-name")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True)
class Use:
    """One use of `path` at a line."""

    path: Path
    kind: str
    line: int
    positionals: Optional[int] = None  # of calls
    keywords: tuple[str, ...] = ()  # of calls; "*" and "**" where unpacked
    alias: str = ""  # of imports


@dataclass
class _Scope:
    bindings: Bindings
    is_class: bool = False
    bases: list[Path] = field(default_factory=list)


class UseFinder(ast.NodeVisitor):
    """Collects `uses` of one module's tree."""

    def __init__(self, module: Module, index: ModuleIndex) -> None:
        self.uses: list[Use] = []
        self._module = module
        self._index = index
        self._scopes = [_Scope(module.bindings)]
        self._in_annotation = False

    # Names and chains.

    def _targets(self, name: str) -> list[Path]:
        """The APIs that a name stands for here; none for names of others."""
        for depth, scope in enumerate(reversed(self._scopes)):
            if scope.is_class and depth:
                continue  # methods do not see the names of their class
            bindings = scope.bindings
            if name in bindings.outer:
                continue
            imported = bindings.imports.get(name)
            if imported:
                found: dict[Path, None] = {}
                for one in imported:
                    for path in self._imported(one.target, one.from_import):
                        found[path] = None
                return list(found)
            if name in bindings.others:
                return []
        return []

    def _imported(self, target: Path, from_import: bool) -> list[Path]:
        if self._index.is_root(target):
            return [target]
        if not from_import:
            return []
        return [path for path in self._index.resolve(target,
                                                     self._module.source)
                if self._index.is_root(path)]

    def _chain(self, node: ast.AST) -> list[Path]:
        path = dotted(node)
        if not path:
            return []
        return [(*target, *path[1:]) for target in self._targets(path[0])]

    def _add(self, paths: Sequence[Path], kind: str, node: ast.AST,
             **details: object) -> None:
        line = getattr(node, "lineno", 0)
        for path in paths:
            self.uses.append(Use(path, kind, line, **details))

    def _chain_or_visit(self, node: ast.AST, kind: str) -> None:
        paths = self._chain(node)
        if paths:
            self._add(paths, kind, node)
        else:
            self.visit(node)

    def _visit_all(self, nodes: Sequence[Optional[ast.AST]]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # Imports.

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            path = tuple(alias.name.split("."))
            if self._index.is_root(path):
                self._add([path], "import", node, alias=alias.asname or "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = from_module(node, self._module.package)
        for alias in node.names:
            name = alias.asname or ""
            if self._index.is_root(module):
                path = module if alias.name == "*" else (*module, alias.name)
                self._add([path], "from-import", node,
                          alias="*" if alias.name == "*" else name)
            elif alias.name != "*":
                self._add(self._imported((*module, alias.name), True),
                          "reexport-import", node, alias=name)

    # Expressions.

    def visit_Name(self, node: ast.Name) -> None:
        self._visit_chain(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._visit_chain(node)

    def _visit_chain(self, node: ast.AST) -> None:
        paths = self._chain(node)
        if paths:
            stored = not isinstance(node.ctx, ast.Load)
            if stored and isinstance(node, ast.Name):
                return  # a new value of the name, not of what it stood for
            kind = "store" if stored else "load"
            if self._in_annotation and not stored:
                kind = "annotation"
            self._add(paths, kind, node)
        elif isinstance(node, ast.Attribute) and not dotted(node):
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = (dotted(node.func) or ("",))[-1]
        if self._visit_super_call(node):
            return
        paths = self._chain(node.func)
        if paths:
            self._add(paths, "call", node, **_arguments(node))
        elif not isinstance(node.func, ast.Name):
            self.visit(node.func)
        special = _SPECIAL_CALLS.get(name)
        if special and not paths and special(self, node, name):
            return
        if not paths and self._visit_dynamic_import(node, name):
            return
        self._visit_all([*node.args, *(k.value for k in node.keywords)])

    def _visit_super_call(self, node: ast.Call) -> bool:
        function = node.func
        if not (isinstance(function, ast.Attribute)
                and isinstance(function.value, ast.Call)
                and isinstance(function.value.func, ast.Name)
                and function.value.func.id == "super"):
            return False
        for scope in reversed(self._scopes):
            if scope.is_class:
                bases = [(*base, function.attr) for base in scope.bases]
                self._add(bases, "super-call", node, **_arguments(node))
                break
        self._visit_all([*function.value.args, *node.args,
                         *(k.value for k in node.keywords)])
        return True

    def _visit_isinstance(self, node: ast.Call, name: str) -> bool:
        if len(node.args) != 2:
            return False
        self.visit(node.args[0])
        self._visit_classes(node.args[1])
        return True

    def _visit_classes(self, node: ast.AST) -> None:
        if isinstance(node, ast.Tuple):
            for element in node.elts:
                self._visit_classes(element)
        elif isinstance(node, ast.BinOp):
            self._visit_classes(node.left)
            self._visit_classes(node.right)
        else:
            self._chain_or_visit(node, "isinstance")

    def _visit_probe(self, node: ast.Call, name: str) -> bool:
        """hasattr, getattr and setattr of a name given as a literal."""
        if len(node.args) < 2:
            return False
        attribute = _text(node.args[1])
        if attribute and attribute.isidentifier():
            kind = "store" if name == "setattr" else name
            paths = self._chain(node.args[0])
            self._add([(*path, attribute) for path in paths], kind, node)
        return False  # the object itself is loaded, too

    def _visit_dynamic_import(self, node: ast.Call, name: str) -> bool:
        """Importers of any name: import_module, importorskip, safe_import."""
        if not node.args or not ("import" in name or name == "find_spec"):
            return False
        path = tuple((_text(node.args[0]) or "").split("."))
        if not self._index.is_root(path):
            return False
        member = _text(node.args[1]) if len(node.args) > 1 else None
        if member and member.isidentifier():
            path = (*path, member)
        self._add([path], "dyn-import", node)
        self._visit_all([*node.args[1:], *(k.value for k in node.keywords)])
        return True

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str):
            return
        if self._in_annotation:
            self._visit_quoted_annotation(node)
        elif DOTTED.fullmatch(node.value):
            path = tuple(node.value.split("."))
            if self._index.is_root(path):
                self._add([path], "string-name", node)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        """("package.module", "Name"), as allow-lists of pickle have it."""
        texts = [_text(element) for element in node.elts]
        if (len(texts) == 2 and texts[0] and texts[1]
                and DOTTED.fullmatch(texts[0]) and texts[1].isidentifier()):
            path = (*texts[0].split("."), texts[1])
            if self._index.is_root(path):
                self._add([path], "string-name", node)
                return
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if _text(node.value) is None:  # documentation is no use
            self.visit(node.value)

    # Annotations.

    def _visit_annotation(self, node: Optional[ast.AST]) -> None:
        if node is None:
            return
        before, self._in_annotation = self._in_annotation, True
        self.visit(node)
        self._in_annotation = before

    def _visit_quoted_annotation(self, node: ast.Constant) -> None:
        try:
            inner = ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        if _text(inner) is not None:
            return  # quoted twice
        for part in ast.walk(inner):
            ast.copy_location(part, node)
        self.visit(inner)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_annotation(node.annotation)
        self._visit_all([node.target, node.value])

    # Scopes.

    def _push(self, scope: _Scope, visit: Callable[[], None]) -> None:
        self._scopes.append(scope)
        before, self._in_annotation = self._in_annotation, False
        visit()
        self._in_annotation = before
        self._scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.decorator_list)
        bases: list[Path] = []
        for base in node.bases:
            bases.extend(self._chain(base))
            self._chain_or_visit(base, "subclass")
        self._visit_all([keyword.value for keyword in node.keywords])
        bindings = scope_bindings(node.body, self._module.package)
        self._push(_Scope(bindings, True, bases),
                   lambda: self._visit_all(node.body))

    def _visit_function(self, node: ast.AST, body: Sequence[ast.AST]) -> None:
        arguments = node.args
        self._visit_all([*getattr(node, "decorator_list", []),
                         *arguments.defaults, *arguments.kw_defaults])
        every = [*arguments.posonlyargs, *arguments.args,
                 *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for argument in every:
            self._visit_annotation(argument and argument.annotation)
        self._visit_annotation(getattr(node, "returns", None))
        bindings = scope_bindings(body, self._module.package)
        bindings.others |= argument_names(arguments)
        self._push(_Scope(bindings), lambda: self._visit_all(body))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node, [node.body])

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, COMPREHENSIONS):
            bindings = Bindings()
            for generator in node.generators:
                for part in ast.walk(generator.target):
                    if isinstance(part, ast.Name):
                        bindings.others.add(part.id)
            parents = super().generic_visit
            self._push(_Scope(bindings), lambda: parents(node))
        else:
            super().generic_visit(node)


_SPECIAL_CALLS = {
    "isinstance": UseFinder._visit_isinstance,
    "issubclass": UseFinder._visit_isinstance,
    "hasattr": UseFinder._visit_probe,
    "getattr": UseFinder._visit_probe,
    "setattr": UseFinder._visit_probe,
}


def _text(node: Optional[ast.AST]) -> Optional[str]:
    """The value of a literal string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _arguments(node: ast.Call) -> dict:
    """How a call gives its arguments."""
    keywords = [keyword.arg or "**" for keyword in node.keywords]
    starred = [a for a in node.args if isinstance(a, ast.Starred)]
    return {"positionals": len(node.args) - len(starred),
            "keywords": tuple(keywords + ["*"] * bool(starred))}
