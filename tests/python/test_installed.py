"""The package as a wheel lays it, away from the sources.

By itself it lays out what is built. `make test-clients` sets
ASSAY_TEST_PYTHON to the interpreter of an environment into which pip
installed the package.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from paths import ROOT

INSTALLED = os.environ.get("ASSAY_TEST_PYTHON")
CMAKE = next(path for path in ("/usr/bin/cmake", shutil.which("cmake"))
             if path and os.path.exists(path))


class Site:
    """An interpreter, and the folder in which it finds the package."""

    def __init__(self, python, folder, path):
        self.interpreter, self.folder = python, folder
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("PYTHONPATH", "ASSAY_PYTHON")}
        self.environment = {**environment, **path}

    def run(self, *command, code=0, **options):
        done = subprocess.run([str(part) for part in command], text=True,
                              capture_output=True, env=self.environment,
                              timeout=120, **options)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def python(self, *arguments, **options):
        return self.run(self.interpreter, *arguments, **options)

    def program(self, *arguments, **options):
        return self.run(self.folder / "assay/bin/assay", *arguments, **options)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    work = tmp_path_factory.mktemp("elsewhere")
    if INSTALLED:
        site = Site(INSTALLED, None, {})
        site.folder = pathlib.Path(site.python(
            "-c", "import assay; print(assay.__path__[0])",
            cwd=work).stdout.strip()).parent
        return site
    folder = work / "site-packages"
    subprocess.run([CMAKE, "--install", ROOT / "build/release", "--component",
                    "python", "--prefix", folder], check=True,
                   capture_output=True)
    shutil.copytree(ROOT / "python/assay", folder / "assay",
                    dirs_exist_ok=True)
    return Site(sys.executable, folder, {
        "PYTHONPATH": str(folder), "ASSAY_PYTHON": sys.executable})


def test_it_holds_the_package_and_nothing_else(site):
    package = site.folder / "assay"
    files = {path.relative_to(package).as_posix()
             for path in package.rglob("*") if path.is_file()
             and path.suffix != ".pyc"}
    sources = {path.relative_to(ROOT / "python/assay").as_posix()
               for path in (ROOT / "python/assay").rglob("*")
               if path.is_file() and path.suffix != ".pyc"}
    library = {name for name in files if name.startswith("_core.")
               and name.endswith(".so")}
    assert len(library) == 1
    assert files == sources | library | {
        "bin/assay", "specs/api/classes.yaml", "specs/api/nvte-2.20.json"}


def test_the_package_is_imported_from_there(site, tmp_path):
    code = ("import assay, sys; print(assay.__file__, assay.__version__,"
            "'torch' in sys.modules)")
    done = site.python("-c", code, cwd=tmp_path)
    where, version, torch = done.stdout.split()
    assert where == str(site.folder / "assay/__init__.py")
    assert version in (ROOT / "CMakeLists.txt").read_text()
    assert torch == "False"


def test_the_program_is_of_the_same_version(site, tmp_path):
    version = site.python("-c", "import assay; print(assay.__version__)",
                          cwd=tmp_path).stdout.strip()
    assert version in site.program("--version").stdout
    done = site.python("-c", "from assay._command import main; main()",
                       "--version", cwd=tmp_path)
    assert version in done.stdout


def test_the_command_is_there(site):
    if not INSTALLED:
        pytest.skip("scripts are written by pip")
    command = pathlib.Path(INSTALLED).parent / "assay"
    assert site.run(command, "--version").stdout == (
        site.program("--version").stdout)
    assert "compare" in site.run(command, "--help").stdout


def test_compares(site, dumps, tmp_path):
    done = site.program("compare", dumps / "golden", dumps / "target", code=1)
    assert "first divergence: Functional.gelu.1.forward" in done.stdout
    code = ("import sys, numpy, assay; x = numpy.arange(3.0);"
            "assert assay.compare(x, x).matched;"
            "found = assay.compare(*sys.argv[1:]);"
            "assert found.first_divergence.kind == 'born'")
    site.python("-c", code, dumps / "golden", dumps / "target", cwd=tmp_path)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completes(site, shell):
    assert "compare" in site.program("completion", shell).stdout


def test_the_program_finds_its_python_side_and_specs(site, tmp_path):
    # Not the package of the current folder, nor that of these sources.
    (tmp_path / "assay").mkdir()
    (tmp_path / "assay/__init__.py").write_text("raise SystemExit('wrong')")
    done = site.program("api", "scan", ROOT / "examples/api/user",
                        cwd=tmp_path)
    assert "18 uses of 7 APIs" in done.stdout


def test_the_golden_loop_runs_its_python_worker(site, tmp_path):
    if INSTALLED:
        pytest.skip("without torch")
    site.environment.pop("PYTHONPATH", None)  # the program finds it by itself
    done = site.program("conform", "loop", "--reference", "reference",
                        "--target", "torch", "--module", "router", "--only",
                        "small-c980437b", "--quiet", cwd=tmp_path)
    assert "match 1" in done.stdout
