"""Every command of ours in the README and the documents runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest

from paths import ASSAY, PACKAGE, ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PROGRAMS = ("assay", "quantised_linear", "quick_start", "transformer_layer",
            "tensor_parallel", "train_gpt", "oracle_runner")
FENCE = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.M | re.S)


def commands():
    for path in DOCUMENTS:
        for block in FENCE.findall(path.read_text()):
            if re.search(r"^(\$ )?python ", block, re.M):
                continue  # commands upon one another: test_migration.py
            for line in block.splitlines():
                line = line.removeprefix("$ ").split("  #")[0].strip()
                if line.split(" ")[0] in PROGRAMS:
                    yield pytest.param(line, id=f"{path.name}: {line}")


@pytest.mark.parametrize("line", list(commands()))
def test_command_runs(line, tmp_path):
    """In a copy of the example dumps: output files land nowhere else."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    environment = {**os.environ, "ASSAY_PYTHON": sys.executable,
                   # Whose python3 has torch, as that of a training's has.
                   "PATH": os.pathsep.join([
                       str(ASSAY.parent), os.path.dirname(sys.executable),
                       os.environ["PATH"]])}
    result = subprocess.run(["bash", "-c", line], cwd=tmp_path, text=True,
                            capture_output=True, env=environment, timeout=120)
    assert result.returncode in (0, 1), (
        f"{line}: exit {result.returncode}\n{result.stdout}\n{result.stderr}")


SHOWN = {"README.md": ("quick_start", "quantised_linear"),
         "README.zh-CN.md": ("quick_start",),
         "docs/modules.md": ("transformer_layer",),
         "docs/parallel.md": ("tensor_parallel",)}
EXAMPLES = [(document, example) for document in SHOWN
            if document != "README.zh-CN.md" for example in SHOWN[document]]


@pytest.mark.parametrize("document", SHOWN)
def test_a_document_shows_the_examples_as_they_are(document):
    text = (ROOT / document).read_text()
    blocks = re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S)
    for code, example in zip(blocks, SHOWN[document], strict=True):
        assert code in (ROOT / f"examples/{example}.cpp").read_text()


@pytest.mark.parametrize("document, example", EXAMPLES)
def test_a_document_shows_what_the_example_prints(document, example, tmp_path):
    text = (ROOT / document).read_text()
    shown = re.search(rf"^\$ {example}\n```\n\n```text\n(.*?)^```", text,
                      re.M | re.S)[1]
    printed = subprocess.run([ASSAY.parent / example], text=True, cwd=tmp_path,
                             capture_output=True, check=True).stdout
    assert printed == shown


# Whose Python runs from top to bottom, after these lines, and prints what
# follows it.
PYTHON = {"docs/python.md": "", "README.md": """
import torch
golden = torch.arange(6.0)
target = golden * 1.01
model = ported = torch.nn.Linear(2, 3)
batch, optimizer = golden.view(3, 2), torch.optim.AdamW(model.parameters())
"""}


@pytest.mark.parametrize("document", PYTHON)
def test_the_python_of_a_document_runs(document, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    text = (ROOT / document).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```(?:\n+(?:prints\n+)?"
                        r"```text\n(.*?)^```)?", text, re.M | re.S)
    assert blocks
    # A line between what the blocks print.
    code = PYTHON[document] + "print('=' * 9)\n".join(
        code for code, _ in blocks)
    done = subprocess.run([sys.executable, "-c", code], text=True,
                          capture_output=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("=" * 9 + "\n")
    assert len(printed) == len(blocks)
    for (_, shown), output in zip(blocks, printed):
        assert shown in ("", output)


def test_the_index_of_the_document_runs(tmp_path):
    document = (ROOT / "docs/oracle-vectors.md").read_text()
    index = re.search(r"^```json\n(.*?)^```", document, re.M | re.S)[1]
    (tmp_path / "INDEX.json").write_text(index)
    with np.load(ROOT / "tests/data/oracle/norm_rmsnorm_f32.npz") as vector:
        np.savez(tmp_path / "norm_mine.npz",
                 **{name: vector[name] for name in ("x", "gamma", "dz", "z", "dx")})
    result = subprocess.run([ASSAY.parent / "oracle_runner", tmp_path], text=True,
                            capture_output=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "pass norm_mine.npz (2 arrays)" in result.stdout


def test_the_field_log_lists_every_number():
    log = (ROOT / "docs/field-log.md").read_text()
    listed = set(re.findall(r"^\| (F\d+) \|", log, re.M))
    named = {number for path in (ROOT / "tests").rglob("*_test.cpp")
             for number in re.findall(r", (F\d+)_", path.read_text())}
    assert named and named <= listed, sorted(named - listed)


def test_the_documents_link_to_what_is_there():
    for document in DOCUMENTS:
        text = document.read_text()
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_readme_has_commands():
    readme = (ROOT / "README.md").read_text()
    assert len(re.findall(r"^\$? ?assay ", readme, re.M)) >= 3
    assert shutil.which("make") and "make demo" in readme
    assert shlex.split("make test")[1] in readme
