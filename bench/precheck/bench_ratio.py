#!/usr/bin/env python3
"""`assay precheck compare` beside msprobe's api_precision_compare.

Both read two details csv files of one kind: bf16 outputs of the benchmark
rule, forward and backward, figures as acc_check prints them. Ours is timed as
a whole process, with both of msprobe's files written; msprobe, as the call of
its function in a process that has imported it already. Its join is quadratic:
it gets fewer rows, and rates are compared.

    build/venv-bench/bin/python bench/precheck/bench_ratio.py [TABLE.tsv]
        [--rows N] [--peer-rows N]

Appends lines to the table given: name, ours, peer, ratio, goal, ok|short.
"""

import argparse
import contextlib
import csv
import io
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASSAY = ROOT / "build/release/bin/assay"
HEADING = (
    "API Name,Bench Dtype,DEVICE Dtype,Shape,余弦相似度,最大绝对误差,双百指标,"
    "双千指标,双万指标,二进制一致错误率,误差均衡性,均方根误差,小值域错误占比,"
    "相对误差最大值,相对误差平均值,inf/nan错误率,相对误差错误率,"
    "绝对误差错误率,ULP误差最大值,ULP误差平均值,ULP误差大于阈值占比,Status,"
    "Message").split(",")
MESSAGE = ("\nMax abs error is less than 0.001, consider as pass, skip other "
           "check and set to SPACE.\n")


def write_details(path, rows, seed):
    """A csv of `rows` outputs, two of each call."""
    draw = random.Random(seed)
    names = random.Random(0)  # alike on both devices
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(HEADING)
        for i in range(rows):
            api = names.choice(["Torch.matmul", "Functional.layer_norm",
                                "Torch.add", "Functional.embedding"])
            if i % 2 == 0:
                call = f"{api}.{i // 2}"
            direction = "backward" if i % 2 else "forward"
            figures = [f"{draw.uniform(0.5, 1.5) * scale:.14f}"
                       for scale in (0.01, 1e-3, 1e-4, 1e-2, 1e-3)]
            writer.writerow([f"{call}.{direction}.output.0", "torch.float32",
                             "torch.bfloat16", "(1024, 4096)",
                             "0.99999935231315", "0.00024833", *" " * 4,
                             *figures, *" " * 6, "pass", MESSAGE])


def ours(folder, repeats):
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        done = subprocess.run(
            [ASSAY, "precheck", "compare", f"{folder}/device.csv",
             f"{folder}/reference.csv", "--quiet", "--details",
             f"{folder}/details.csv", "--result", f"{folder}/result.csv"],
            stdout=subprocess.DEVNULL, check=False)
        seconds.append(time.perf_counter() - began)
        if done.returncode not in (0, 1):
            sys.exit(f"assay precheck compare: exit {done.returncode}")
    return statistics.median(seconds)


def msprobe(folder):
    from msprobe.pytorch.api_accuracy_checker.compare import (
        api_precision_compare as peer)
    config = peer.CompareConfig(f"{folder}/device.csv",
                                f"{folder}/reference.csv",
                                f"{folder}/peer_result.csv",
                                f"{folder}/peer_details.csv")
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        peer.api_precision_compare(config)
    return time.perf_counter() - began


def in_folder(rows, measure):
    with tempfile.TemporaryDirectory() as folder:
        write_details(f"{folder}/device.csv", rows, 1)
        write_details(f"{folder}/reference.csv", rows, 2)
        return rows / measure(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table", nargs="?")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--peer-rows", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f}")
    rate = in_folder(args.rows, lambda f: ours(f, args.repeats))
    print(f"assay    {args.rows:7} rows  {args.rows / rate:7.2f} s  "
          f"{rate:9.0f} rows/s")
    few = in_folder(args.peer_rows, lambda f: ours(f, args.repeats))
    print(f"assay    {args.peer_rows:7} rows  {args.peer_rows / few:7.2f} s  "
          f"{few:9.0f} rows/s")
    theirs = in_folder(args.peer_rows, msprobe)
    print(f"msprobe  {args.peer_rows:7} rows  {args.peer_rows / theirs:7.2f} s"
          f"  {theirs:9.0f} rows/s")
    print(f"ratio {rate / theirs:.0f} ({few / theirs:.0f} at "
          f"{args.peer_rows} rows)")
    if args.table:
        add(args.table, f"precheck compare, {args.rows:,} rows, seconds",
            f"{args.rows / rate:.2f} s", "-", args.rows / rate, "<= 2",
            args.rows / rate <= 2)
        add(args.table, "precheck compare, rows/s against msprobe",
            f"{rate:.3g}", f"{theirs:.3g}", rate / theirs, ">= 20",
            rate / theirs >= 20)


def add(table, name, ours, peer, ratio, goal, good):
    with open(table, "a", encoding="utf-8") as out:
        out.write("\t".join([name, ours, peer, f"{ratio:.3g}", goal,
                             "ok" if good else "short"]) + "\n")


if __name__ == "__main__":
    main()
