"""Every planted defect is found by the module that owns it, and by no
unrelated one."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from conform_faults import FAULTS
from paths import ASSAY

WORKER = pathlib.Path(__file__).with_name("conform_faults.py")


def verdicts(goldens: pathlib.Path, target: str, folder: pathlib.Path,
             ) -> dict[str, str]:
    """The verdict of every module."""
    result = subprocess.run(
        [ASSAY, "conform", "run", "--goldens", goldens, "--target", target,
         "--workers", "2", "--quiet", "-o", folder],
        capture_output=True, text=True, timeout=600)
    assert result.returncode in (0, 1, 4), result.stdout + result.stderr
    run = json.loads((folder / "run.json").read_text())
    return {module["module"]: module["verdict"] for module in run["modules"]}


@pytest.fixture(scope="module")
def goldens(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("goldens") / "goldens"
    subprocess.run([ASSAY, "conform", "collect", "--worker", "reference",
                    "--goldens", folder, "--quiet"], check=True, timeout=600)
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_is_found_by_its_owner_alone(name, goldens, tmp_path):
    fault = FAULTS[name]
    found = verdicts(goldens, f"{sys.executable} {WORKER} {name}",
                     tmp_path / "run")
    wrong = {module for module, verdict in found.items()
             if verdict != "match"}
    assert fault.owner in wrong, f"{name} passes"
    assert wrong - {fault.owner} <= fault.shared
