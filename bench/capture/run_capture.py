"""Times steps with and without a capture, in turn, in one process.

    run_capture.py assay|msprobe statistics|tensor ROUNDS WORKDIR

Prints one JSON object: median seconds of the plain and of the captured step
(from before start until the trace is complete), and the trace's bytes.
"""

import json
import os
import pathlib
import shutil
import statistics
import sys
import time

from gpt_step import Step


def assay_capture(mode, out, step):
    import assay
    capture = assay.Capture(out, step.model, level="mix", mode=mode)
    capture.start()
    step()
    capture.stop()
    capture.step()


def msprobe_capture(debugger, step):
    debugger.start(model=step.model)
    step()
    debugger.stop()
    debugger.step()


def msprobe_debugger(mode, out):
    from msprobe.pytorch import PrecisionDebugger
    config = out.parent / "config.json"
    task = {"scope": [], "list": [], "data_mode": ["all"],
            "summary_mode": "statistics"}
    config.write_text(json.dumps({
        "task": mode, "dump_path": str(out), "rank": [], "step": [],
        "level": "mix", "statistics": task, "tensor": task}))
    return PrecisionDebugger(config_path=str(config))


def bytes_below(folder):
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def timed(body):
    start = time.perf_counter()
    body()
    return time.perf_counter() - start


def main():
    tool, mode, rounds, work = sys.argv[1:]
    out = pathlib.Path(work) / f"{tool}_{mode}"
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    step = Step()
    if tool == "assay":
        def captured(i):
            assay_capture(mode, out / str(i), step)
    else:
        debugger = msprobe_debugger(mode, out)

        def captured(i):
            msprobe_capture(debugger, step)
    step()
    plain, seen, size = [], [], 0
    for i in range(int(rounds)):
        plain.append(timed(step))
        seen.append(timed(lambda: captured(i)))
        size = bytes_below(out)
        for folder in out.iterdir():
            shutil.rmtree(folder)
    print(json.dumps({"plain": statistics.median(plain[1:] or plain),
                      "captured": statistics.median(seen[1:] or seen),
                      "bytes": size}))


os.environ.setdefault("PYTHONHASHSEED", "0")
main()
