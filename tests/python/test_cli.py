"""The command line as a user meets it: exit codes, messages, reports."""

import csv
import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from paths import ASSAY

VERBS = ["compare", "compare-runs", "inspect", "overflow", "determinism",
         "fuzz", "convert", "conform", "history", "api", "doctor", "completion"]


def save(path, array):
    np.save(path, array)
    return path


@pytest.fixture
def pair(tmp_path):
    x = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
    return save(tmp_path / "a.npy", x), save(tmp_path / "b.npy", x.copy())


def one_line(text):
    return text.count("\n") == 1 and text.startswith("assay: ")


def test_every_verb_has_help_with_examples(assay):
    top = assay("--help").stdout
    for verb in VERBS:
        assert verb in top
        assert "Examples:" in assay(verb, "--help").stdout
    assert assay("--version").stdout.startswith("assay 0.")


def test_exit_code_match(assay, pair):
    assay("compare", *pair, code=0)


def test_exit_code_mismatch(assay, pair, tmp_path):
    other = save(tmp_path / "c.npy", np.load(pair[0]) * np.float32(1.01))
    assay("compare", pair[0], other, code=1)


@pytest.mark.parametrize("arguments", [
    [], ["bogus"], ["compare"], ["compare", "a"], ["--threads", "0", "doctor"],
    ["compare", "a", "b", "--bogus"], ["completion", "tcsh"],
])
def test_exit_code_usage(assay, arguments):
    assert one_line(assay(*arguments, code=2).stderr)


def test_wrong_usage_names_the_help_of_the_command(assay):
    for command in ("compare", "determinism", "conform run"):
        error = assay(*command.split(), "--bogus", code=2).stderr
        assert f"(see assay {command} --help)" in error


def test_unknown_names_suggest_the_near_one(assay, pair):
    assert "did you mean compare?" in assay("compre", "a", "b", code=2).stderr
    error = assay("compare", *pair, "--standard", "asay", code=2).stderr
    assert one_line(error) and "ascend-mixed-2026" in error
    assert "bfloat16" in assay("compare", *pair, "--dtype", "bfloat", code=2).stderr


def test_exit_code_unreadable(assay, pair, tmp_path):
    assert one_line(assay("compare", tmp_path / "no", pair[0], code=3).stderr)
    broken = tmp_path / "broken.npy"
    broken.write_bytes(pair[0].read_bytes()[:-5])
    error = assay("compare", pair[0], broken, code=3).stderr
    assert one_line(error) and str(broken) in error


def test_exit_code_incomplete(assay, tmp_path):
    a = save(tmp_path / "a.npy", np.zeros((0, 3), np.float32))
    b = save(tmp_path / "b.npy", np.zeros((0, 3), np.float32))
    assay("compare", a, b, code=4)
    nan = save(tmp_path / "nan.npy", np.full(8, np.nan, np.float32))
    assert "finite" in assay("compare", nan, nan, code=4).stdout


def test_quiet_prints_one_line(assay, pair):
    assert assay("compare", *pair, "--quiet").stdout.count("\n") == 1


def test_json_to_standard_output_is_all_there_is(assay, dumps):
    result = assay("compare", dumps / "golden", dumps / "target", "--json", "-",
                   code=1)
    document = json.loads(result.stdout)
    assert document["verdict"] == "mismatch"
    assert len(document["rows"]) == document["counts"]["total"]


def test_demo_names_the_planted_fault(assay, dumps):
    result = assay("compare", dumps / "golden", dumps / "target", "--json", "-",
                   code=1)
    first = json.loads(result.stdout)["first_divergence"]
    assert first["name"] == "Functional.gelu.1.forward"
    assert first["kind"] == "born"
    assert "GELU" in first["cause"] and "tanh" in first["cause"]


def test_again_command_reproduces_the_row(assay, dumps):
    document = json.loads(assay("compare", dumps / "golden", dumps / "target",
                                "--json", "-", code=1).stdout)
    again = document["first_divergence"]["again"]
    result = subprocess.run(again.replace("assay", str(ASSAY), 1) + " --json -",
                            shell=True, capture_output=True, text=True)
    assert result.returncode == 1
    rows = json.loads(result.stdout)["rows"]
    assert 0 < len(rows) < 10


