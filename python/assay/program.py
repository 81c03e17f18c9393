"""The `assay` program that belongs to this package, and how to run it."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import IO, Any, Sequence

import assay
from assay.terminal import Shown

# What the program's exit codes say besides a verdict.
_CODES = {2: "usage", 3: "unreadable"}


def program() -> pathlib.Path:
    """bin/assay beside assay._core; in a build tree that of the build."""
    library = importlib.util.find_spec("assay._core")
    beside = pathlib.Path(library.origin if library and library.origin
                          else __file__).parent
    for path in (beside / "bin/assay", beside.parent.parent / "bin/assay"):
        if path.is_file():
            return path
    raise ImportError(f"the program assay is not in {beside}/bin: `pip install "
                      ".` in the source tree builds it")


def environment() -> dict[str, str]:
    """What of the program is Python runs on this interpreter."""
    return {"ASSAY_PYTHON": sys.executable, **os.environ}


def error(message: str, code: str) -> Exception:
    """assay.Error, as the library raises it."""
    raised = assay.Error(message)
    raised.code = code
    return raised


@dataclasses.dataclass(frozen=True)
class Done:
    """How the program ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run(arguments: Sequence[str], expected: Sequence[int] = (0,)) -> Done:
    """Runs the program; its progress is shown where stderr is a terminal.

    Ctrl-C makes it stop as it does on the command line: it finishes what it
    has in hand and keeps that, then KeyboardInterrupt is raised. A second one
    ends it at once. Raises assay.Error with what it says where it ends
    otherwise than `expected`.
    """
    done = _done([str(program()), *arguments])
    if done.returncode in expected:
        return done
    lines = done.stderr.strip().splitlines()
    said = lines[-1] if lines else f"assay ended with {done.returncode}"
    said = said[len("assay: "):] if said.startswith("assay: ") else said
    raise error(said, _CODES.get(done.returncode, "internal"))


def _done(command: Sequence[str]) -> Done:
    # Files, not pipes: an interrupt cannot lose what was read from them.
    with tempfile.TemporaryFile() as printed:
        said = Shown() if Shown.wanted() else tempfile.TemporaryFile()
        with said:
            # In a session of its own: what the terminal sends for Ctrl-C
            # comes by way of us, once, as it does in a notebook.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=said,
                env=environment(), start_new_session=True)
            _wait(process)
            if isinstance(said, Shown):
                text = said.text()
            else:
                text = _text(said)
        return Done(process.returncode, _text(printed), text)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "backslashreplace")


def _wait(process: subprocess.Popen[Any]) -> None:
    try:
        process.wait()
    except KeyboardInterrupt:
        _stop(process)
        raise
    except BaseException:  # of a signal handler, or a test's time limit
        process.terminate()
        process.wait()
        raise


def _stop(process: subprocess.Popen[Any]) -> None:
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait()
        except KeyboardInterrupt:
            continue
