"""What reading a few batches changes in a loader and its parts, put back."""

from __future__ import annotations

import collections
import io
import random
import sys
import types
from typing import Any, Callable, Iterator, Optional

import torch

_MOST_OBJECTS = 4096
_MOST_ITEMS = 64  # of a container, that are looked into
_MOST_COPIED = 100_000  # of a container, that are put back
_DEPTH = 8
_CONTAINERS = (list, dict, set, collections.deque)
_LEFT_ALONE = (torch.Tensor, torch.nn.Module, type, types.ModuleType,
               types.FunctionType, types.BuiltinFunctionType)


class Kept:
    """The loader, its samplers, datasets and transforms, as they are now:
    attributes, contents of small containers, generators of random numbers,
    places in files.

    once_only: what holds an iterator, which nothing can put back; "".
    """

    def __init__(self, loader: Any) -> None:
        self.once_only = ""
        self.generators: list[torch.Generator] = []
        self._restores: list[Callable[[], None]] = []
        self._alive: list[Any] = []  # ids stay theirs
        self._seen: set[int] = set()
        self._look("loader", loader, _DEPTH)

    def restore(self) -> None:
        for restore in self._restores:
            restore()

    def _look(self, name: str, value: Any, depth: int) -> None:
        if (id(value) in self._seen or isinstance(value, _LEFT_ALONE)
                or len(self._seen) >= _MOST_OBJECTS):
            return
        self._seen.add(id(value))
        self._alive.append(value)
        if self._is_source(name, value) or depth == 0:
            return
        for key, item in list(_parts(value)):
            self._look(f"{name}.{key}", item, depth - 1)
        restore = _restore_of(value)
        if restore is not None:
            self._restores.append(restore)

    def _is_source(self, name: str, value: Any) -> bool:
        """Of random numbers or of data."""
        numpy = sys.modules.get("numpy")
        if isinstance(value, torch.Generator):
            self.generators.append(value)
        elif isinstance(value, random.Random):
            _keep(self._restores, value.getstate, value.setstate)
        elif numpy is not None and isinstance(value, numpy.random.Generator):
            self._keep_bits(value.bit_generator)
        elif numpy is not None and isinstance(value, numpy.random.RandomState):
            _keep(self._restores, value.get_state, value.set_state)
        elif isinstance(value, io.IOBase):
            try:
                _keep(self._restores, value.tell, value.seek)
            except (OSError, ValueError):  # a pipe, or closed
                self.once_only = self.once_only or name
        elif hasattr(type(value), "__next__"):
            self.once_only = self.once_only or name
        else:
            return False
        return True

    def _keep_bits(self, bits: Any) -> None:
        state = bits.state

        def restore() -> None:
            bits.state = state

        self._restores.append(restore)


def _keep(restores: list, get: Callable[[], Any],
          put: Callable[[Any], Any]) -> None:
    state = get()
    restores.append(lambda: put(state))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        items = enumerate(value)
    else:
        items = getattr(value, "__dict__", {}).items()
        yield from ((str(key), item) for key, item in items)
        return
    for i, (key, item) in enumerate(items):
        if i == _MOST_ITEMS:
            return
        yield str(key), item


def _restore_of(value: Any) -> Optional[Callable[[], None]]:
    if isinstance(value, _CONTAINERS):
        return _contents(value)
    attributes = getattr(value, "__dict__", None)
    if not isinstance(attributes, dict):
        return None
    return _contents(attributes)


def _contents(holder: Any) -> Optional[Callable[[], None]]:
    if len(holder) > _MOST_COPIED:
        return None
    kept = dict(holder) if isinstance(holder, dict) else list(holder)

    def restore() -> None:
        holder.clear()
        if isinstance(holder, (list, collections.deque)):
            holder.extend(kept)
        else:
            holder.update(kept)

    return restore
