"""Runs a user's script in this process, for a command of the program that
watches it: `assay determinism`, `assay fuzz`.

What the script prints goes to stderr; lines of JSON on stdout say how far it
is and how it ended: {"step": 2}, {"ended": "error", "why": ...}.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import runpy
import sys
import traceback
from typing import Any, Callable, ContextManager, Sequence, TextIO


class Enough(BaseException):
    """Ends the script after its last step; no `except Exception` of the
    script takes it for an error."""


class Reporter:
    """Keeps the process's stdout for itself; the script has no stdin."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

    def __call__(self, **message: Any) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


# watch(say): prepares and gives a context for the script to run in, which
# raises Enough once it has seen enough.
Watch = Callable[[Reporter], ContextManager]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those that every such command has."""
    parser.add_argument("--seed", type=int)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)


def run(options: argparse.Namespace, watch: Watch) -> int:
    """Runs options.script with options.args; the process's exit code."""
    say = Reporter()
    ended, why = "exit", ""
    try:
        ended = _run(options, watch, say)
    except SystemExit as end:
        if end.code not in (None, 0):
            ended = "error"
            why = (end.code if isinstance(end.code, str)
                   else f"it ended with exit code {end.code}")
    except BaseException as error:  # a script may raise anything
        ended, why = "error", _told(error, options.script)
    sys.stdout.flush()
    sys.stderr.flush()
    say(ended=ended, why=why)
    return 0 if ended != "error" else 1


def _run(options: argparse.Namespace, watch: Watch, say: Reporter) -> str:
    if importlib.util.find_spec("torch") is None:
        raise SystemExit(f"{sys.executable} has no torch; $ASSAY_PYTHON names "
                         "a Python that has")
    import assay
    if options.seed is not None:
        assay.seed_all(options.seed, deterministic=options.deterministic)
    elif options.deterministic:
        import torch
        torch.use_deterministic_algorithms(True)
    sys.argv = [options.script, *options.args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0:1] = [os.path.dirname(os.path.abspath(options.script))]
    with watch(say):
        try:
            runpy.run_path(options.script, run_name="__main__")
        except Enough:
            return "steps"
    return "exit"


def _told(error: BaseException, script: str) -> str:
    """Prints the traceback from the script's own frame on; the error in one
    line."""
    trace, frame = error.__traceback__, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == script:
            trace = frame
            break
        frame = frame.tb_next
    traceback.print_exception(type(error), error, trace)
    last: Sequence = traceback.extract_tb(trace)[-1:]
    place = f" ({last[0].filename}:{last[0].lineno})" if last else ""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}{place}"
