"""What a capture costs beside the plain step, and beside msprobe doing the
same; appends lines to the table given.

    bench_capture.py PACKAGE TABLE.tsv WORKDIR

PACKAGE: the folder that holds assay/ with its C++ module, for this
interpreter. Columns: name, ours, peer, ratio, goal, ok|short.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(package, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(package)}
    result = subprocess.run(
        [sys.executable, HERE / "run_capture.py", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        text=True, check=True)
    return json.loads(result.stdout.strip().splitlines()[-1])


def add(table, name, ours, peer, ratio, goal, at_most):
    good = ratio <= goal if at_most else ratio >= goal
    line = "\t".join([name, ours, peer, f"{ratio:.3g}",
                      f"{'<=' if at_most else '>='} {goal:g}",
                      "ok" if good else "short"])
    with open(table, "a") as out:
        out.write(line + "\n")
    print(line.replace("\t", "  "), flush=True)


def main():
    package, table, work = sys.argv[1:]
    for mode, goal in (("statistics", 1.15), ("tensor", 1.6)):
        ours = run(package, "assay", mode, 9, work)
        peer = run(package, "msprobe", mode, 3, work)
        add(table, f"{mode} capture, mix level, against the plain step",
            f"{ours['captured']:.3f} s", f"{ours['plain']:.3f} s",
            ours["captured"] / ours["plain"], goal, True)
        add(table, f"{mode} capture, against msprobe",
            f"{ours['captured']:.3f} s", f"{peer['captured']:.3f} s",
            peer["captured"] / ours["captured"],
            5 if mode == "tensor" else 1, False)
        add(table, f"{mode} trace, bytes against msprobe's",
            f"{ours['bytes'] / 1e6:.1f} MB", f"{peer['bytes'] / 1e6:.1f} MB",
            ours["bytes"] / peer["bytes"], 0.55, True)


main()
