"""Python sources below given paths, parsed; what cannot be read is named.

Sources of others are hostile input: links that lead out of the tree, files of
gigabytes, bytes that are no text and code nested deeper than the parser's
stack each become a `Problem`, and the rest goes on.
"""

from __future__ import annotations

import ast
import os
import stat
import warnings
from dataclasses import dataclass
from typing import Iterator, Optional, Union

# The largest hand-written Python files are a few hundred kilobytes.
MAX_BYTES = 8 << 20
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True)
class Problem:
    """A file that was not read, or not wholly."""

    file: str
    reason: str
    line: int = 0

    def as_json(self) -> dict:
        entry: dict = {"file": self.file, "reason": self.reason}
        if self.line:
            entry["line"] = self.line
        return entry


@dataclass(frozen=True)
class Source:
    """One file: where it is, and its module's name as parts of the path."""

    path: str  # as reported: the given path and what is below it
    parts: tuple[str, ...]  # absolute, without `.py` and `__init__`
    is_package: bool


def _parts(path: str) -> tuple[tuple[str, ...], bool]:
    stem = os.path.abspath(path)[:-len(".py")]
    parts = tuple(p for p in stem.split(os.sep) if p)
    if parts[-1] == "__init__":
        return parts[:-1], True
    return parts, False


def _leads_out(path: str, root: str) -> bool:
    real, base = os.path.realpath(path), os.path.realpath(root)
    return real != base and not real.startswith(base + os.sep)


def find_sources(root: str) -> Iterator[Union[Source, Problem]]:
    """Every `.py` below `root` (or `root` itself), by name.

    Raises OSError where `root` is not there.
    """
    if not stat.S_ISDIR(os.stat(root).st_mode):
        yield Source(root, *_parts(root))
        return

    def unlistable(error: OSError) -> None:
        problems.append(Problem(str(error.filename), f"{error.strerror}"))

    problems: list[Problem] = []
    for folder, folders, names in os.walk(root, onerror=unlistable):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS
                            and not f.startswith("."))
        for name in folders:
            path = os.path.join(folder, name)
            if os.path.islink(path) and _leads_out(path, root):
                yield Problem(path, "link out of the tree, not followed")
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            if os.path.islink(path) and _leads_out(path, root):
                yield Problem(path, "link out of the tree, not followed")
            elif not os.path.isfile(path):
                yield Problem(path, "no regular file")
            else:
                yield Source(path, *_parts(path))
    yield from problems


def read_bytes(source: Source) -> Union[bytes, Problem]:
    """The bytes of a file that is not too large."""
    try:
        with open(source.path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return Problem(source.path, error.strerror or str(error))
    if len(data) > MAX_BYTES:
        return Problem(source.path, f"larger than {MAX_BYTES >> 20} MiB")
    return data


def parse(source: Source, data: bytes) -> Union[ast.Module, Problem]:
    """The syntax tree, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in strings of others
            return ast.parse(data, filename=source.path)
    except SyntaxError as error:
        return Problem(source.path, f"syntax error: {error.msg}",
                       _line(error.lineno))
    except (RecursionError, MemoryError):
        return Problem(source.path, "nested too deeply for the parser")
    except ValueError as error:  # null bytes
        return Problem(source.path, f"no source text: {error}")


def _line(line: Optional[int]) -> int:
    return line if isinstance(line, int) else 0
