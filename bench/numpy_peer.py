"""Times idiomatic float32 numpy on what the fused pass computes.

Cosine, max abs, max relative error and RMSE of two arrays of MIB mebibytes
each, the way a notebook writes them. Prints one line:
numpy_f32<TAB>seconds (median)<TAB>GB/s.

    python bench/numpy_peer.py [--mib 1024] [--runs 5]
"""

import argparse
import os
import statistics
import time

# Settings made for other programs would change which kernels OpenBLAS picks.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)

import numpy as np


def figures(x, y):
    d = y - x
    cosine = np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y))
    max_abs = np.max(np.abs(d))
    max_rel = np.max(np.abs(d) / np.abs(x))
    rmse = np.sqrt(np.mean(d * d))
    return cosine, max_abs, max_rel, rmse


def pair(count):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(count, dtype=np.float32)
    x += np.copysign(np.float32(0.125), x)  # no zero to divide by
    y = x.copy()
    y.view(np.uint32)[::2] ^= 1  # one ulp in every other place
    return x, y


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    x, y = pair(args.mib * 2**20 // 4)
    times = []
    for _ in range(args.runs):
        start = time.perf_counter()
        figures(x, y)
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(f"numpy_f32\t{median:.4f}\t{2 * x.nbytes / median / 1e9:.2f}")


if __name__ == "__main__":
    main()
