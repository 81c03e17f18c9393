"""Reports of a conformance run, and the history, as a user meets them."""

from __future__ import annotations

import json
import pathlib
import sqlite3
import xml.etree.ElementTree

import pytest

from paths import ROOT

SAMPLE = ROOT / "tests/data/conform/run.json"


@pytest.fixture
def run(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of a run: 3 matches, 3 mismatches, 2 incomplete."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes(SAMPLE.read_bytes())
    return folder


@pytest.fixture
def history(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "folder" / "history.db"


def passing(run: pathlib.Path, began: str, verdict: str = "match") -> str:
    """run.json of the sample's first module alone, with a verdict."""
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    document["modules"] = document["modules"][:1]
    document["began"] = began
    document["verdict"] = verdict
    case = document["modules"][0]["cases"][0]
    case["verdict"] = verdict
    case["checks"][0]["verdict"] = verdict
    verdicts = [c["verdict"] for c in document["modules"][0]["cases"]]
    document["counts"] = {name: verdicts.count(name) for name in
                          ("match", "mismatch", "incomplete", "empty")}
    path = run / f"{began}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def test_report_shows_the_run(assay, run):
    text = assay("conform", "report", run, code=1).stdout
    assert text.splitlines()[1] == "mismatch   3 of 8 cases differ"
    assert "--only linear/small-3f09a1c2" in text
    assert "stale goldens, no failure of numbers: collect again" in text
    assert "\x1b" not in text
    assert assay("conform", "report", run / "run.json", "-q",
                 code=1).stdout.count("\n") == 1


def test_report_writes_every_form(assay, run, tmp_path):
    html, out, junit = (tmp_path / n for n in ("r.html", "r.json", "r.xml"))
    assay("conform", "report", run, "--html", html, "--json", out, "--junit",
          junit, code=1)
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["counts"] == {"match": 3, "mismatch": 3, "incomplete": 2,
                                  "empty": 0, "total": 8}
    suites = xml.etree.ElementTree.parse(junit).getroot()
    assert (suites.get("failures"), suites.get("errors")) == ("3", "2")
    assert len(suites.findall("testsuite")) == 3
    assert html.read_text(encoding="utf-8").count("</script>") == 2
    # The report is a run again.
    again = tmp_path / "again.json"
    assay("conform", "report", out, "--json", again, code=1)
    assert again.read_bytes() == out.read_bytes()


def test_json_on_the_standard_output_is_alone(assay, run):
    text = assay("conform", "report", run, "--json", "-", code=1).stdout
    assert json.loads(text)["schema"] == "assay-conform-run"


def test_api_coverage_comes_from_a_scan(assay, run, tmp_path):
    scan = tmp_path / "scan.json"
    scan.write_text(json.dumps({"assay_api_scan": 1, "apis": [
        {"name": "transformer_engine.pytorch.Linear", "uses": 3},
        {"name": "transformer_engine.pytorch.Unheard", "uses": 1}]}))
    text = assay("conform", "report", run, "--api", scan, code=1).stdout
    assert "API: guards 1 of 2 API names (75.0 % of 4 uses)" in text
    assert "unguarded: transformer_engine.pytorch.Unheard (1 use)" in text
    scan.write_text("{}")
    error = assay("conform", "report", run, "--api", scan, code=3).stderr
    assert "scan.json: assay_api_scan: is missing" in error


def test_report_refuses_what_is_no_run(assay, run, tmp_path):
    assert "no run.json" in assay("conform", "report", tmp_path, code=3).stderr
    assay("conform", "report", tmp_path / "absent", code=3)
    path = run / "run.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"verdict":"mismatch"', '"verdict":"match"',
                                 1), encoding="utf-8")
    error = assay("conform", "report", run, code=3).stderr
    assert "verdict: is not that of its cases" in error
    assert error.count("\n") == 1
    path.write_text(text[:-20], encoding="utf-8")
    assay("conform", "report", run, code=3)


