"""record_random: which calls draw random numbers, in their order."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any, Callable, Optional

from assay import _core
from assay.env.document import Path, document, write
from assay.env.draw_names import (NUMPY, PYTHON, SEEDS, Torch, draws_nothing,
                                  torch_functions)
from assay.tensors import Unreadable, host_view

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAMES = 16
_MOST_TEXT = 1 << 20  # of a repr() that is hashed


class record_random:
    """Records every call that draws, until the end of the `with`.

        with assay.env.record_random("random.json"):
            train()

    Python's random, numpy.random and torch, called from this thread: function,
    arguments without devices, where in the program, and on the host a hash of
    what was drawn (of dropout: nothing, its output is no draw). The first
    `limit` calls are listed; a hash over all of them and their counts are
    kept beyond. Everything is put back at the end, also after an error.

    Not seen: other threads and processes (a DataLoader's workers), functions
    imported by name before (`from random import random`), methods of
    generators that numpy.random.default_rng() made (its call is seen), and
    what a compiled graph draws.
    """

    def __init__(self, path: Optional[Path] = "random.json",
                 limit: int = 10000) -> None:
        self._path, self._limit = path, limit
        self._mode: Any = None
        self._undo: list[Callable[[], None]] = []
        self._inside = False
        self._calls: list[dict[str, Any]] = []
        self._counts: dict[str, int] = {}
        self._stacks: dict[tuple, int] = {}
        self._listed_stacks: list[list[str]] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self.result: dict = {}

    def __enter__(self) -> record_random:
        import random
        _functions(self, "random", random, PYTHON)
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            _functions(self, "numpy.random", numpy.random, NUMPY)
        torch = sys.modules.get("torch")
        if torch is not None:
            self._skip = (_HERE, os.path.dirname(
                os.path.abspath(torch.__file__)) + os.sep)
            self._mode = Torch(self.call, torch_functions(torch))
            self._mode.__enter__()
            _functions(self, "torch", torch, SEEDS)
        else:
            self._skip = (_HERE,)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        while self._undo:
            self._undo.pop()()
        if self._mode is not None:
            self._mode.__exit__(kind, error, trace)
            self._mode = None
        self.result = self._written()

    def patch(self, module: Any, name: str, label: str) -> None:
        """Replaces a function of a module by one that records its calls."""
        plain = getattr(module, name)

        def recorded(*args: Any, **kwargs: Any) -> Any:
            return self.call(label, plain, args, kwargs)

        recorded.__name__ = name
        recorded.__doc__ = getattr(plain, "__doc__", None)

        def undo() -> None:
            if getattr(module, name, None) is recorded:
                setattr(module, name, plain)

        setattr(module, name, recorded)
        self._undo.append(undo)

    def call(self, label: str, function: Callable, args: tuple,
             kwargs: dict) -> Any:
        """Calls it; what it calls in its turn is part of the same draw."""
        if self._inside or draws_nothing(label, args, kwargs):
            return function(*args, **kwargs)
        self._inside = True
        try:
            arguments = _arguments(args, kwargs)
            result = function(*args, **kwargs)
        finally:
            self._inside = False
        self._record(label, arguments, _drawn(label, arguments, args, result))
        return result

    def _record(self, label: str, arguments: str, drawn: str) -> None:
        self._counts[label] = self._counts.get(label, 0) + 1
        self._hash.update(f"{label}({arguments})\n".encode(
            errors="surrogatepass"))
        if len(self._calls) >= self._limit:
            return
        made = {"function": label, "arguments": arguments,
                "stack": self._stack()}
        if drawn:
            made["result"] = drawn
        if made["stack"] < 0:
            del made["stack"]
        self._calls.append(made)

    def _stack(self) -> int:
        frame, key = sys._getframe(1), []
        while frame is not None and len(key) < 2 * _FRAMES:
            code = frame.f_code
            if not code.co_filename.startswith(self._skip):
                key += [code, frame.f_lineno]
            frame = frame.f_back
        if not key:
            return -1
        number = self._stacks.setdefault(tuple(key), len(self._stacks))
        if number == len(self._listed_stacks):
            self._listed_stacks.append([
                f"{code.co_filename}:{line} in {code.co_name}"
                for code, line in zip(key[::2], key[1::2])])
        return number

    def _written(self) -> dict:
        made = document()
        made["sections"]["random"] = {
            "collected": True,
            "values": {f"count.{name}": count
                       for name, count in sorted(self._counts.items())}}
        made["draws"] = {"count": sum(self._counts.values()),
                         "hash": self._hash.hexdigest(),
                         "first": self._calls, "stacks": self._listed_stacks}
        return write(self._path, made)


def _functions(record: record_random, prefix: str, module: Any,
               names: tuple[str, ...]) -> None:
    for name in names:
        if callable(getattr(module, name, None)):
            record.patch(module, name, f"{prefix}.{name}")


# Where a tensor is, and how it is kept, is no part of what is drawn.
_LEFT_OUT = frozenset(("device", "out", "pin_memory", "layout",
                       "requires_grad", "memory_format", "non_blocking"))


def _arguments(args: tuple, kwargs: dict) -> str:
    parts = [_shown(value, 4) for value in args]
    parts += [f"{name}={_shown(value, 4)}"
              for name, value in sorted(kwargs.items())
              if name not in _LEFT_OUT]
    return ", ".join(parts)


def _shown(value: Any, depth: int) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str):
        return repr(value[:40])
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        dtype = str(value.dtype).replace("torch.", "")
        return f"{dtype}{[int(size) for size in value.shape]}"
    if isinstance(value, (list, tuple)) and depth > 0:
        if len(value) > 8:
            return f"{type(value).__name__} of {len(value)}"
        return "[" + ", ".join(_shown(item, depth - 1)
                               for item in value) + "]"
    text = str(value) if type(value).__name__ == "dtype" else ""
    return text.replace("torch.", "") or type(value).__name__


def _drawn(label: str, arguments: str, args: tuple, result: Any) -> str:
    """A hash of the numbers, "" where there are none to be had."""
    if "dropout" in label:
        return ""  # depends on what is dropped from
    if label.endswith("seed"):
        return _core.hash_text(arguments)
    if label.endswith(".shuffle"):  # in place
        return _result(args[0]) if args else ""
    return _result(result)


def _result(result: Any) -> str:
    """A hash of what was drawn, where it is in this host's memory."""
    device = getattr(getattr(result, "device", None), "type", "cpu")
    if device != "cpu" or result is None:
        return ""
    if hasattr(result, "dtype") and hasattr(result, "shape"):
        try:
            view, dtype = host_view(result)
            return _core.content_hash(view, dtype)
        except (Unreadable, _core.Error):
            return ""
    if isinstance(result, (bool, int, float, str, bytes, list, tuple)):
        text = repr(result)
        if len(text) <= _MOST_TEXT and " at 0x" not in text:
            return _core.hash_text(text)
    return ""
