"""`import assay`: what it costs and offers, what it says without a library."""

import ast
import importlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from paths import PACKAGE, ROOT


def python(code, *path, code_expected=0):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))})
    assert done.returncode == code_expected, done.stdout + done.stderr
    return done


def test_importing_the_package_imports_nothing_heavy():
    done = python("import assay, json, sys; dir(assay); assay.__all__;"
                  "print(json.dumps(sorted(sys.modules)))", PACKAGE)
    modules = json.loads(done.stdout)
    assert "assay" in modules
    assert not {"torch", "numpy", "ml_dtypes", "assay._core"} & set(modules)
    assert [name for name in modules if name.startswith("assay.")] == []


@pytest.mark.parametrize("name", ["capture", "Capture", "watch", "host_random",
                                  "check_determinism", "save"])
def test_what_needs_torch_says_so_where_there_is_none(name):
    done = python(f"import sys; sys.modules['torch'] = None; import assay;"
                  f"assay.{name}", PACKAGE, code_expected=1)
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: assay.{name} needs torch, which "
        f"{sys.executable} does not have")
    assert done.stderr.count("Traceback") == 1


def test_the_version_is_that_of_the_project():
    import assay
    text = (ROOT / "CMakeLists.txt").read_text()
    assert f"project(assay VERSION {assay.__version__} " in text


def test_every_name_is_listed_and_unknown_ones_are_not_there():
    import assay
    assert set(assay._EXPORTS) < set(assay.__all__) <= set(dir(assay))
    assert not hasattr(assay, "no_such_name")
    with pytest.raises(ImportError):
        from assay import no_such_name  # noqa: F401


def defined(path):
    """Names that the module at `path` binds, or promises in __all__."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets
                     if isinstance(target, ast.Name)]
            yield from names
            if names == ["__all__"]:
                yield from ast.literal_eval(node.value)


def module_file(name):
    path = ROOT / "python" / pathlib.Path(*name.split("."))
    init = path / "__init__.py"
    return init if init.exists() else path.with_suffix(".py")


def test_every_name_is_where_it_is_said_to_be():
    import assay
    for name, home in assay._EXPORTS.items():
        if home == "assay._core":
            assert hasattr(assay._core, name)
        elif module_file(home).exists():
            assert name in set(defined(module_file(home))), (name, home)
            if importlib.util.find_spec("torch"):
                assert hasattr(importlib.import_module(home), name)


@pytest.fixture
def copy(tmp_path):
    """The package with a module that has the name of what it exports."""
    package = tmp_path / "assay"
    package.mkdir()
    shutil.copy(ROOT / "python/assay/__init__.py", package)
    (package / "watch.py").write_text("def watch(): return 7\nOTHER = 1\n")
    return tmp_path


@pytest.mark.parametrize("first", [
    "", "import assay.watch", "from assay.watch import OTHER",
    "from assay import watch", "assay.watch"])
def test_a_function_hides_the_module_of_its_name(copy, first):
    python(f"import assay\n{first}\nassert assay.watch() == 7\n"
           "from assay.watch import watch, OTHER\n"
           "assert watch is assay.watch and OTHER == 1", copy)


@pytest.mark.parametrize("use", ["assay.Error", "assay._core",
                                 "from assay import _core",
                                 "assay.__version__"])
def test_a_missing_library_says_how_to_build_it(copy, use):
    done = python(f"import assay\n{use}", copy, code_expected=1)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and "`pip install .`" in last
    assert str(copy / "assay") in last