def test_a_report_never_overwrites_its_run(assay, run):
    before = (run / "run.json").read_bytes()
    assay("conform", "report", run, "--html", run / "run.json", code=2)
    assert (run / "run.json").read_bytes() == before


def test_history_from_the_first_run_to_a_regression(assay, run, history):
    flag = ("--history", history)
    assert "no history yet" in assay("history", "list", *flag, code=3).stderr
    first = passing(run, "2026-11-30T01:00:00Z")
    assert "run 1" in assay("history", "add", first, *flag).stdout
    assert "was there already, as run 1" in assay("history", "add", first,
                                                  *flag).stdout
    assert "first of its sides" in assay("history", "diff", *flag,
                                         code=2).stderr
    second = passing(run, "2026-11-30T02:00:00Z", "mismatch")
    assay("conform", "report", second, *flag, code=1)
    text = assay("history", "diff", *flag, code=1).stdout
    assert "newly failing 1\n  gelu/small-00112233   match -> mismatch" in text
    assert assay("history", "diff", "2", "1", *flag).stdout.count("fixed 1")
    document = json.loads(assay("history", "diff", *flag, "--json", "-",
                                code=1).stdout)
    assert document["before"]["run"] == 1
    assert [c["change"] for c in document["changes"]] == ["newly failing"]
    assert "mismatch   gelu/small-00112233" in assay("history", "show", "2",
                                                     *flag).stdout
    runs = json.loads(assay("history", "list", *flag, "--json", "-").stdout)
    assert [r["run"] for r in runs["runs"]] == [2, 1]


def test_history_alone_lists(assay, run, history):
    assay("history", "add", run, env={"ASSAY_HISTORY": str(history)})
    text = assay("history", env={"ASSAY_HISTORY": str(history)}).stdout
    assert text.splitlines()[0].split()[:3] == ["verdict", "run", "began"]
    assert "2026-11-30T01:02:03Z" in text
    assert "neither ASSAY_HISTORY nor HOME" in assay("history", code=2,
                                                     env={}).stderr


def test_history_lives_below_home(assay, run, tmp_path):
    assay("history", "add", run, env={"HOME": str(tmp_path)})
    assert (tmp_path / ".local/share/assay/history.db").is_file()


def test_history_is_readable_by_sqlite(assay, run, history):
    assay("history", "add", run, "--history", history)
    with sqlite3.connect(history) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT verdict, count(*) FROM entry GROUP BY 1 "
                          "ORDER BY 1").fetchall() == [
            ("incomplete", 2), ("match", 3), ("mismatch", 3)]


def test_history_refuses_strangers(assay, run, tmp_path):
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE run(x)")
    for arguments in (["add", run], ["list"], ["show", "1"], ["diff"]):
        error = assay("history", *arguments, "--history", foreign,
                      code=3).stderr
        assert "another program" in error and error.count("\n") == 1
    text = tmp_path / "text.db"
    text.write_text("hello" * 2000)
    assert "not an SQLite file" in assay("history", "--history", text, "list",
                                         code=2).stderr + assay(
        "history", "list", "--history", text, code=3).stderr


def test_history_numbers_are_checked(assay, run, history):
    assay("history", "add", run, "--history", history)
    for wrong in ("0", "x", "1x", "99999999999999999999"):
        assay("history", "show", wrong, "--history", history, code=2)
    assert "no run 7" in assay("history", "show", "7", "--history", history,
                               code=2).stderr
    assay("history", "diff", "1", "1", "--worse", "0.5", "--history", history,
          code=2)


def test_compare_can_be_kept(assay, dumps, history):
    pair = [dumps / "golden", dumps / "target"]
    before = assay("compare", *pair, "-q", code=1).stdout
    text = assay("compare", *pair, "--history", history, code=1).stdout
    assert "history: run 1 of " in text
    shown = assay("history", "show", "1", "--history", history).stdout
    assert "run 1, compare, 20" in shown
    assert before.split("   ", 1)[1].split("mismatch")[0] in shown
