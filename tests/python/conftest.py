"""How the tests call the program and import the package; the example dumps."""

import subprocess
import sys

import pytest

from paths import ASSAY, PACKAGE, ROOT

sys.path.insert(0, str(PACKAGE))


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def dumps():
    return ROOT / "examples/gpt_dumps"


@pytest.fixture(scope="session")
def assay():
    """Runs the program: assay("compare", a, b, code=1) -> CompletedProcess."""

    def run(*arguments, code=0, **options):
        result = subprocess.run([ASSAY, *map(str, arguments)],
                                capture_output=True, text=True, timeout=120,
                                **options)
        assert result.returncode == code, (
            f"exit {result.returncode}, expected {code}\n"
            f"{result.stdout}\n{result.stderr}")
        return result

    return run


@pytest.fixture(scope="session")
def goldens(tmp_path_factory):
    """The small tier of every module, by the engine's reference."""
    folder = tmp_path_factory.mktemp("goldens") / "goldens"
    subprocess.run([ASSAY, "conform", "collect", "--worker", "reference",
                    "--goldens", folder, "--workers", "2", "--quiet"],
                   check=True, timeout=900)
    return folder


@pytest.fixture(scope="session")
def precheck_traces(tmp_path_factory):
    """The calls of precheck_calls.py: step 0 has the tensors, step 1 their
    statistics."""
    from precheck_calls import record

    folder = tmp_path_factory.mktemp("precheck-traces")
    for step, mode in enumerate(("tensor", "statistics")):
        record(folder / mode, mode)
        (folder / mode / "step0").rename(folder / f"step{step}")
        (folder / mode).rmdir()
    return folder


@pytest.fixture
def bare_python(tmp_path):
    """An interpreter without the packages that are installed beside it."""
    path = tmp_path / "bare"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    path.chmod(0o755)
    return str(path)
