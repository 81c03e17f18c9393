"""`assay env`: snapshots of scripts, machines and trainings, and their diff."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from paths import ASSAY, ROOT

SCRIPTS = ROOT / "examples/env"


@pytest.fixture
def here(tmp_path):
    return {"cwd": tmp_path, "env": {**os.environ,
                                     "ASSAY_PYTHON": sys.executable}}


@pytest.fixture
def quick(here, tmp_path):
    """Another Python than the one with torch, which takes seconds to start."""
    fake = tmp_path / "quick-python"
    sections = {name: {"collected": True, "values": {"a": "1"}}
                for name in ("libraries", "switches", "system")}
    fake.write_text("#!/bin/sh\necho '" + json.dumps(
        {"format": "assay-env", "version": 1, "sections": sections}) + "'\n")
    fake.chmod(0o755)
    here["env"]["ASSAY_PYTHON"] = str(fake)
    return here


def test_the_scripts_of_the_example(assay, tmp_path, here):
    for name in ("cuda", "npu"):
        assay("env", "snapshot", "--static", "--out", f"{name}.json",
              "--script", SCRIPTS / f"pretrain_gpt_{name}.sh", **here)
    shown = assay("env", "diff", "cuda.json", "npu.json", "--html", "r.html",
                  "--junit", "r.xml", "--csv", "r.csv", "--json", "r.json",
                  code=1, **here).stdout
    assert shown.splitlines()[1].endswith(
        "first: hyperparameters.use_fused_rmsnorm")
    document = json.loads((tmp_path / "r.json").read_text())
    differ = [row["name"] for row in document["rows"]
              if row["verdict"] == "mismatch"]
    assert differ == ["hyperparameters." + key for key in (
        "use_fused_rmsnorm", "use_fused_rotary_pos_emb", "use_fused_swiglu",
        "norm_epsilon", "data_path", "tokenizer_model")]
    for report in ("r.html", "r.xml", "r.csv"):
        assert "norm_epsilon" in (tmp_path / report).read_text()


def test_a_snapshot_of_this_machine(assay, tmp_path, here):
    (tmp_path / "train.yaml").write_text("model: {hidden-size: 8}\n")
    said = assay("env", "snapshot", "--out", "a.json", "--config",
                 "train.yaml", "--", "torchrun", "--nproc_per_node", "2",
                 "train.py", "--lr", "1e-4", **here).stdout
    made = json.loads((tmp_path / "a.json").read_text())
    sections = made["sections"]
    assert sections["hyperparameters"]["values"]["lr"]["value"] == "1e-4"
    assert sections["hyperparameters"]["values"]["model.hidden_size"] == {
        "value": 8, "from": "train.yaml:1"}
    import torch
    assert sections["switches"]["values"]["torch.version"] == torch.__version__
    assert sections["libraries"]["values"]["pytest"] == pytest.__version__
    assert sections["device"]["values"]["vendor"] == "cpu"
    assert sections["system"]["values"]["os.kernel"].startswith("Linux")
    assert "switches" in said and "not in it" not in said
    assay("env", "diff", "a.json", "a.json", **here)


def test_another_tf32_in_the_environment(assay, tmp_path, quick):
    assay("env", "snapshot", "--out", "a.json", **quick)
    quick["env"]["NVIDIA_TF32_OVERRIDE"] = "0"
    assay("env", "snapshot", "--out", "b.json", **quick)
    shown = assay("env", "diff", "a.json", "b.json", "-q", code=1, **quick)
    assert "differ 1" in shown.stdout
    shown = assay("env", "diff", "a.json", "b.json", code=1, **quick).stdout
    assert "first: environment.NVIDIA_TF32_OVERRIDE" in shown


def test_a_python_that_is_not_there(assay, tmp_path, here):
    here["env"]["ASSAY_PYTHON"] = "/nowhere/python"
    said = assay("env", "snapshot", "--out", "a.json", **here).stdout
    assert "not in it, switches: Python gave nothing" in said
    made = json.loads((tmp_path / "a.json").read_text())
    assert not made["sections"]["switches"]["collected"]
    assert made["sections"]["system"]["collected"]


def test_a_python_that_says_something_else(assay, tmp_path, here):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho '{\"format\": 1}'\n")
    fake.chmod(0o755)
    here["env"]["ASSAY_PYTHON"] = str(fake)
    said = assay("env", "snapshot", "--out", "a.json", **here).stdout
    assert "not in it, libraries: Python gave nothing" in said


def test_the_tools_of_vendors(assay, tmp_path, quick):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (
            ("nvidia-smi", "NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB\\n"
             "NVIDIA H100 80GB HBM3, 550.54.15, 81559 MiB\\n"),
            ("rocminfo", "")):
        tool = tools / name
        tool.write_text(f"#!/bin/sh\nprintf '{text}'\n")
        tool.chmod(0o755)
    quick["env"]["PATH"] = f"{tools}:{quick['env']['PATH']}"
    assay("env", "snapshot", "--out", "a.json", **quick)
    device = json.loads((tmp_path / "a.json").read_text())["sections"]["device"]
    assert device["values"]["devices"] == "2 x NVIDIA H100 80GB HBM3"
    assert device["values"]["nvidia.driver"] == "550.54.15"
    assert device["values"]["vendor"] == "cuda"
    (tools / "nvidia-smi").write_text("#!/bin/sh\necho broken >&2; exit 9\n")
    said = assay("env", "snapshot", "--out", "b.json", **quick).stdout
    assert "nvidia-smi: exit 9: broken" in said


def test_the_commit_is_read_from_files(assay, tmp_path, quick):
    git = tmp_path / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs/heads/main").write_text("a" * 40 + "\n")

    def commit():
        assay("env", "snapshot", "--out", "a.json", **quick)
        made = json.loads((tmp_path / "a.json").read_text())
        return made["sections"]["system"]["values"].get("git.commit")

    assert commit() == "a" * 40
    (git / "refs/heads/main").unlink()
    (git / "packed-refs").write_text("# pack\n" + "b" * 40
                                     + " refs/heads/main\n")
    assert commit() == "b" * 40
    (git / "HEAD").write_text("ref: refs/../../../etc/passwd\n")
    assert commit() is None


@pytest.mark.parametrize("arguments, code", [
    (("snapshot",), 2),
    (("snapshot", "--out", "a.json", "--static"), 2),
    (("snapshot", "--out", "a.json", "--script", "none.sh"), 3),
    (("snapshot", "--out", "run.sh", "--script", "run.sh"), 2),
    (("diff", "none.json", "none.json"), 3),
    (("diff", "run.sh", "run.sh"), 3),
    (("diff", "run.sh", "run.sh", "--section", "x"), 2),
])
def test_what_cannot_be_done_is_one_line(assay, tmp_path, quick, arguments,
                                         code):
    (tmp_path / "run.sh").write_text("A='\n")
    done = assay("env", *arguments, code=code, **quick)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_script_is_no_snapshot_and_the_message_says_what_makes_one(
        assay, tmp_path, quick):
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    done = assay("env", "diff", "run.sh", "run.sh", code=3, **quick)
    assert done.stderr == (
        "assay: run.sh: no snapshot, expected what `assay env snapshot` writes "
        "(of a script: `assay env snapshot --script`)\n")


def test_a_script_that_does_not_end(assay, tmp_path, here):
    pathlib.Path(tmp_path / "run.sh").write_text("A=1\nB='x\n")
    done = assay("env", "snapshot", "--static", "--out", "a.json", "--script",
                 "run.sh", code=3, **here)
    assert "run.sh:2: a quote (') that is not closed" in done.stderr
    assert not (tmp_path / "a.json").exists()


def test_json_into_a_redirected_output(tmp_path):
    """The file is added to, and /dev/stdout stays the link that it is."""
    empty = tmp_path / "e.json"
    empty.write_text(json.dumps(
        {"format": "assay-env", "version": 1, "sections": {}}))
    before = os.readlink("/dev/stdout")
    with open(tmp_path / "out", "ab") as out:
        out.write(b"before\n")
        out.flush()
        subprocess.run([ASSAY, "env", "diff", empty, empty, "--json", "-"],
                       stdout=out, check=False)
    assert os.readlink("/dev/stdout") == before
    said = (tmp_path / "out").read_text()
    assert said.startswith("before\n")
    assert json.loads(said[len("before\n"):])["verdict"] == "incomplete"
