"""`assay api` as a user meets it: exit codes, messages, reports."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from paths import ROOT

USER = ROOT / "examples/api/user"
ENGINE = ROOT / "examples/api/engine"
MANIFEST = ROOT / "examples/api/engine-1.json"


def one_line(text):
    return text.count("\n") == 1 and text.startswith("assay: ")


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "eng"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from enum import Enum\n"
        "class Format(Enum):\n    E4M3 = 448\n    HYBRID = 57344\n"
        "def quantize(x, scale=1.0): pass\n")
    return folder


@pytest.fixture
def manifest(assay, package, tmp_path):
    path = tmp_path / "eng.json"
    assay("api", "extract", package, "-o", path)
    return path


def change(package, before, after):
    path = package / "__init__.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_help_of_the_group_and_of_its_members(assay):
    group = assay("api", "--help").stdout
    for verb in ("scan", "extract", "check"):
        assert verb in group
        assert "Examples:" in assay("api", verb, "--help").stdout
    assert "examples/api/user" in group


@pytest.mark.parametrize("arguments", [
    ["api"], ["api", "scn"], ["api", "scan"], ["api", "check", "x"],
    ["api", "extract"], ["api", "scan", "x", "--bogus"],
])
def test_usage(assay, arguments):
    error = assay(*arguments, code=2).stderr
    assert one_line(error)


def test_a_wrong_verb_is_answered_with_the_near_one(assay):
    assert "did you mean scan?" in assay("api", "scn", code=2).stderr


@pytest.mark.parametrize("words, expected", [
    ("assay api s", "scan"), ("assay api scan --tab", "--table"),
    ("assay api check --jun", "--junit"), ("assay a", "api"),
])
def test_completion_reaches_the_members(assay, tmp_path, words, expected):
    script = tmp_path / "assay.bash"
    script.write_text(assay("completion", "bash").stdout)
    line = words.split(" ")
    completed = subprocess.run(
        ["bash", "-c", f"source {script}; COMP_WORDS=({words}); "
         f'COMP_CWORD={len(line) - 1}; _assay; echo "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, check=True).stdout.split()
    assert completed == [expected]


def test_scan_of_the_example(assay):
    text = assay("api", "scan", USER, "--table").stdout
    assert "18 uses of 7 APIs in 2 of 2 files read" in text
    lines = {line.split()[1]: line for line in text.splitlines()
             if "transformer_engine" in line}
    linear = lines["transformer_engine.pytorch.Linear"]
    assert linear.startswith("numeric") and " 6 in 2 files" in linear
    guards = linear.split("files", 1)[1].replace(",", "").split()
    assert "linear" in guards  # a conformance module that names it
    assert lines["transformer_engine.pytorch.autocast"].startswith("chain")


def test_scan_json(assay):
    document = json.loads(assay("api", "scan", USER, "--json", "-").stdout)
    apis = {api["name"]: api for api in document["apis"]}
    linear = apis["transformer_engine.pytorch.Linear"]
    assert linear["class"] == "numeric" and linear["why"]
    assert linear["in_manifest"] is True
    assert "linear" in linear["guarded_by"]
    assert linear["kinds"] == {"annotation": 1, "call": 1, "isinstance": 1,
                               "subclass": 1, "super-call": 2}


def test_scan_by_file_and_of_another_root(assay, tmp_path):
    (tmp_path / "a.py").write_text("import eng.torch as e\ne.Linear(1)\n")
    text = assay("api", "scan", tmp_path, "--by-file", "--root", "eng").stdout
    assert f"{tmp_path}/a.py  2 uses" in text
    assert "unclassified" in text and "manifest" not in text


def test_scan_with_classes_and_a_manifest_of_ones_own(assay, tmp_path, manifest):
    (tmp_path / "a.py").write_text("import eng\neng.quantize(1)\neng.novel\n")
    classes = tmp_path / "classes.yaml"
    classes.write_text('rules: {"eng.q*": {class: numeric, why: "codes"}}\n')
    arguments = ["api", "scan", tmp_path / "a.py", "--root", "eng",
                 "--manifest", manifest, "--classes", classes]
    text = assay(*arguments, "--table").stdout
    assert "numeric       eng.quantize" in text
    assert "not in the manifest: eng.novel" in text
    document = json.loads(assay(*arguments, "--json", "-").stdout)
    assert [api["in_manifest"] for api in document["apis"]] == [
        True, False, True]
    classes.write_text("rules: {eng: {class: odd, why: x}}\n")
    error = assay(*arguments, code=2).stderr
    assert one_line(error) and "classes.yaml:1" in error


def test_scan_that_found_or_read_nothing_is_incomplete(assay, tmp_path):
    assert "0 uses" in assay("api", "scan", tmp_path, code=4).stdout
    (tmp_path / "a.py").write_text("import transformer_engine\n")
    assay("api", "scan", tmp_path)
    (tmp_path / "b.py").write_text("def f(:\n")
    text = assay("api", "scan", tmp_path, code=4).stdout
    assert "b.py:1: syntax error" in text


def test_scan_of_what_is_not_there(assay, tmp_path):
    error = assay("api", "scan", tmp_path / "no", code=3).stderr
    assert one_line(error) and "no" in error


def test_a_folder_that_looks_like_a_flag(assay, tmp_path):
    (tmp_path / "--root").mkdir()
    (tmp_path / "--root/a.py").write_text("import transformer_engine\n")
    assay("api", "scan", "./--root", cwd=tmp_path)


def test_extract_gives_the_same_bytes(assay, package):
    first = assay("api", "extract", package).stdout
    assert first == assay("api", "extract", package).stdout
    symbols = json.loads(first)["symbols"]
    assert symbols["eng.Format"]["values"] == {"E4M3": "448",
                                               "HYBRID": "57344"}


def test_extract_executes_nothing_unless_asked(assay, package, tmp_path):
    flag = tmp_path / "ran"
    change(package, "from enum", f"open({str(flag)!r}, 'w')\nfrom enum")
    assay("api", "extract", package)
    assert not flag.exists()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assay("api", "extract", "eng", "--import", env=environment)
    assert flag.exists()


def test_modules_of_the_current_folder_are_never_imported(assay, tmp_path,
                                                          package):
    (tmp_path / "json.py").write_text("open('ran', 'w')\n")
    (tmp_path / "assay").mkdir()
    (tmp_path / "assay/__init__.py").write_text("open('ran', 'w')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assay("api", "extract", package, cwd=tmp_path, env=environment)
    assert not (tmp_path / "ran").exists()


def test_extract_of_an_installed_package_by_name(assay, package):
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    document = json.loads(assay("api", "extract", "eng", env=environment).stdout)
    assert "eng.quantize" in document["symbols"]


def test_extract_of_what_is_not_there(assay):
    error = assay("api", "extract", "no_such_package_at_all", code=3).stderr
    assert one_line(error) and "no_such_package_at_all" in error


def test_extract_with_an_unreadable_module_is_incomplete(assay, package):
    (package / "broken.py").write_text("def f(:\n")
    result = assay("api", "extract", package, code=4)
    assert "broken.py" in result.stderr
    assert "eng.Format" in json.loads(result.stdout)["symbols"]


def test_the_interpreter_can_be_chosen(assay, package, tmp_path):
    environment = {**os.environ, "ASSAY_PYTHON": "no-such-python"}
    error = assay("api", "extract", package, code=3, env=environment).stderr
    assert one_line(error) and "no-such-python" in error
    environment["ASSAY_PYTHON"] = sys.executable
    assay("api", "extract", package, env=environment)
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\necho oh >&2\necho no >&2\nexit 9\n")
    failing.chmod(0o755)
    environment["ASSAY_PYTHON"] = str(failing)
    error = assay("api", "extract", package, code=3, env=environment).stderr
    assert error == "assay: no\n"
    failing.write_text("#!/bin/sh\necho '{\"assay_api_manifest\": 7}'\n")
    error = assay("api", "extract", package, code=3, env=environment).stderr
    assert one_line(error) and "from 1 to 1" in error


def test_check_of_itself_is_a_match(assay, package, manifest):
    text = assay("api", "check", package, "--manifest", manifest).stdout
    assert text.startswith("match")


@pytest.mark.parametrize("before, after, finding", [
    ("HYBRID", "MIXED", "changed       eng.Format  value HYBRID"),
    ("57344", "448.5", "changed       eng.Format  value HYBRID"),
    ("scale=1.0", "scale=2.0", "changed       eng.quantize  parameter scale"),
    ("scale=1.0", "factor=1.0", "changed       eng.quantize  parameter scale"),
    ("def quantize", "def quantise", "missing       eng.quantize  path"),
])
def test_check_finds_what_is_planted_and_nothing_else(
        assay, package, manifest, before, after, finding):
    change(package, before, after)
    text = assay("api", "check", package, "--manifest", manifest, code=1).stdout
    found = [line for line in text.splitlines()[1:-1]]
    assert len(found) == 1 and found[0].startswith(finding), text


def test_check_finds_what_moved(assay, package, manifest):
    (package / "inner.py").write_text("def quantize(x, scale=1.0): pass\n")
    change(package, "def quantize(x, scale=1.0): pass\n", "")
    text = assay("api", "check", package, "--manifest", manifest, code=1).stdout
    assert ("moved         eng.quantize  path: expected eng.quantize, found "
            "eng.inner.quantize") in text
    assert "missing 0   moved 1   changed 0" in text


def test_check_of_the_live_package(assay, package, manifest):
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    arguments = ["api", "check", "eng", "--import", "--manifest", manifest]
    assay(*arguments, env=environment)
    change(package, "57344", "240")
    text = assay(*arguments, env=environment, code=1).stdout
    assert "value HYBRID: expected 57344, found 240" in text
    change(package, "from enum", "raise RuntimeError('no device')\nfrom enum")
    error = assay(*arguments, env=environment, code=3).stderr
    assert one_line(error) and "RuntimeError: no device" in error


def test_what_a_live_package_prints_is_no_part_of_the_document(assay, package):
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    change(package, "from enum", "import os\nprint('{')\n"
           "os.write(1, b'noise of compiled code\\n')\nfrom enum")
    result = assay("api", "extract", "eng", "--import", env=environment)
    assert "eng.quantize" in json.loads(result.stdout)["symbols"]


def test_check_of_a_package_and_its_companion(assay, package, manifest,
                                              tmp_path):
    companion = tmp_path / "eng_torch"
    companion.mkdir()
    (companion / "__init__.py").write_text("def gemm(a, b): pass\n")
    change(package, "from enum", "from eng_torch import gemm\nfrom enum")
    both = tmp_path / "both.json"
    document = json.loads(manifest.read_text())
    document["symbols"]["eng_torch.gemm"] = {
        "kind": "function", "paths": ["eng.gemm", "eng_torch.gemm"],
        "parameters": [{"name": "a", "kind": "positional"},
                       {"name": "b", "kind": "positional"}]}
    both.write_text(json.dumps(document))
    assay("api", "check", package, "--manifest", both, code=4)
    assay("api", "check", package, companion, "--manifest", both)


def test_check_reports(assay, tmp_path):
    out, xml = tmp_path / "c.json", tmp_path / "c.xml"
    assay("api", "check", ENGINE, "--manifest", MANIFEST, "--json", out,
          "--junit", xml, code=1)
    document = json.loads(out.read_text())
    assert document["verdict"] == "mismatch"
    assert document["counts"]["changed"] == 1
    assert document["findings"][0]["what"] == "parameter columnwise"
    suite = ElementTree.parse(xml).getroot().find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert suite.find("testcase/failure").get("type") == "mismatch"


def test_check_that_compares_nothing_is_incomplete(assay, package, manifest,
                                                   tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "__init__.py").write_text("x = 1\n")
    text = assay("api", "check", other, "--manifest", manifest, code=4).stdout
    assert "eng  package: expected 3 paths, found not given" in text


def test_check_with_a_broken_source_is_no_match(assay, package, manifest):
    (package / "broken.py").write_text("def f(:\n")
    assay("api", "check", package, "--manifest", manifest, code=4)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"assay_api_manifest": 2}',
                                  '{"a": 1, "a": 2}', "[" * 100])
def test_manifests_that_are_none(assay, package, tmp_path, text):
    path = tmp_path / "m.json"
    path.write_text(text)
    error = assay("api", "check", package, "--manifest", path, code=3).stderr
    assert one_line(error) and "m.json" in error


def test_a_shipped_manifest_by_name(assay, package):
    text = assay("api", "check", package, "--manifest", "nvte-2.20",
                 code=4).stdout
    assert "against transformer_engine 2.20.0.dev0: " in text
    assert "symbols, 0 things compared" in text
    error = assay("api", "check", package, "--manifest", "nvte-1", code=3).stderr
    assert one_line(error) and "nvte-1" in error


def test_reports_overwrite_no_input(assay, package, manifest):
    before = manifest.read_bytes()
    assay("api", "check", package, "--manifest", manifest, "--json", manifest,
          code=2)
    assert manifest.read_bytes() == before
