"""What the pre-check of a whole training step takes; appends lines to the
table given.

    bench_precheck.py PACKAGE TABLE.tsv WORKDIR

PACKAGE: the folder that holds assay/ with its C++ module, for this
interpreter. The step is that of bench/capture: 8 layers of width 512. Every
signature of it is replayed once, forward and backward, on the CPU in its own
dtype and in float64: the whole command is timed, with the starts of its
workers. Columns: name, ours, peer, ratio, goal, ok|short.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ASSAY = ROOT / "build/release/bin/assay"
GOAL = 60  # seconds


def captured(mode, dtype, folder):
    import torch

    import assay
    sys.path.insert(0, str(HERE.parent / "capture"))
    from gpt_step import Step
    step = Step()
    step.model.to(dtype)
    step.x = step.x.to(dtype)
    step()
    with assay.capture(folder, step.model, level="api", mode=mode):
        step()


def prechecked(trace, work, package):
    """Seconds, and the report."""
    out, report = work / "out", work / "report.json"
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    done = subprocess.run(
        [ASSAY, "precheck", "run", trace, "--worker", "torch", "--quiet",
         "--out", out, "--json", report],
        env={**os.environ, "ASSAY_PYTHON": sys.executable,
             "PYTHONPATH": str(package)}, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - began
    print(done.stdout.strip())
    return seconds, json.loads(report.read_text())


def main():
    package, table, work = sys.argv[1:]
    work = pathlib.Path(work) / "precheck"
    shutil.rmtree(work, ignore_errors=True)
    sys.path.insert(0, package)
    import torch
    for mode, dtype in (("tensor", torch.float32), ("tensor", torch.bfloat16),
                        ("statistics", torch.bfloat16)):
        trace = work / f"{mode}_{str(dtype)[6:]}"
        captured(mode, dtype, trace)
        seconds, report = prechecked(trace, work, package)
        counts = report["counts"]
        name = (f"pre-check of a training step, {mode} trace, "
                f"{str(dtype)[6:]}, seconds")
        rows = sum(counts[verdict] for verdict in
                   ("match", "mismatch", "incomplete", "empty"))
        line = "\t".join([name, f"{seconds:.1f} s", f"{rows} rows",
                          f"{seconds:.3g}", f"<= {GOAL}",
                          "ok" if seconds <= GOAL else "short"])
        with open(table, "a") as out:
            out.write(line + "\n")
        print(line.replace("\t", "  "), flush=True)


main()
