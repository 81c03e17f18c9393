"""What a capture could not do: told of in the trace, where it never matches,
and by one warning."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from assay import _core
from assay.capture.leaves import utf8

# As many faults are told of one by one.
MAX_FAULTS = 100


class Faults:
    """The faults of one step. Not thread-safe."""

    def __init__(self, writer: _core.CaptureWriter) -> None:
        self._writer = writer
        self.count = 0
        self.texts: list[str] = []

    def add(self, error: Exception, what: Any) -> None:
        """what: the call that was recorded, or its name."""
        text = f"{type(error).__name__}: {error}".strip(": ")
        text = " ".join(text.split())[:500]
        name = getattr(what, "stem", what) or "a call"
        self.count += 1
        if self.count > MAX_FAULTS:
            return
        self.texts.append(f"{name}: {text}")
        if self.count == 1:
            warn(f"{text}; the trace lacks what {name} holds")
        self.tell(f"fault.{self.count - 1}", name, text)

    def tell(self, op_name: str, name: str, why: str) -> None:
        """A row that never matches stands for what is not in the trace."""
        try:
            op = self._writer.op(f"{op_name}.debug", op_name, "Debug", 0, "")
            self._writer.unreadable(op, "tensor", f"tensor.{utf8(name)}", "",
                                    [], utf8(why))
        except Exception as error:  # the writer's own: there is no trace
            self.texts.append(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Tells how many there were beyond those that have a row."""
        if self.count > MAX_FAULTS:
            self.tell("fault.more", "more", f"{self.count} faults, of which "
                      f"{MAX_FAULTS} are listed")


def warn(text: str) -> None:
    """Says it once, and never raises: where warnings are errors it is
    printed."""
    try:
        warnings.warn(f"assay.capture: {text}", RuntimeWarning, stacklevel=5)
    except Warning:
        print(f"assay.capture: {text}", file=sys.stderr)
