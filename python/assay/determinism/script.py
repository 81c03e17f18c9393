"""Runs one script under a ScriptWatch, in a process of its own.

Started by `assay determinism`, or `python -m assay.determinism`;
assay/script.py says how it tells what happens.
"""

from __future__ import annotations

import argparse
import pathlib
from typing import Any, Optional, Sequence

from assay import script


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = _parsed(arguments)

    def watch(say: script.Reporter) -> Any:
        from assay.determinism.watch import script_watch
        return script_watch(options.out, options.level, options.mode,
                            options.steps, lambda step: say(step=step))

    return script.run(options, watch)


def _parsed(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="assay.determinism", description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--level", default="mix",
                        choices=("module", "api", "mix"))
    parser.add_argument("--mode", default="hash", choices=("hash", "tensor"))
    script.add_arguments(parser)
    return parser.parse_args(arguments)
