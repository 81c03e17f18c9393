"""What a perturbation check costs beside the plain training step of
bench/capture; appends lines to the table given.

    bench_fuzz.py PACKAGE TABLE.tsv [ROUNDS]

PACKAGE: the folder that holds assay/ with its C++ module, for this
interpreter. Columns: name, ours, peer, ratio, goal, ok|short.
"""

import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# The cheapest mode must be fit for every step; the others for a sample.
CASES = (("repeat", {}, 4), ("improve_precision", {}, None),
         ("add_noise", {}, None), ("bit_noise", {}, None), ("swap", {}, None),
         ("repeat", {"stage": "backward"}, None),
         ("improve_precision", {"sample": 0.1}, None))


def timed(body):
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def measured(step, options, rounds):
    """Median seconds of the plain and of the checked step, in turn."""
    import assay
    plain, checked = [], []
    for _ in range(rounds + 1):
        plain.append(timed(step))
        check = assay.fuzz(step.model, **options)

        def body():
            with check:
                step()

        checked.append(timed(body))
        report = check.report
        assert report.matched, report
    return statistics.median(plain[1:]), statistics.median(checked[1:])


def main():
    package, table = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    sys.path[:0] = [package, str(HERE.parent / "capture")]
    from gpt_step import Step
    step = Step()
    load = os.getloadavg()[0]
    for mode, options, goal in CASES:
        plain, checked = measured(step, {"mode": mode, **options}, rounds)
        words = [mode, *(f"{key} {value}" for key, value in options.items())]
        ratio = checked / plain
        verdict = "" if goal is None else "ok" if ratio <= goal else "short"
        line = "\t".join([
            f"fuzz, {', '.join(words)}, against the plain step (load "
            f"{load:.1f})", f"{checked:.3f} s", f"{plain:.3f} s",
            f"{ratio:.3g}", "" if goal is None else f"<= {goal}", verdict])
        with open(table, "a") as out:
            out.write(line + "\n")
        print(line.replace("\t", "  "), flush=True)


main()
