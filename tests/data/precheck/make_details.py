"""Pairs of tensors, and every figure that msprobe 26.2.0 has of them.

Writes pairs.safetensors ("NNN.golden" and "NNN.device" of each case) and
details.csv, in msprobe's columns: all of its standards' figures of each pair,
though it would choose one standard a row, and the status and cells that its
Comparator gives. Nothing is formatted: numbers are repr() of the doubles.

Needs mindstudio-probe 26.2.0 (whose command line is not used) and torch.

    python make_details.py [--seed N] [--cases N] [--out DIR]
"""

import argparse
import csv
import json
import struct
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from msprobe.pytorch.api_accuracy_checker.compare import algorithm
from msprobe.pytorch.api_accuracy_checker.compare.compare import Comparator
from msprobe.pytorch.api_accuracy_checker.compare.compare_column import (
    CompareColumn)
from msprobe.pytorch.api_accuracy_checker.compare.compare_input import (
    CompareInput)
from msprobe.pytorch.api_accuracy_checker.compare.compare_utils import (
    DETAIL_TEST_ROWS)
from msprobe.pytorch.api_accuracy_checker.precision_standard import (
    absolute_threshold, benchmark_compare, ulp_compare)

warnings.simplefilter("ignore")
np.seterr(all="ignore")

FLOATS = [(torch.float16, torch.float32), (torch.float16, torch.float64),
          (torch.bfloat16, torch.float32), (torch.bfloat16, torch.float64),
          (torch.float32, torch.float32), (torch.float32, torch.float64),
          (torch.float64, torch.float64)]
INTS = [torch.int8, torch.int32, torch.int64, torch.uint8]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16",
         torch.bfloat16: "BF16", torch.float8_e4m3fn: "F8_E4M3",
         torch.float8_e5m2: "F8_E5M2", torch.int8: "I8", torch.int32: "I32",
         torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL"}
SPECIALS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1e-30,
            65504.0, 65519.0, 65520.0, 7e4, 3.39e38, 3.4028234e38, 2.0 ** -10,
            2.0 ** -20, 2.0 ** -14, 1e-45, 6e-8]


