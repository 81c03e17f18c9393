"""The metric columns against what msprobe 26.2.0 itself wrote.

tests/data/report/msprobe_26.2.0_gpt_step0.csv holds the name and the six
metric columns of msprobe's own comparison of step 0 of the example dumps,
made with bench/run_msprobe.py.
"""

import csv


def same(ours, theirs):
    try:
        a, b = float(ours), float(theirs)
    except ValueError:
        return ours == theirs
    return a == b or abs(a - b) <= 1e-12 * max(1.0, abs(b))


def test_ratios_count_matching_infinities_under_any_standard(assay, dumps, root,
                                                             tmp_path):
    out = tmp_path / "ours.csv"
    assay("compare", dumps / "golden/step0", dumps / "target/step0", "--csv",
          out, code=1)
    ours = {r["NPU Name"]: r for r in csv.DictReader(open(out, newline=""))}
    path = root / "tests/data/report/msprobe_26.2.0_gpt_step0.csv"
    rows = [r for r in csv.DictReader(open(path, newline=""))
            if "masked_fill" in r["NPU Name"] and ".output." in r["NPU Name"]]
    assert rows
    for row in rows:
        for column in ("One Thousandth Err Ratio", "Five Thousandths Err Ratio"):
            cell = ours[row["NPU Name"]][column]
            assert abs(float(cell) - float(row[column])) < 1e-9, row["NPU Name"]


def test_every_metric_cell_is_msprobes(assay, dumps, root, tmp_path):
    out = tmp_path / "ours.csv"
    assay("compare", dumps / "golden/step0", dumps / "target/step0",
          "--standard", "msprobe", "--csv", out)
    ours = {r["NPU Name"]: r for r in csv.DictReader(open(out, newline=""))}
    path = root / "tests/data/report/msprobe_26.2.0_gpt_step0.csv"
    theirs = list(csv.DictReader(open(path, newline="")))
    assert len(theirs) == len(ours) == 691
    different = [(r["NPU Name"], column, ours[r["NPU Name"]][column], cell)
                 for r in theirs for column, cell in r.items()
                 if not same(ours[r["NPU Name"]][column], cell)]
    assert different == []
