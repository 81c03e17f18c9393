"""Every use of an API under a root, as one JSON document."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from typing import Iterable, Optional, Sequence

from assay.api.files import Problem, Source, find_sources, parse, read_bytes
from assay.api.modules import Module, ModuleIndex, read_module
from assay.api.uses import KINDS, Use, UseFinder

SCHEMA = 1
FLAG_KINDS = frozenset({"store"})


def default_roots(root: str) -> list[str]:
    """`root` and its compiled companion: transformer_engine_torch."""
    return [root, f"{root}_torch"]


def scan(sources: Sequence[str], roots: Iterable[str],
         without: Iterable[str] = ()) -> dict:
    """The inventory of everything below `sources` as a JSON value.

    `without` leaves kinds of uses out of it. Raises OSError where a source is
    not there.
    """
    roots = sorted(set(roots))
    index = ModuleIndex(roots)
    problems: list[Problem] = []
    found: list[tuple[Source, Module]] = []
    files: set = set()
    for root in sources:
        for entry in find_sources(root):
            if isinstance(entry, Problem):
                problems.append(entry)
            elif entry.parts not in files or entry.is_package:
                files.add(entry.parts)
                module = _read(entry, problems)
                if module:
                    found.append((entry, module))
                    index.add(module)
    uses: dict[str, list[Use]] = {}
    for source, module in found:
        mine = _uses_of(source, module, index, problems)
        mine = [use for use in mine if use.kind not in set(without)]
        if mine:
            uses[source.path] = mine
    return _document(sources, roots, without, len(found), problems, uses)


def _read(source: Source, problems: list[Problem]) -> Optional[Module]:
    data = read_bytes(source)
    tree = data if isinstance(data, Problem) else parse(source, data)
    if isinstance(tree, Problem):
        problems.append(tree)
        return None
    try:
        return read_module(source, tree)
    except RecursionError:
        problems.append(Problem(source.path, "nested too deeply"))
        return None


def _uses_of(source: Source, module: Module, index: ModuleIndex,
             problems: list[Problem]) -> list[Use]:
    """Parses again: all trees of a large code base at once fill the memory."""
    data = read_bytes(source)
    tree = data if isinstance(data, Problem) else parse(source, data)
    if isinstance(tree, Problem):
        problems.append(tree)
        return []
    finder = UseFinder(module, index)
    try:
        finder.visit(tree)
    except RecursionError:
        problems.append(Problem(source.path, "nested too deeply"))
        return []
    for use in finder.uses:
        if use.alias == "*":
            problems.append(Problem(
                source.path, f"names of `from {'.'.join(use.path)} import *` "
                "are not followed", use.line))
    return finder.uses


def fold(path: Sequence[str], flags: set) -> tuple[str, str]:
    """("a.b.Class", "member.of.it") of a path.

    What begins with a capital, underscores aside, is taken as a class: names
    below it are its members. A module's attribute that is only ever assigned
    is a flag of the module.
    """
    if tuple(path) in flags:
        return ".".join(path[:-1]), path[-1]
    for i, part in enumerate(path):
        if part.lstrip("_")[:1].isupper():
            return ".".join(path[:i + 1]), ".".join(path[i + 1:])
    if len(path) > 2 and path[-1].startswith("__"):
        return ".".join(path[:-1]), path[-1]
    return ".".join(path), ""


def _flags(uses: dict[str, list[Use]]) -> set:
    kinds: dict = defaultdict(set)
    for some in uses.values():
        for use in some:
            kinds[use.path].add(use.kind)
    return {path for path, seen in kinds.items()
            if seen <= FLAG_KINDS and len(path) > 1
            and path[-1].lstrip("_")[:1].isupper()}


def _site(file: str, use: Use, member: str) -> dict:
    site: dict = {"file": file, "line": use.line, "kind": use.kind}
    if member:
        site["member"] = member
    if use.alias:
        site["alias"] = use.alias
    if use.positionals is not None:
        site["positionals"] = use.positionals
        site["keywords"] = list(use.keywords)
    return site


def _api(name: str, sites: list[dict]) -> dict:
    keywords = {k for site in sites for k in site.get("keywords", ())}
    return {
        "name": name,
        "uses": len(sites),
        "kinds": _counts(site["kind"] for site in sites),
        "members": sorted({s["member"] for s in sites if "member" in s}),
        "positionals": max(s.get("positionals", 0) for s in sites),
        "keywords": sorted(keywords),
        "files": dict(sorted(Counter(s["file"] for s in sites).items())),
        "sites": sites,
    }


def _counts(kinds: Iterable[str]) -> dict[str, int]:
    counts = Counter(kinds)
    return {kind: counts[kind] for kind in KINDS if counts[kind]}


def _document(sources: Sequence[str], roots: Sequence[str],
              without: Iterable[str], read: int, problems: list[Problem],
              uses: dict[str, list[Use]]) -> dict:
    flags = _flags(uses)
    by_api: dict[str, list[dict]] = defaultdict(list)
    unfolded = set()
    for file in sorted(uses):
        for use in sorted(uses[file], key=lambda u: (u.line, u.path)):
            name, member = fold(use.path, flags)
            unfolded.add(use.path)
            by_api[name].append(_site(file, use, member))
    apis = [_api(name, by_api[name]) for name in sorted(by_api)]
    return {
        "assay_api_scan": SCHEMA,
        "python": platform.python_version(),
        "roots": list(roots),
        "sources": list(sources),
        "without": sorted(set(without)),
        "files_read": read,
        "problems": [p.as_json() for p in sorted(
            problems, key=lambda p: (p.file, p.line, p.reason))],
        "totals": {
            "uses": sum(api["uses"] for api in apis),
            "apis": len(apis),
            "apis_with_members": len(unfolded),
            "files": len(uses),
            "kinds": _counts(s["kind"] for api in apis for s in api["sites"]),
        },
        "apis": apis,
    }