class Cases:
    """Random pairs of one seed; each of a kind that has broken something."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def shape(self):
        kinds = [(), (1,), (3,), (7, 5), (2, 3, 4), (129,), (1, 1), (40, 30)]
        return kinds[self.random.integers(len(kinds))]

    def values(self, shape):
        scale = 10.0 ** self.random.integers(-6, 5)
        values = self.random.standard_normal(shape) * scale
        kind = self.random.integers(6)
        if kind == 0:  # small values among others
            values = values * (self.random.random(shape) > 0.5) * 2.0 ** -12
        if kind == 1:  # powers of two, and what is next to them
            values = 2.0 ** self.random.integers(-30, 15, shape)
            values = values * (1 - 2.0 ** -self.random.integers(8, 60, shape))
        if kind == 2:
            values = values * 0
        return np.asarray(values)

    def special(self, values, share):
        picked = self.random.random(values.shape) < share
        return np.where(picked, self.random.choice(SPECIALS, values.shape),
                        values)

    def floats(self, device, golden):
        shape = self.shape()
        values = self.values(shape)
        error = 10.0 ** -self.random.integers(1, 9)
        if self.random.integers(4) == 0:
            values = self.special(values, 0.2)
        golden = torch.tensor(values, dtype=golden)
        wrong = values * (1 + error * self.random.standard_normal(shape))
        kind = self.random.integers(8)
        if kind == 0:  # specials on one side alone
            wrong = self.special(wrong, 0.1)
        if kind == 1:
            wrong = wrong * 0
        if kind == 2:
            wrong = values
        if kind == 3:  # off by fractions of what fp16 and bf16 resolve
            wrong = wrong + 2.0 ** -self.random.integers(5, 20) * values
        return golden, torch.tensor(wrong, dtype=torch.float64).to(device)

    def integers(self, dtype):
        shape = self.shape()
        limits = torch.iinfo(dtype)
        golden = self.random.integers(limits.min, limits.max, shape,
                                      dtype=np.int64, endpoint=True)
        other = golden ^ (self.random.random(shape) < 0.2)
        return [torch.tensor(np.asarray(v)).to(dtype)
                for v in (golden, other)]

    def booleans(self):
        shape = self.shape()
        return [torch.tensor(np.asarray(self.random.random(shape) < 0.5))
                for _ in range(2)]

    def all(self, count):
        for i in range(count):
            if i % 6 == 4:
                yield self.integers(INTS[i // 6 % len(INTS)])
            elif i % 6 == 5 and i % 12 == 5:
                yield self.booleans()
            elif i % 6 == 5:
                golden, device = self.floats(FLOAT8[i // 12 % 2],
                                             torch.float32)
                yield golden.reshape(-1), device.reshape(-1)
            else:
                yield self.floats(*FLOATS[self.random.integers(len(FLOATS))])


def by_hand():
    """The tensors of the documents: one of every rule, and of every trap."""
    inf, nan = float("inf"), float("nan")
    f32, f64 = torch.float32, torch.float64

    def pair(golden, device, dtype=f32, higher=f64):
        return (torch.tensor(golden, dtype=higher),
                torch.tensor(device, dtype=f64).to(dtype))

    yield pair([1, inf, 2], [1, inf, 2])
    yield pair([1, inf, 2], [1, -inf, 2])
    yield pair([1, inf, 2], [1, 3e38, 2])
    yield pair([1, nan, 2], [1, nan, 2])
    yield pair([1, 2, 2], [1, nan, 2])
    yield pair([1, inf, 5], [1, 3.4028234e38, 5])
    yield pair([1, 65520, 5], [1, inf, 5], torch.float16)
    yield pair([1, 65519, 5], [1, 65504, 5], torch.float16)
    yield pair([1, 3.4e38, 5], [1, inf, 5], torch.bfloat16, f32)
    yield pair([0, 0, 0], [0, 0, 0])
    yield pair([0, 0, 0], [1, 1, 1])
    yield pair([1, 1, 1], [0, 0, 0])
    yield pair([3.0], [3.0])
    yield pair(3.0, 4.0)
    yield pair([], [])
    yield pair([[], []], [[], []], torch.float16)
    yield pair([1e-20, 1, 2], [0, 1, 2])
    yield pair([2.0 ** -20, 2.0 ** -20], [2.0 ** -20, 0])
    yield pair([0.0, 1.0], [2.0 ** -126, 1.0])
    yield pair([1.0] * 1000, [1.0] * 999 + [1.02], torch.float16, f32)
    yield pair([1.0] * 1000, [1.0] * 989 + [1.5] * 11, torch.float16, f32)
    yield pair([1.0] * 1001, [1.0] * 1000 + [1.5], torch.bfloat16, f32)
    yield pair([1.0] * 2000, [1.0] * 1999 + [1.5])
    yield pair([1.0] * 20001, [1.0] * 20000 + [1.5], f32, f32)
    # More than one block, with the worst in the last.
    many = np.linspace(-3, 3, 33000)
    yield pair(many, many + 1e-4 * np.sin(many * 99), torch.bfloat16, f32)


def figures(golden, device, api, comparator):
    """The cells of a row: every standard's figures, and the status."""
    column = CompareColumn()
    dtype = device.dtype
    is_float8 = dtype in FLOAT8
    if dtype == torch.bfloat16:
        golden = golden.float()
    b = golden.numpy()
    n = (device.float() if dtype in FLOAT8 + [torch.bfloat16] else
         device).numpy()
    if is_float8:
        ulp_compare.UlpCompare(CompareInput(b, n, column, dtype)).compare()
        return column, " ", ""
    (_, rows) = comparator._compare_core_wrapper(api, golden, device, False)
    status, message = rows[0][-2:]
    if not dtype.is_floating_point or golden.numel() == 0:
        column.error_rate, column.max_abs_err = rows[0][8], rows[0][4]
        return column, status, message
    _, floor = algorithm.get_abs_bench_with_eps(b, dtype)
    error = algorithm.get_abs_err(b, n)
    relative = algorithm.get_rel_err_origin(error, floor)
    if dtype != torch.float64:
        given = CompareInput(b, n, column, dtype, relative)
        benchmark_compare.BenchmarkCompare(given).compare()
        absolute_threshold.AbsolutethdCompare(given).compare()
        ulp_compare.UlpCompare(given).compare()
    column.error_rate, _, _ = algorithm.compare_bool_tensor(b, n)
    column.cosine_sim, _, _ = algorithm.cosine_sim(b, n)
    column.max_abs_err, _ = algorithm.get_max_abs_err(error)
    for name, bound in (("rel_err_hundredth", 0.01),
                        ("rel_err_thousandth", 0.001),
                        ("rel_err_ten_thousandth", 0.0001)):
        share, _ = algorithm.get_rel_err_ratio(relative, bound)
        setattr(column, name, share)
    return column, status, message


def cell(value):
    """repr() of a number as a double, anything else as it is."""
    if isinstance(value, (bool, str, tuple)):
        return value
    return repr(float(value))


def safetensors(tensors, path):
    header, parts, at = {}, [], 0
    for name, tensor in tensors.items():
        data = tensor.contiguous().reshape(-1).view(torch.uint8)
        data = data.numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype],
                        "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cases", type=int, default=240)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    pairs = list(by_hand()) + list(Cases(args.seed).all(args.cases))
    tensors, rows = {}, []
    with tempfile.TemporaryDirectory() as scratch:
        comparator = Comparator(f"{scratch}/result.csv",
                                f"{scratch}/details.csv", False)
        for i, (golden, device) in enumerate(pairs):
            # Every other integer is of a quantising operator.
            quantised = device.dtype == torch.int8 and i % 2 == 0
            api = "npu_dynamic_quant" if quantised else "add"
            column, status, message = figures(golden, device, api, comparator)
            column.bench_type = str(golden.dtype)
            column.npu_type = str(device.dtype)
            column.shape = tuple(device.shape)
            cells = map(cell, column.to_column_value(status, message))
            rows.append([f"Torch.{api}.{i}.forward.output.0", *cells])
            tensors[f"{i:04}.golden"] = golden
            tensors[f"{i:04}.device"] = device
    args.out.mkdir(parents=True, exist_ok=True)
    safetensors(tensors, args.out / "pairs.safetensors")
    with open(args.out / "details.csv", "w", newline="",
              encoding="utf-8-sig") as file:
        csv.writer(file).writerows(DETAIL_TEST_ROWS + rows)


if __name__ == "__main__":
    main()
