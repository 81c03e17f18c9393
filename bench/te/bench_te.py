"""The engine's rows: ours, a copy of the same bytes, and torch, in one run.

usage: bench_te.py BENCH_TE TABLE [--only GLOB] [--rounds N] [--no-torch]

Appends to TABLE: name, ours, peer, ratio, goal, ok or short. Each round runs
the C++ side (which interleaves ours with its own peers) and then torch; the
table holds the median of the rounds.
"""

import argparse
import fnmatch
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
RUNS = 5
LEAST_SECONDS = 0.02


def load_peers():
    import torch
    torch.set_num_threads(os.cpu_count())
    sys.path.insert(0, str(HERE))
    peers = {}
    for path in sorted(HERE.glob("torch_*.py")):
        peers.update(importlib.import_module(path.stem).PEERS)
    return peers


def seconds_of(body):
    body()
    begin = time.perf_counter()
    body()
    once = time.perf_counter() - begin
    repeats = 1 if once >= LEAST_SECONDS else int(LEAST_SECONDS / once) + 1
    taken = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        for _ in range(repeats):
            body()
        taken.append((time.perf_counter() - begin) / repeats)
    return statistics.median(taken)


def measure(binary, name, peers, rounds):
    """One dict per row: medians over the rounds."""
    # oneDNN's idle threads spin by default, on the cores that ours run on.
    quiet = dict(os.environ, OMP_WAIT_POLICY="passive")
    seen = []
    for _ in range(rounds):
        answer = subprocess.run([binary, name], check=True, text=True,
                                capture_output=True, env=quiet).stdout
        row = json.loads(answer)
        if name in peers:
            row["torch"] = seconds_of(peers[name]())
        seen.append(row)
    merged = dict(seen[0])
    for key in ("ours", "copy", "peer", "torch"):
        if key in merged:
            merged[key] = statistics.median(row[key] for row in seen)
    return merged


def unit(row, seconds):
    if row["flops"]:
        return f"{row['flops'] / seconds / 1e9:.0f} GFLOP/s"
    if "bytes" in row:
        return f"{row['bytes'] / seconds / 1e9:.1f} GB/s"
    return f"{seconds * 1e3:.3f} ms"


def lines(row):
    name = row["name"]
    if "copy" in row:
        yield (f"{name} / copy", unit(row, row["ours"]),
               unit(row, row["copy"]), row["copy"] / row["ours"],
               row["memory_goal"])
    if "peer" in row:
        yield (f"{name} / {row['peer_name']}", unit(row, row["ours"]),
               unit(row, row["peer"]), row["peer"] / row["ours"],
               row["peer_goal"])
    if "torch" in row:
        yield (f"{name} / torch", f"{row['ours'] * 1e3:.3f} ms",
               f"{row['torch'] * 1e3:.3f} ms", row["torch"] / row["ours"],
               row["torch_goal"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("table")
    parser.add_argument("--only", default="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-torch", action="store_true")
    options = parser.parse_args()
    peers = {} if options.no_torch else load_peers()
    names = subprocess.run([options.binary, "--list"], check=True, text=True,
                           capture_output=True).stdout.split()
    with open(options.table, "a", encoding="utf-8") as table:
        for name in fnmatch.filter(names, options.only):
            row = measure(options.binary, name, peers, options.rounds)
            for label, ours, peer, ratio, goal in lines(row):
                verdict = "ok" if ratio >= goal else "short"
                table.write(f"{label}\t{ours}\t{peer}\t{ratio:.2f}\t{goal:g}\t"
                            f"{verdict}\n")
                print(f"{label:52} {ours:>14} {peer:>14} {ratio:7.2f} "
                      f"goal {goal:g}  {verdict}", flush=True)
            table.flush()


if __name__ == "__main__":
    main()
