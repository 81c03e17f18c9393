"""Fixtures: the sample reports and a headless Chromium.

The program `report_sample` is looked for in $ASSAY_BIN, else in the newest
build/*/bin.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
ROWS = 100_000


def find_program(name):
    if "ASSAY_BIN" in os.environ:
        return pathlib.Path(os.environ["ASSAY_BIN"]) / name
    built = sorted(
        ROOT.glob(f"build/*/bin/{name}"), key=lambda p: p.stat().st_mtime
    )
    if not built:
        pytest.fail(f"{name} is not built: cmake --build ... --target {name}")
    return built[-1]


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Folder with large.{html,json,csv,xml}, small.xlsx, gelu.* and stats.*."""
    folder = tmp_path_factory.mktemp("reports")
    subprocess.run(
        [find_program("report_sample"), folder, str(ROWS)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder


@pytest.fixture(scope="session")
def report(reports):
    """large.json, parsed."""
    return json.loads((reports / "large.json").read_text())


@pytest.fixture(scope="session")
def browser():
    from screenshot import start_browser

    driver = start_browser(1500, 1100, dark=False)
    yield driver
    driver.quit()
