"""Fingerprints of batches: of the first ones, or of those that pass."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import itertools
import pathlib
from typing import Any, Iterator, Optional

from assay import _core
from assay.env.document import Path, document, write
from assay.env.prints import print_of
from assay.tensors import is_tensor

_MOST_LEAVES = 256  # of one batch
_DEPTH = 16
# Their repr() says all.
_WORDS = (str, bytes, int, float, complex, type(None), enum.Enum,
          pathlib.PurePath, decimal.Decimal, datetime.date,
          datetime.timedelta)


class watch_data:
    """Iterates `loader` as it is, and fingerprints the first batches that
    pass.

        for batch in assay.env.watch_data(loader, "data.json", batches=8):

    The file is there once they have passed, or the loop has ended. Goes on
    where the loop is entered again (epochs). Other attributes are the
    loader's.
    """

    def __init__(self, loader: Any, path: Optional[Path] = "data.json",
                 batches: int = 8) -> None:
        if batches < 1:
            raise ValueError(f"watch_data: batches is {batches}, expected 1 "
                             "or more")
        self._loader, self._path, self._most = loader, path, batches
        self._seen: list[list[dict]] = []
        self._written = False

    def __iter__(self) -> Iterator[Any]:
        try:
            for batch in self._loader:
                if len(self._seen) < self._most:
                    self._seen.append(leaves_of(batch))
                    if len(self._seen) == self._most:
                        self._write()
                yield batch
        finally:
            self._write()

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_loader"], name)

    def _write(self) -> None:
        if self._written or not self._seen or self._path is None:
            return
        made = document()
        made["sections"]["data"] = {"collected": True}
        made["batches"] = self._seen
        write(self._path, made)
        self._written = len(self._seen) == self._most


def leaves_of(batch: Any) -> list[dict[str, Any]]:
    """The fingerprint of every tensor, and of every other value, in it."""
    found: list[dict[str, Any]] = []
    for name, value in _walk("", batch, _DEPTH):
        if len(found) == _MOST_LEAVES:
            found.append(_no_print("...", value, f"more than {_MOST_LEAVES} "
                                   "values: the others are not recorded"))
            break
        if is_tensor(value) and not isinstance(value, (bool, int, float,
                                                       complex)):
            found.append(print_of(name, "batch", value, rows=True))
        else:
            found.append(_plain(name, value))
    return found


def _walk(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    items: Any = None
    if depth > 0:
        if isinstance(value, dict) or (hasattr(value, "items")
                                       and hasattr(value, "keys")):
            items = value.items()
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            items = ((field.name, getattr(value, field.name, None))
                     for field in dataclasses.fields(value))
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            items = zip(value._fields, value)
        elif isinstance(value, (list, tuple)) and not _is_text_list(value):
            items = enumerate(value)
    if items is None:
        yield name, value
        return
    for key, item in items:
        yield from _walk(f"{name}.{key}" if name else str(key), item,
                         depth - 1)


def _is_text_list(value: Any) -> bool:
    return bool(value) and all(isinstance(item, _WORDS) for item in value)


def _plain(name: str, value: Any) -> dict[str, Any]:
    """Of texts and numbers: of other classes nobody knows whether repr() says
    all there is in them."""
    if not isinstance(value, (*_WORDS, list, tuple, dict)) or (
            value and isinstance(value, (list, tuple, dict))
            and not _is_text_list(value)):
        return _no_print(name, value, f"a {type(value).__name__} has no "
                         "values to compare")
    return {**_described(name, value), "hash": _core.hash_text(repr(value))}


def _described(name: str, value: Any) -> dict[str, Any]:
    return {"name": name, "role": "batch", "dtype": type(value).__name__,
            "shape": [len(value)] if isinstance(value, (list, tuple)) else []}


def _no_print(name: str, value: Any, why: str) -> dict[str, Any]:
    return {**_described(name, value), "hash": "", "unreadable": why}


def first_batches(loader: Any, count: int) -> tuple[list, list[str]]:
    """Fingerprints of what a fresh iterator gives first, and what could not
    be had. Generators of this process are put back."""
    why = _once_only(loader)
    if why:
        return [], [f"batches: {why}; assay.env.watch_data sees what passes"]
    from assay.determinism.state import Snapshot
    from assay.env.kept import Kept
    loaders = Kept(loader)
    if loaders.once_only:
        return [], [f"batches: {loaders.once_only} can be read once; "
                    "assay.env.watch_data sees what passes"]
    kept = Snapshot(loaders.generators)
    found: list = []
    try:
        iterator = iter(loader)
        try:
            for batch in itertools.islice(iterator, count):
                found.append(leaves_of(batch))
        finally:
            del iterator  # ends its workers
    finally:
        loaders.restore()
        kept.restore()
    if len(found) < count:
        return found, [f"batches: the loader has {len(found)}, {count} were "
                       "asked for"]
    return found, []


def _once_only(loader: Any) -> str:
    """Why a fresh iterator would take something from the training; ""."""
    if hasattr(loader, "__next__"):
        return "an iterator can be read once"
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        return f"a {type(loader).__name__} cannot be iterated"
    dataset = getattr(loader, "dataset", None)
    if hasattr(dataset, "__next__"):
        return "its dataset is an iterator, which can be read once"
    running = getattr(loader, "_iterator", None)
    if getattr(loader, "persistent_workers", False) and running is not None:
        return "its workers persist and are at work already"
    return ""
