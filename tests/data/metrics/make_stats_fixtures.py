"""Pairs of arrays and what numpy, in float64, says of them.

Writes stats_<dtype>.bin (golden, then target, COUNT elements each) and
stats_expected.txt (dtype, figure, value a line). Needs numpy and ml_dtypes.

    python make_stats_fixtures.py
"""

from pathlib import Path

import ml_dtypes
import numpy as np

COUNT = 3001
DTYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "int32": np.int32,
}


def pair(name, dtype):
    rng = np.random.default_rng(19)
    x = rng.standard_normal(COUNT) * 3
    y = x * (1 + rng.standard_normal(COUNT) * 0.01) + 0.002
    if name == "int32":
        x, y = np.rint(x * 1e6), np.rint(y * 1e6)
    return x.astype(dtype), y.astype(dtype)


def figures(x, y):
    x, y = x.astype(np.float64), y.astype(np.float64)
    d = y - x
    rel = np.abs(d[x != 0]) / np.abs(x[x != 0])
    every = np.divide(np.abs(d), np.abs(x), out=np.zeros_like(d),
                      where=(x != 0))
    every[(x == 0) & (d != 0)] = np.inf
    norm = np.linalg.norm
    return {
        "max_abs": np.max(np.abs(d)),
        "max_abs_index": np.argmax(np.abs(d)),
        "mean_abs": np.mean(np.abs(d)),
        "max_rel": np.max(every),
        "mean_rel": np.mean(rel),
        "rmse": np.sqrt(np.mean(d * d)),
        "norm_l2": norm(d) / norm(x),
        "sqnr_db": 20 * np.log10(norm(x) / norm(d)),
        "cosine": np.dot(x, y) / (norm(x) * norm(y)),
        "bias": np.mean(d),
        "alpha": np.dot(x, y) / np.dot(x, x),
        "golden_mean": np.mean(x),
        "golden_l2": norm(x),
        "target_min": np.min(y),
        "target_max": np.max(y),
        "mismatches": np.count_nonzero(d),
        "sign_flips": np.count_nonzero(x * y < 0),
        "share_rel_over_1e3": np.mean(every >= 0.001),
        "share_rel_over_5e3": np.mean(every >= 0.005),
    }


def main():
    here = Path(__file__).parent
    lines = []
    for name, dtype in DTYPES.items():
        x, y = pair(name, dtype)
        (here / f"stats_{name}.bin").write_bytes(x.tobytes() + y.tobytes())
        for figure, value in figures(x, y).items():
            lines.append(f"{name} {figure} {float(value)!r}\n")
    (here / "stats_expected.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
