"""`assay precheck compare` beside msprobe 26.2.0's api_precision_compare.

tests/data/precheck holds details of two devices and what msprobe wrote of
them (make_ratio.py). Every status is msprobe's, but for the cases that
`stricter` lists; where msprobe is installed, more of them are made here.
"""

import csv
import json
import math
import random
import subprocess
from xml.etree import ElementTree

import pytest
from paths import ROOT

DATA = ROOT / "tests/data/precheck"
MSPROBE = ROOT / "build/venv-bench/bin/python"
RESULT = "比对结果"
BENCHMARK = {"小值域错误占比": "小值域判定结果",
             "均方根误差": "均方根误差判定结果",
             "相对误差最大值": "相对误差最大值判定结果",
             "相对误差平均值": "相对误差平均值判定结果",
             "误差均衡性": "误差均衡性判定结果"}
FLOATS = {"torch.float16", "torch.bfloat16", "torch.float32"}
NO_RULE = {"torch.float64", "torch.complex64"}
EMPTY = {"(0,)", "(0, 4)"}


def read(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def by_name(rows):
    named = {row["API Name"]: row for row in rows}
    assert len(named) == len(rows)
    return named


def figure(cell):
    return None if cell.strip() == "" else float(cell)


def is_benchmark(row):
    return (row["DEVICE Dtype"] in FLOATS and
            figure(row["相对误差错误率"]) is None)


def stricter(device, reference):
    """Statuses that are ours and not msprobe's: {column: status}."""
    if not device["DEVICE Dtype"].strip():
        # It skips what failed so early that there is no tensor.
        return {RESULT: "error"} if device["Status"] == "error" else {}
    if device["DEVICE Dtype"] in NO_RULE:
        return {}
    if device["Shape"] == "(0,)" == reference["Shape"]:
        return {}
    if not reference["DEVICE Dtype"].strip():
        return {RESULT: "SKIP"}
    if (device["Shape"] != reference["Shape"] or
            device["DEVICE Dtype"] != reference["DEVICE Dtype"]):
        return {RESULT: "error"}
    if device["Shape"] == "(0, 4)":
        return {RESULT: "SKIP"}
    if device["Status"] == "error" and not device["均方根误差"].strip():
        return {RESULT: "error"}
    if not is_benchmark(device):
        return {}
    found = {}
    for column, status in BENCHMARK.items():
        a, b = figure(device[column]), figure(reference[column])
        if a is None or b is None or (
                not math.isfinite(a) and str(a) == str(b)):
            found[status] = "SKIP"
    if set(found) - {"误差均衡性判定结果"}:
        found[RESULT] = "SKIP"
    return found


def same_value(ours, theirs):
    a, b = figure(ours), figure(theirs)
    if a is None or b is None:
        return a is b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return abs(a - b) <= 1e-13 * max(1.0, abs(b)) or math.isclose(a, b)


def check_row(name, ours, theirs, expected):
    """Counts the cells in which ours is the stricter one."""
    strict = 0
    errors = [s for column, s in ours.items() if column.endswith("判定结果")
              and s == "error" and column != "误差均衡性判定结果"]
    for column, cell in theirs.items():
        mine = ours[column]
        if column in ("API Name", "Message"):
            continue
        if not column.endswith("结果") and column != "比对算法":
            # No ratio where no rule was reached, or a side has no figure.
            assert same_value(mine, cell) or expected, (name, column)
        elif column in expected:
            want = expected[column]
            if column == RESULT and errors:
                want = "error"  # another figure of it decides
            assert mine == want, (name, column, mine)
            strict += mine != cell
        elif RESULT in expected and " " in (mine, cell):
            pass  # decided before any figure
        else:
            assert mine == cell, (name, column, mine, cell)
    return strict


def check_details(folder, made):
    device = by_name(read(folder / "device.csv"))
    reference = by_name(read(folder / "reference.csv"))
    theirs = by_name(read(folder / "ratio_details.csv"))
    ours = by_name(read(made / "details.csv"))
    assert list(read(made / "details.csv")[0]) == list(
        read(folder / "ratio_details.csv")[0])
    assert set(ours) == set(device) | set(reference)
    strict = 0
    for name, row in ours.items():
        if name not in device or name not in reference:
            assert name not in theirs and row[RESULT] == "SKIP", name
            strict += 1
            continue
        expected = stricter(device[name], reference[name])
        strict += check_row(name, row, theirs[name], expected)
    return strict


def worst(statuses):
    return next((s for s in ("error", "SKIP", "pass") if s in statuses), " ")


def check_result(folder, made):
    """A call's status is its worst output's; msprobe's, where it is too."""
    ours = by_name(read(made / "result.csv"))
    theirs = by_name(read(folder / "ratio_result.csv"))
    details, judged = (
        {n: r[RESULT] for n, r in by_name(read(path)).items()}
        for path in (made / "details.csv", folder / "ratio_details.csv"))
    device = by_name(read(folder / "device.csv"))
    compared = 0
    for call, row in ours.items():
        outputs = [n for n in details if n.startswith(call + ".")]
        # msprobe skips a call whose last output has no rule, and passes one
        # of which an output passes.
        odd = any(device[n]["DEVICE Dtype"] in NO_RULE
                  for n in outputs if n in device)
        for direction in ("Forward", "Backward"):
            names = [n for n in outputs if f".{direction.lower()}." in n]
            # An empty output says nothing about those that are not.
            full = [n for n in names if n not in device or
                    device[n]["Shape"] not in EMPTY or
                    details[n] != "SKIP"] or names
            mine = [details[n] for n in full]
            column = f"{direction} Test Success"
            assert row[column] == worst(mine), (call, direction)
            alike = [judged.get(n) for n in full] == mine
            if alike and not odd and len({*mine} - {"error"}) < 2:
                assert row[column] == theirs[call][column], (call, direction)
                compared += 1
    return compared


def compare(assay, folder, made, *flags, code=1):
    return assay("precheck", "compare", folder / "device.csv",
                 folder / "reference.csv", "--details", made / "details.csv",
                 "--result", made / "result.csv", *flags, code=code)


def test_every_status_is_msprobes_but_for_the_stricter_ones(assay, tmp_path):
    compare(assay, DATA, tmp_path)
    assert check_details(DATA, tmp_path) > 50
    assert check_result(DATA, tmp_path) > 300


def test_msprobe_itself_says_so_too(assay, tmp_path):
    if not MSPROBE.exists():
        pytest.skip("no msprobe: make bench installs it")
    subprocess.run([MSPROBE, DATA / "make_ratio.py", "--seed",
                    str(random.randrange(10**6)), "--calls", "100", "--out", tmp_path], check=True,
                   capture_output=True)
    compare(assay, tmp_path, tmp_path)
    assert check_details(tmp_path, tmp_path) > 0
    assert check_result(tmp_path, tmp_path) > 50
