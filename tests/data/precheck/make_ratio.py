"""Details of two devices, and what msprobe 26.2.0 makes of them.

Writes device.csv and reference.csv, in the form of its acc_check, and
ratio_details.csv and ratio_result.csv, which its api_precision_compare wrote
of them.

Needs mindstudio-probe 26.2.0 (whose command line is not used) and torch.

    python make_ratio.py [--seed N] [--calls N] [--out DIR]
"""

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np
from msprobe.pytorch.api_accuracy_checker.compare import api_precision_compare
from msprobe.pytorch.api_accuracy_checker.compare.compare_utils import (
    DETAIL_TEST_ROWS)

COLUMNS = DETAIL_TEST_ROWS[0]
BENCHMARK = ["误差均衡性", "均方根误差", "小值域错误占比", "相对误差最大值",
             "相对误差平均值"]
ABSOLUTE = ["inf/nan错误率", "相对误差错误率", "绝对误差错误率"]
ULP = ["ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比"]
FLOATS = ["torch.float16", "torch.bfloat16", "torch.float32"]
OTHERS = ["torch.int64", "torch.bool", "torch.float64", "torch.complex64",
          "torch.float8_e4m3fn", "torch.float8_e5m2"]
# One of each level, and one whose name has two parts.
APIS = ["Torch.add", "Functional.embedding", "Torch.matmul", "Torch.mm",
        "Functional.layer_norm", "Torch.linalg.inv", "Torch.topk",
        "Tensor.scatter_add_", "Functional.gelu", "NPU.npu_rms_norm"]


class Rows:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def chance(self, share):
        return self.random.random() < share

    def pick(self, values):
        return values[self.random.integers(len(values))]

    def number(self, kind):
        """A figure of 14 decimals, as acc_check prints them."""
        if kind == "small":
            return f"{self.pick([0.0, 0.0, 0.001, 0.01, 0.5, 1.0]):.14f}"
        return f"{10.0 ** self.random.uniform(-9, 1):.14f}"

    def pair(self, kind):
        """The figure of either device; most ratios are about their bounds."""
        reference = self.number(kind)
        device = reference
        if self.chance(0.5):
            ratio = self.pick([0.5, 1.1, 1.2, 1.3, 1.5, 1.6, 2.0, 2.1, 4.9,
                               5.1, 9.9, 10.1])
            device = f"{float(reference) * ratio:.14f}"
        if self.chance(0.02):
            device = self.pick(["nan", "inf"])
        if self.chance(0.02):
            reference = self.pick(["nan", "inf"])
        if self.chance(0.01):
            device = reference = self.pick(["nan", "inf"])
        if self.chance(0.01):
            device, reference = self.pick([(" ", reference), (device, " "),
                                           (" ", " ")])
        return device, reference

    def fill(self, rows, columns, kind):
        for column in columns:
            rows[0][column], rows[1][column] = self.pair(kind)

    def zeros(self, rows, columns):
        for row in rows:
            for column in columns:
                row[column] = self.pick(["0", "0", "0.00000000000000", "0.25"])

    def output(self, name):
        """The two rows of one output."""
        rows = [dict.fromkeys(COLUMNS, " ") for _ in range(2)]
        dtype = self.pick(FLOATS if self.chance(0.75) else OTHERS)
        shape = self.pick(["(4, 16)", "(4, 16)", "(8,)", "()"])
        if self.chance(0.02):
            shape = self.pick(["(0,)", "(0, 4)"])
        for row in rows:
            row.update({"API Name": name, "Bench Dtype": "torch.float64",
                        "DEVICE Dtype": dtype, "Shape": shape,
                        "Status": "pass", "Message": "\nsays so\n"})
        if dtype in FLOATS and self.chance(0.1):
            self.zeros(rows, ABSOLUTE)  # an input was of 8 bits
        elif dtype in FLOATS:
            self.fill(rows, BENCHMARK, "any")
            self.fill(rows, ["小值域错误占比"], "small")
            self.fill(rows, ["误差均衡性"], "small")
        elif "float8" in dtype:
            for row in rows:
                row[ULP[2]] = self.pick(["0.0", "0.0009", "0.001", "0.5"])
                row[ULP[0]] = row[ULP[1]] = "0.5"
        elif dtype in ("torch.int64", "torch.bool"):
            self.zeros(rows, ["二进制一致错误率"])
        if shape in ("(0,)", "(0, 4)"):  # acc_check leaves it at that
            for row in rows:
                row.update({c: " " for c in COLUMNS[4:-2]}, Status="SKIP")
        if self.chance(0.02):  # nothing came out, of either or of one
            for row in rows[:1 + self.chance(0.5)]:
                row.update({c: " " for c in COLUMNS[1:]})
                row.update({"Status": "SKIP", "Message": "no output"})
        if self.chance(0.01):  # of another shape than its golden
            rows[0].update({c: " " for c in COLUMNS[4:-2]})
            rows[0]["Status"] = "error"
        if self.chance(0.01):
            rows[1]["Shape"] = "(16, 4)"
        if self.chance(0.01):
            rows[1]["DEVICE Dtype"] = self.pick(FLOATS)
        return rows

    def all(self, calls):
        device, reference = [], []
        for call in range(calls):
            name = f"{self.pick(APIS)}.{call}"
            for direction in ("forward", "backward"):
                if direction == "backward" and self.chance(0.4):
                    continue
                for i in range(self.random.integers(1, 4)):
                    full = f"{name}.{direction}.output.{i}"
                    rows = self.output(full)
                    if not self.chance(0.01):
                        device.append(rows[0])
                    if not self.chance(0.01):
                        reference.append(rows[1])
        device[0]["相对误差错误率"] = " "  # or pandas reads it as numbers
        return device, reference


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device, reference = Rows(args.seed).all(args.calls)
    write(args.out / "device.csv", device)
    write(args.out / "reference.csv", reference)
    with tempfile.TemporaryDirectory() as scratch:
        made = [f"{scratch}/result.csv", f"{scratch}/details.csv"]
        api_precision_compare.api_precision_compare(
            api_precision_compare.CompareConfig(
                str(args.out / "device.csv"), str(args.out / "reference.csv"),
                *made))
        for source, name in zip(made, ["ratio_result.csv",
                                       "ratio_details.csv"]):
            (args.out / name).write_bytes(Path(source).read_bytes())


if __name__ == "__main__":
    main()