def test_a_dump_matches_itself(assay, dumps):
    assay("compare", dumps / "golden", dumps / "golden", code=0)


def test_every_report_is_written(assay, dumps, tmp_path):
    names = ["r.html", "r.json", "r.csv", "r.xlsx", "r.xml"]
    flags = ["--html", "--json", "--csv", "--xlsx", "--junit"]
    arguments = [x for pair in zip(flags, names) for x in pair]
    assay("compare", dumps / "golden", dumps / "target", *arguments, code=1,
          cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(names)
    with open(tmp_path / "r.csv", newline="") as file:
        header = next(csv.reader(file))
    assert header[:3] == ["NPU Name", "Bench Name", "NPU Dtype"]


def test_unwritable_report_is_one_line(assay, pair, tmp_path):
    error = assay("compare", *pair, "--csv", tmp_path / "no/such/dir.csv",
                  code=3).stderr
    assert one_line(error)


@pytest.mark.parametrize("flag", ["--json", "--csv", "--html", "--xlsx", "--junit"])
def test_a_report_never_overwrites_an_input(assay, pair, flag):
    before = pair[0].read_bytes()
    assert one_line(assay("compare", *pair, flag, pair[0], code=2).stderr)
    assert pair[0].read_bytes() == before


def test_two_reports_in_one_file_are_refused(assay, pair, tmp_path):
    out = tmp_path / "x"
    assert one_line(assay("compare", *pair, "--csv", out, "--json", out,
                          code=2).stderr)


def test_lost_output_is_an_error(assay, pair):
    with open("/dev/full", "w") as full:
        result = subprocess.run([ASSAY, "compare", *pair], stdout=full,
                                stderr=subprocess.PIPE, text=True)
    assert result.returncode == 3 and one_line(result.stderr)


def test_flags_before_the_paths_leave_them_alone(assay, dumps):
    assay("compare", "--only", "*.gelu.0.*", dumps / "golden", dumps / "golden")


def test_unrelated_noise_runs_are_no_yardstick(assay, tmp_path):
    rng = np.random.default_rng(3)
    files = [save(tmp_path / f"{n}.npy",
                  rng.standard_normal(4096).astype(np.float32))
             for n in ("golden", "target", "noise")]
    assay("compare", files[0], files[1], "--noise", files[2], code=1)
    near = save(tmp_path / "near.npy", np.load(files[0]) * np.float32(1 + 2e-7))
    result = assay("compare", files[0], near, "--noise", files[2], "--json", "-")
    assert "yardstick" in result.stdout


def test_only_narrows_and_an_empty_choice_is_no_match(assay, dumps):
    golden, target = dumps / "golden", dumps / "target"
    document = json.loads(assay("compare", golden / "step0", target / "step0",
                                "--only", "*.gelu.0.forward*", "--json",
                                "-").stdout)
    assert document["rows"] and all("gelu.0" in r["name"] for r in document["rows"])
    assay("compare", golden, target, "--only", "nothing-like-it", code=4)


@pytest.mark.parametrize("threads", ["1", "2", "16"])
def test_figures_do_not_depend_on_threads(assay, dumps, threads):
    def rows(n):
        result = assay("--threads", n, "compare", dumps / "golden",
                       dumps / "target", "--json", "-", code=1)
        return json.loads(result.stdout)["rows"]

    assert rows(threads) == rows("3")


def test_unknown_isa_is_refused(assay, pair):
    environment = {**os.environ, "ASSAY_ISA": "bogus"}
    error = assay("compare", *pair, code=2, env=environment).stderr
    assert one_line(error) and "scalar" in error


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_every_isa_gives_the_same_figures(assay, dumps, isa):
    supported = assay("doctor").stdout
    if isa not in supported:
        pytest.skip(f"{isa} is not supported here")

    def rows(name):
        result = assay("compare", dumps / "golden", dumps / "target", "--json",
                       "-", code=1, env={**os.environ, "ASSAY_ISA": name})
        return json.loads(result.stdout)["rows"]

    assert rows(isa) == rows("scalar")


def test_interrupt_leaves_no_half_written_report(tmp_path, dumps):
    big = tmp_path / "big"
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for i in range(24):
            np.save(tmp_path / side / f"x{i}.npy",
                    np.full(4 << 20, i + (side == "b"), np.float32))
    process = subprocess.Popen(
        [ASSAY, "--threads", "1", "compare", "a", "b", "--csv", "r.csv"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    left = [n for n in os.listdir(tmp_path) if n.startswith("r.csv")]
    assert left in ([], ["r.csv"])  # complete or absent, no temporary file
    assert not big.exists()


def test_inspect_shows_values_and_refuses_unknown_names(assay, dumps, pair):
    text = assay("inspect", dumps / "golden").stdout
    assert "operators" in text and "float32" in text
    detail = assay("inspect", dumps / "golden", "*gelu.1.forward.output.0").stdout
    assert "measured" in detail and "values" in detail
    value = np.load(pair[0]).flat[0]
    assert np.format_float_positional(value, trim="-")[:6] in assay(
        "inspect", pair[0], "*").stdout
    assert one_line(assay("inspect", pair[0], "nope", code=2).stderr)


def test_convert_round_trips(assay, dumps, tmp_path):
    source = dumps / "golden/step0/rank0"
    assay("convert", source, tmp_path / "out")
    assay("compare", source, tmp_path / "out", code=0)
    assay("convert", source, tmp_path / "all.safetensors")
    from safetensors.numpy import load_file
    tensors = load_file(tmp_path / "all.safetensors")
    assert "Functional.gelu.1.forward.output.0" in tensors


def test_raw_files_need_dtype_and_shape(assay, tmp_path):
    x = np.arange(24, dtype=np.float32)
    for name in ("a.bin", "b.bin"):
        x.tofile(tmp_path / name)
    a, b = tmp_path / "a.bin", tmp_path / "b.bin"
    assay("compare", a, b, "--dtype", "float32", "--shape", "4,6")
    assert "--dtype" in (r := assay("compare", a, b, code=4)).stdout + r.stderr
    error = assay("compare", a, b, "--dtype", "float32", "--shape", "5,6",
                  code=3).stderr
    assert one_line(error)


def test_completion_scripts_are_valid(assay, tmp_path):
    script = tmp_path / "assay.bash"
    script.write_text(assay("completion", "bash").stdout)
    subprocess.run(["bash", "-n", script], check=True)
    words = subprocess.run(
        ["bash", "-c", f"source {script}; COMP_WORDS=(assay compare --std);"
         "COMP_CWORD=2; COMP_WORDS=(assay compare --standard x); COMP_CWORD=3;"
         'COMP_WORDS[3]=asc; _assay; echo "${COMPREPLY[@]}"'],
        capture_output=True, text=True).stdout
    assert "ascend-mixed-2026" in words
    for shell in ("zsh", "fish"):
        text = assay("completion", shell).stdout
        assert all(verb in text for verb in VERBS)
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_doctor_names_the_simd_target(assay):
    text = assay("doctor").stdout
    for key in ("simd", "threads", "memory", "reads", "standards", "missing"):
        assert key in text


def test_a_later_step_inherits_the_fault_through_the_weights(assay, dumps):
    document = json.loads(assay("compare", dumps / "golden", dumps / "target",
                                "--json", "-", code=1).stdout)
    counts = document["counts"]
    assert counts["born"] == 1
    assert counts["parameter_differs"] == counts["input_differs"] == 0
    carried = [r for r in document["rows"]
               if r["role"] == "parameter" and r["verdict"] == "mismatch"]
    assert carried and all(r["step"] == 1 for r in carried)
    assert all(any(x["criterion"] == "earlier_step" for x in r["reasons"])
               for r in carried)
