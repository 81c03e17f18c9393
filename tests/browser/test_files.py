"""The other report files, read by independent programs."""

import csv
import xml.etree.ElementTree

import openpyxl
from conftest import ROWS


def test_csv_agrees_with_json(reports, report):
    with open(reports / "large.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(report["rows"]) == ROWS
    for row, expected in zip(rows, report["rows"]):
        assert row["Verdict"] == expected["verdict"]
        if "max_abs" in expected:
            assert float(row["MaxAbsErr"]) == expected["max_abs"]
            assert float(row["Alpha"]) == expected["alpha"]


def test_json_counts_are_those_of_its_rows(report):
    for verdict in ("match", "mismatch", "incomplete", "empty"):
        assert report["counts"][verdict] == sum(
            row["verdict"] == verdict for row in report["rows"]
        )


def test_xlsx_opens_with_every_row(reports):
    book = openpyxl.load_workbook(reports / "small.xlsx", read_only=True)
    assert book.sheetnames == ["Summary", "Rows"]
    summary = dict(book["Summary"].iter_rows(values_only=True))
    assert summary["Verdict"] == "mismatch"
    lines = book["Rows"].iter_rows(values_only=True)
    header = next(lines)
    assert header[:2] == ("NPU Name", "Bench Name")
    verdict = header.index("Verdict")
    counts = {}
    for line in lines:
        counts[line[verdict]] = counts.get(line[verdict], 0) + 1
    assert sum(counts.values()) == 5000
    for name, count in counts.items():
        assert count == summary[name.capitalize()]


def test_xlsx_has_a_frozen_header_and_a_filter(reports):
    book = openpyxl.load_workbook(reports / "gelu.xlsx")
    sheet = book["Rows"]
    assert sheet.freeze_panes == "B2"
    assert sheet.auto_filter.ref.startswith("A1:")
    colours = {
        row[0].fill.fgColor.rgb for row in sheet.iter_rows(min_row=2)
    }
    assert len(colours) == 4  # one a verdict; a match has none


def test_junit_is_well_formed(reports):
    root = xml.etree.ElementTree.parse(reports / "large.xml").getroot()
    cases = root.findall("./testsuite/testcase")
    assert len(cases) == int(root.get("tests"))
    failures = [c for c in cases if c.find("failure") is not None]
    assert len(failures) == int(root.get("failures")) > 0
    kinds = {c.find("failure").get("type") for c in failures}
    assert kinds == {"mismatch", "incomplete"}
