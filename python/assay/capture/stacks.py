"""Call stacks of operators: the user's frames, innermost first."""

from __future__ import annotations

import os
import sys
from typing import Callable

import torch

from assay.capture.leaves import utf8

MAX_FRAMES = 24
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


class Stacks:
    """Numbers stacks; the same lines of code are written once."""

    def __init__(self, write: Callable[[list[str]], int]) -> None:
        self._write = write
        self._known: dict[tuple, int] = {}
        self._foreign: dict[str, bool] = {}

    def here(self) -> int:
        """The number of the caller's stack; -1 where no frame is the
        user's (the backward pass runs under none)."""
        frame = sys._getframe(1)
        key = []
        foreign = self._foreign
        while frame is not None and len(key) < 2 * MAX_FRAMES:
            code = frame.f_code
            skip = foreign.get(code.co_filename)
            if skip is None:
                skip = code.co_filename.startswith((_HERE, _TORCH))
                foreign[code.co_filename] = skip
            if not skip:
                key.append(code)
                key.append(frame.f_lineno)
            frame = frame.f_back
        if not key:
            return -1
        known = self._known.get(tuple(key))
        if known is None:
            known = self._write([
                utf8(f"{code.co_filename}:{line} in {code.co_name}")
                for code, line in zip(key[::2], key[1::2])])
            self._known[tuple(key)] = known
        return known
