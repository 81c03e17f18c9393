"""Runs one script under a ScriptWatch, in a process of its own.

What the script prints goes to stderr; lines of JSON on stdout say how far it
is and how it ended: {"step": 2}, {"ended": "error", "why": ...}. Started by
`assay determinism`, or `python -m assay.determinism`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import runpy
import sys
import traceback
from typing import Any, Optional, Sequence, TextIO


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = _parsed(arguments)
    say = _Reporter()
    ended, why = "exit", ""
    try:
        ended = _run(options, say)
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


def _parsed(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="assay.determinism", description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--level", default="mix",
                        choices=("module", "api", "mix"))
    parser.add_argument("--mode", default="hash", choices=("hash", "tensor"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("script")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


class _Reporter:
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


def _run(options: argparse.Namespace, say: _Reporter) -> str:
    if importlib.util.find_spec("torch") is None:
        raise SystemExit(f"{sys.executable} has no torch; $ASSAY_PYTHON names "
                         "a Python that has")
    import assay
    from assay.determinism.watch import Enough, ScriptWatch
    if options.seed is not None:
        assay.seed_all(options.seed, deterministic=options.deterministic)
    elif options.deterministic:
        import torch
        torch.use_deterministic_algorithms(True)
    sys.argv = [options.script, *options.args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0:1] = [os.path.dirname(os.path.abspath(options.script))]
    watch = ScriptWatch(options.out, options.level, options.mode,
                        options.steps, lambda step: say(step=step))
    with watch:
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
    last = traceback.extract_tb(trace)[-1:]
    place = f" ({last[0].filename}:{last[0].lineno})" if last else ""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}{place}"
