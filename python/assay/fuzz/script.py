"""Runs one script under a Fuzz, in a process of its own.

Started by `assay fuzz`; assay/script.py says how it tells what happens. Rows
go to --journal as they come.
"""

from __future__ import annotations

import argparse
from typing import Any, Optional, Sequence

from assay import script


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = _parsed(arguments)

    def watch(say: script.Reporter) -> Any:
        from assay.determinism.watch import Roots, ScriptWatch
        from assay.fuzz.check import Fuzz
        roots = Roots()
        check = Fuzz(roots, mode=options.mode, stage=options.stage,
                     only=options.only, sample=options.sample,
                     seed=options.sample_seed, wide=options.wide,
                     noise=options.noise, standard=options.standard,
                     journal=options.journal)
        return ScriptWatch(check, roots, options.steps,
                           lambda step: say(step=step), at_once=True)

    return script.run(options, watch)


def _parsed(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="assay.fuzz", description=__doc__)
    parser.add_argument("--journal", required=True)
    parser.add_argument("--mode", default="improve_precision")
    parser.add_argument("--stage", default="forward")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--sample", type=float, default=1.0)
    parser.add_argument("--sample-seed", type=int, default=0)
    parser.add_argument("--wide")
    parser.add_argument("--noise", type=float)
    parser.add_argument("--standard", default="assay")
    script.add_arguments(parser)
    return parser.parse_args(arguments)
