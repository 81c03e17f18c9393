"""Every planted defect is found by the module that owns it, and by no
unrelated one."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from paths import ASSAY, LONG

pytest.importorskip("torch")
pytest.importorskip("safetensors")

from conform_faults import FAULTS  # noqa: E402

WORKER = pathlib.Path(__file__).with_name("conform_faults.py")
# Cases of a module that does not own the defect.
SAMPLE = 1000 if LONG else 2


def verdicts(goldens: pathlib.Path, fault: str, folder: pathlib.Path,
             *choice: str) -> dict[str, str]:
    """The verdict of every module that was chosen."""
    result = subprocess.run(
        [ASSAY, "conform", "run", "--goldens", goldens, "--target",
         f"{sys.executable} {WORKER} {fault}", "--workers", "2", "--quiet",
         "-o", folder, *choice],
        capture_output=True, text=True, timeout=900)
    assert result.returncode in (0, 1, 4), result.stdout + result.stderr
    run = json.loads((folder / "run.json").read_text())
    return {module["module"]: module["verdict"] for module in run["modules"]}


def ranks(golden: pathlib.Path) -> int:
    subject = json.loads(golden.read_text())["golden"]["subject"]
    return subject["parameters"].get("ranks", 1)


def sample(goldens: pathlib.Path, owner: str) -> list[str]:
    """Some cases of every other module, the same every time; of one rank,
    which is what the worker computes."""
    chosen = []
    for module in sorted((goldens / "cases").iterdir()):
        if module.name == owner:
            continue
        kept = [path for path in sorted(module.glob("*.json"))
                if ranks(path) == 1][:SAMPLE]
        for path in kept:
            chosen += ["--only", f"{module.name}/{path.stem}"]
    return chosen


@pytest.mark.parametrize("name", FAULTS)
def test_is_found_by_its_owner_alone(name, goldens, tmp_path):
    fault = FAULTS[name]
    own = verdicts(goldens, name, tmp_path / "own", "--module", fault.owner)
    assert own == {fault.owner: "mismatch"}
    found = verdicts(goldens, name, tmp_path / "others",
                     *sample(goldens, fault.owner))
    wrong = {module for module, verdict in found.items()
             if verdict == "mismatch"}
    assert wrong <= set(fault.shared)
    assert len(found) >= 19
