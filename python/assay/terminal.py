"""Shows what the program says of its progress where stderr is a terminal."""

from __future__ import annotations

import os
import re
import sys
import threading

_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Shown:
    """A terminal for the stderr of a program: all is passed on to ours, and
    kept, for a program that fails says why in its last line."""

    @staticmethod
    def wanted() -> bool:
        """Not in a notebook, whose stderr is a file of the server."""
        try:
            return sys.stderr is not None and os.isatty(sys.stderr.fileno())
        except (OSError, ValueError):  # no file behind it, or closed
            return False

    def __init__(self) -> None:
        import pty  # Unix alone has it
        self._ours, self._theirs = pty.openpty()
        self._said = bytearray()
        self._out = sys.stderr.fileno()
        self._reader = threading.Thread(target=self._copy, daemon=True)
        self._reader.start()

    def fileno(self) -> int:
        return self._theirs

    def _copy(self) -> None:
        while True:
            try:
                part = os.read(self._ours, 4096)
            except OSError:  # so says Linux where no program holds it any more
                return
            if not part:
                return
            self._said += part
            os.write(self._out, part)

    def text(self) -> str:
        """What was said, once the program has ended."""
        self._end()
        text = self._said.decode("utf-8", "backslashreplace")
        return _CONTROL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")

    def _end(self) -> None:
        if self._theirs >= 0:
            os.close(self._theirs)
            self._theirs = -1
        self._reader.join(timeout=5)  # a process that it left may hold it

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if not self._reader.is_alive():
            os.close(self._ours)
