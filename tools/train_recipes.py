#!/usr/bin/env python3
"""Trains train_gpt with every recipe beside five seeds of bf16, and prints the
table of docs/training.md.

Usage: tools/train_recipes.py [--steps N] [--program FILE] [-- TRAIN_GPT_OPTION...]

Exit code 1 where a recipe ends outside of the mean of the bf16 seeds +- 3
sigma, or further from bf16 of its own seed than 1.5 %: what NVIDIA's NVFP4
pretraining report (arXiv:2509.25149) has near the end of its run.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECIPES = ("fp32", "delayed", "current", "block", "mxfp8", "nvfp4")
SEEDS = range(1, 6)
LAST = 20  # steps whose losses are averaged
GAP = 0.015


class Result:
    def __init__(self, lines):
        last = lines[-LAST:]
        self.loss = statistics.mean(line["loss"] for line in last)
        self.saved = lines[-1]["saved_bytes"]
        counts = [c for line in last for c in line["quantized"].values()]
        seen = sum(c["elements"] for c in counts)
        self.saturated = sum(c["saturated"] for c in counts) / seen if seen else None
        self.underflowed = sum(c["underflowed"] for c in counts) / seen if seen else None


def train(program, options, recipe, seed):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run([program, *options, "--recipe", recipe, "--seed", str(seed),
                        "--log", log, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    result = Result(lines)
    print(f"{recipe} seed {seed}: {result.loss:.4f}", file=sys.stderr, flush=True)
    return result


def share(value):
    return "-" if value is None else f"{100 * value:.3f}"


def row(name, result, gap, verdict):
    return (f"| {name} | {result.loss:.4f} | {gap} | {verdict} | "
            f"{share(result.saturated)} | {share(result.underflowed)} | "
            f"{result.saved / 1e6:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--program", default=ROOT / "build/release/bin/train_gpt")
    parser.add_argument("options", nargs="*", help="of train_gpt, after --")
    given = parser.parse_args()
    options = ["--steps", str(given.steps), *given.options]

    seeds = [train(given.program, options, "bf16", seed) for seed in SEEDS]
    losses = [result.loss for result in seeds]
    mean, sigma = statistics.mean(losses), statistics.stdev(losses)
    print("| recipe | loss | to bf16, % | in the band | sat. % | under % "
          "| saved MB |")
    print("|---|---|---|---|---|---|---|")
    for seed, result in zip(SEEDS, seeds):
        print(row(f"bf16, seed {seed}", result, "", ""))
    failed = False
    for recipe in RECIPES:
        result = train(given.program, options, recipe, SEEDS[0])
        gap = result.loss / losses[0] - 1
        inside = abs(result.loss - mean) <= 3 * sigma
        failed |= not inside or abs(gap) > GAP
        print(row(recipe, result, f"{100 * gap:+.2f}", "yes" if inside else "NO"),
              flush=True)
    print(f"\nbf16: {mean:.4f} +- {sigma:.4f} (one sigma)")
    return failed


if __name__ == "__main__":
    sys.exit(main())
