"""`assay compare-runs` as a user meets it: exit codes, messages, reports."""

import json
import math
import random
import resource
import subprocess

import pytest

from paths import ASSAY, ROOT


def write(path, seed, *, drift=0.0, steps=200, nan_at=None, every=1):
    noise = random.Random(seed)
    with open(path, "w") as log:
        for step in range(1, steps + 1):
            loss = 2 + 3 * math.exp(-step / 40) + noise.gauss(0, 0.02)
            if step > 100:
                loss += drift
            if step == nan_at:
                loss = math.nan
            if step % every == 0:
                log.write(json.dumps({"step": step, "loss": loss}) + "\n")
    return path


@pytest.fixture
def runs(tmp_path):
    """reference, good and bad runs, and two seeds."""
    return {name: write(tmp_path / f"{name}.jsonl", seed, drift=drift)
            for seed, (name, drift) in enumerate(
                [("ref", 0), ("s1", 0), ("s2", 0), ("good", 0), ("bad", 0.3)])}


def seeds(runs):
    return "--seeds", runs["s1"], runs["s2"]


def test_a_run_like_the_seeds_matches(assay, runs):
    text = assay("compare-runs", runs["ref"], runs["good"], *seeds(runs),
                 code=0).stdout
    assert "band        of 3 runs" in text
    assert "▁" in text


def test_a_run_that_leaves_the_band_is_a_mismatch(assay, runs):
    report = assay("compare-runs", runs["ref"], runs["bad"], *seeds(runs),
                   "--json", "-", code=1)
    curve = json.loads(report.stdout)["pairs"][0]["curves"][0]
    assert curve["verdict"] == "mismatch"
    assert 101 <= curve["leaves_for_good"]["step"] <= 105
    assert curve["first_difference"]["step"] == 1


def test_the_worst_of_several_runs_decides(assay, runs):
    text = assay("compare-runs", runs["ref"], runs["good"], runs["bad"],
                 *seeds(runs), "-q", code=1).stdout
    assert [line.split()[0] for line in text.splitlines()] == [
        "match", "mismatch"]


def test_without_a_band_nothing_is_proven_but_equality(assay, runs, tmp_path):
    text = assay("compare-runs", runs["ref"], runs["good"], code=4).stdout
    assert "nothing proven" in text
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(runs["ref"].read_bytes())
    assert "the same value at all 200 steps" in assay(
        "compare-runs", runs["ref"], copy, code=0).stdout


def test_missing_steps_are_incomplete(assay, runs, tmp_path):
    short = write(tmp_path / "short.jsonl", 7, steps=150)
    text = assay("compare-runs", runs["ref"], short, *seeds(runs),
                 code=4).stdout
    assert "not in the target: 50 steps of the reference" in text
    assay("compare-runs", runs["ref"], short, *seeds(runs), "--to", 150,
          code=0)
    coarse = write(tmp_path / "coarse.jsonl", 7, every=10)
    assay("compare-runs", runs["ref"], coarse, *seeds(runs), code=4)
    assay("compare-runs", runs["ref"], coarse, *seeds(runs), "--every", 10,
          code=0)


def test_nan_is_no_match(assay, runs, tmp_path):
    nan = write(tmp_path / "nan.jsonl", 7, nan_at=50)
    text = assay("compare-runs", runs["ref"], nan, *seeds(runs), code=1).stdout
    assert "nan at step 50" in text
    assay("compare-runs", nan, runs["good"], *seeds(runs), code=4)


def test_reads_csv_and_what_train_gpt_logs(assay, tmp_path):
    log = tmp_path / "gpt.jsonl"
    subprocess.run(
        [ASSAY.parent / "train_gpt", "--layers", "1", "--hidden", "32",
         "--heads", "2", "--kv-heads", "2", "--ffn", "64", "--seq", "32",
         "--steps", "3", "--log", log], check=True, cwd=ROOT,
        capture_output=True, timeout=120)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    table = tmp_path / "gpt.csv"
    table.write_text("step,loss,grad_norm\n" + "".join(
        f"{x['step']},{x['loss']!r},{x['grad_norm']!r}\n" for x in lines))
    text = assay("compare-runs", log, table, code=0).stdout
    assert "the same value at all 3 steps" in text


def test_a_broken_line_is_named_and_a_cut_one_is_a_warning(
        assay, runs, tmp_path):
    lines = runs["good"].read_text().splitlines()
    broken = tmp_path / "broken.jsonl"
    broken.write_text("\n".join([*lines[:2], '{"step":3,"loss":',
                                 *lines[3:]]) + "\n")
    error = assay("compare-runs", runs["ref"], broken, code=3).stderr
    assert error.count("\n") == 1
    assert f"{broken}: line 3: offset 17" in error
    cut = tmp_path / "cut.jsonl"
    cut.write_text("\n".join(lines) + '\n{"step":201,"lo')
    text = assay("compare-runs", runs["ref"], cut, *seeds(runs), code=0).stdout
    assert "warning" in text and "line 201 is cut off after 15 bytes" in text


@pytest.mark.parametrize("arguments, message", [
    (["--judge", "los"], "'los' is no figure"),
    (["--judge", "lr"], "does not log it"),
    (["--from", "x"], "expected a step"),
    (["--from", "9", "--to", "3"], "is behind"),
    (["--smooth", "0"], "--smooth"),
    (["--html", "{good}"], "would overwrite an input"),
    (["--seeds", "{good}"], "is among the seeds"),
])
def test_usage(assay, runs, arguments, message):
    arguments = [a.format(good=runs["good"]) for a in arguments]
    error = assay("compare-runs", runs["ref"], runs["good"], *arguments,
                  code=2).stderr
    assert message in error and error.count("\n") == 1


def test_a_log_that_is_not_there_and_one_without_steps(assay, runs, tmp_path):
    assert "no.jsonl" in assay("compare-runs", runs["ref"],
                               tmp_path / "no.jsonl", code=3).stderr
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "holds no step" in assay("compare-runs", empty, runs["good"],
                                    code=3).stderr


def test_reports_are_written(assay, runs, tmp_path):
    page, data = tmp_path / "runs.html", tmp_path / "runs.json"
    text = assay("compare-runs", runs["ref"], runs["bad"], *seeds(runs),
                 "--html", page, "--json", data, "--smooth", 5, code=1).stdout
    assert f"report: {page}" in text
    assert "smoothed    mean of the last 5 steps" in text
    report = json.loads(data.read_text())
    assert report["options"]["smooth"] == 5
    assert "--smooth 5" in report["command"]
    assert page.read_text().startswith("<!doctype html>")


def test_a_million_lines_take_seconds(assay, tmp_path):
    log = tmp_path / "long.jsonl"
    tail = ('"lr":0.001,"tokens":2048,"seconds":0.5,"tokens_per_second":4096,'
            '"peak_rss_bytes":123456789,"saved_bytes":0,"quantized":{}}\n')
    with open(log, "w") as out:
        for step in range(500_000):
            out.write(f'{{"step":{step},"loss":{5 / (1 + step)},'
                      f'"grad_norm":1.25,{tail}')
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assay("compare-runs", log, log, "-q", code=0)  # read twice
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime + after.ru_stime -
            before.ru_utime - before.ru_stime) < 10  # 1.5 where it was written
