"""`assay precheck compare` beside msprobe 26.2.0's api_precision_compare.

tests/data/precheck holds details of two devices and what msprobe wrote of
them (make_ratio.py). Every status is msprobe's, but for the cases that
`stricter` lists; where msprobe is installed, more of them are made here.
"""

import csv
import json
import math
import os
import subprocess
from xml.etree import ElementTree

import pytest
from paths import ROOT

DATA = ROOT / "tests/data/precheck"
MSPROBE = ROOT / "build/venv-bench/bin/python"
SEED = os.environ.get("ASSAY_SEED", "23")  # of what is made here
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


def is_empty(device, reference):
    return (device and reference and device["Shape"] in EMPTY and
            device["Shape"] == reference["Shape"] and
            device["DEVICE Dtype"] not in NO_RULE and
            device["DEVICE Dtype"] == reference["DEVICE Dtype"])


def stricter(device, reference):
    """Statuses that are ours and not msprobe's: {column: status}."""
    if not device["DEVICE Dtype"].strip():
        # It skips what failed so early that there is no tensor.
        return {RESULT: "error"} if device["Status"] == "error" else {}
    if device["DEVICE Dtype"] in NO_RULE:
        return {}
    if device["Shape"] == "(0,)" and is_empty(device, reference):
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
    if all(figure(device[column]) is None for column in BENCHMARK):
        return {RESULT: "SKIP"}
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
    device, reference = (by_name(read(folder / f"{side}.csv"))
                         for side in ("device", "reference"))
    messages = {r["API Name"]: r["Message"]
                for r in read(folder / "ratio_details.csv")}
    compared = 0
    for call, row in ours.items():
        outputs = [n for n in details if n.startswith(call + ".")]
        # msprobe skips a call whose last output has no rule, and passes one
        # of which an output passes.
        # It leaves out an output on which it stumbled.
        odd = any(device[n]["DEVICE Dtype"] in NO_RULE
                  for n in outputs if n in device)
        odd = odd or any(messages.get(n, "").startswith("ERROR: Input data")
                         for n in outputs)
        for direction in ("Forward", "Backward"):
            names = [n for n in outputs if f".{direction.lower()}." in n]
            # An empty output says nothing about those that are not.
            full = [n for n in names
                    if not is_empty(device.get(n), reference.get(n))] or names
            mine = [details[n] for n in full]
            column = f"{direction} Test Success"
            assert row[column] == worst(mine), (call, direction)
            alike = names and [judged.get(n) for n in full] == mine
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
                    SEED, "--calls", "100", "--out", tmp_path], check=True,
                   capture_output=True)
    compare(assay, tmp_path, tmp_path)
    assert check_details(tmp_path, tmp_path) > 0
    assert check_result(tmp_path, tmp_path) > 50


COLUMNS = list(read(DATA / "device.csv")[0])


def write(path, **outputs):
    """A details csv of fp32 outputs, all figures of each the same."""
    rows = []
    for name, value in outputs.items():
        row = {**dict.fromkeys(COLUMNS, " "), "DEVICE Dtype": "torch.float32",
               "API Name": f"Torch.{name}.0.forward.output.0", "Shape": "(8,)",
               **dict.fromkeys(BENCHMARK, value)}
        rows.append(row)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_exit_codes(assay, tmp_path):
    a = write(tmp_path / "a.csv", add="0.5", mul="0.25")
    b = write(tmp_path / "b.csv", add="0.5", mul="0.5")
    worse = write(tmp_path / "worse.csv", add="0.5", mul="1.5")
    fewer = write(tmp_path / "fewer.csv", add="0.5")
    for device, reference, code in ((a, b, 0), (worse, b, 1), (fewer, b, 4),
                                    (b, fewer, 4), (a, tmp_path / "no", 3)):
        assay("precheck", "compare", device, reference, code=code)
    damaged = tmp_path / "damaged.csv"
    damaged.write_text(a.read_text().replace("0.25", "O.25"))
    error = assay("precheck", "compare", tmp_path, b, code=3).stderr
    assert "no details.csv in it, expected a result folder" in error
    error = assay("precheck", "compare", damaged, b, code=3).stderr
    assert "damaged.csv:3: column '" in error and "'O.25'" in error
    assert error.count("\n") == 1
    for flags, said in ((["--level", "L3"], "expected L0, L1 or L2"),
                        (["--profile", "x"], "msprobe-26, published"),
                        (["--details", a], "a.csv"),
                        (["--json", tmp_path / "j", "--result",
                          tmp_path / "j"], "--result")):
        found = assay("precheck", "compare", a, b, *flags, code=2).stderr
        assert said in found, found
    assert "-npu" in assay("precheck", "compare", "--help").stdout


def test_a_folder_is_its_details_and_a_level_is_for_all(assay, tmp_path):
    for name, figure in (("npu", "0.65"), ("gpu", "0.5")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "details.csv", add=figure)
    folders = (tmp_path / "npu", tmp_path / "gpu")
    assay("precheck", "compare", *folders)  # 1.3 times: fine at L0
    assay("precheck", "compare", *folders, "--level", "l1")
    shown = assay("precheck", "compare", *folders, "--level", "L2", code=1)
    assert "RMSE 1.3 times the reference's, over 1.2 (L2)" in shown.stdout


def test_reports_give_each_rule_its_ratio_and_bound(assay, tmp_path):
    a = write(tmp_path / "a.csv", add="0.5", mm="0.45")
    b = write(tmp_path / "b.csv", add="0.5", mm="0.25")
    out = {kind: tmp_path / f"report.{kind}"
           for kind in ("json", "html", "csv", "xlsx", "junit")}
    flags = [v for kind, path in out.items() for v in (f"--{kind}", path)]
    assay("precheck", "compare", a, b, *flags, code=1)
    report = json.loads(out["json"].read_text())
    assert report["verdict"] == "mismatch"
    assert report["standard"]["name"] == "msprobe-26"
    assert report["first_divergence"]["name"] == "Torch.mm.0"
    assert report["golden"]["path"] == str(b)
    (row,) = [r for r in report["rows"] if r["verdict"] == "mismatch"]
    reasons = {r["criterion"]: r for r in row["reasons"]}
    assert reasons["rmse"]["figure"] == 1.8 and reasons["rmse"]["bound"] == 1.2
    assert not reasons["rmse"]["note"] and reasons["max_rel"]["note"]
    suite = ElementTree.parse(out["junit"]).getroot()
    assert len(list(suite.iter("failure"))) == 1
    for kind in ("html", "csv"):
        assert "Torch.mm.0" in out[kind].read_text(encoding="utf-8")
    assert out["xlsx"].stat().st_size > 1000


def test_figures_are_msprobes_on_pairs_made_afresh(tmp_path):
    """What tests/precheck/detail_oracle_test.cpp does with recorded pairs."""
    program = ROOT / "build/release/bin/precheck_test"
    if not MSPROBE.exists() or not program.exists():
        pytest.skip("no msprobe, or the C++ tests are not built")
    subprocess.run([MSPROBE, DATA / "make_details.py", "--seed",
                    SEED, "--cases", "500", "--out",
                    tmp_path], check=True, capture_output=True)
    done = subprocess.run([program, "--gtest_filter=DetailOracle.*"],
                          env={"ASSAY_DETAIL_ORACLE": str(tmp_path)},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "[  PASSED  ] 1 test" in done.stdout
