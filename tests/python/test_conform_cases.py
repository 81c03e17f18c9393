"""Cases, lint and drafts of specs, as a user of the program meets them."""

import json

import pytest
from safetensors import safe_open

SPEC = """module: mine
summary: a small one
api: [transformer_engine.pytorch.Linear]
parameters:
  n: [1, 2, 3]
  bias: [true, false]
  dtype: [float32]
inputs:
  x: {shape: [n, 4], dtype: dtype, values: normal}
  b: {shape: [4], dtype: dtype, values: ones, when: bias}
outputs:
  y: {shape: [n, 4], dtype: dtype}
invalid:
  negative: {n: -1}
"""


@pytest.fixture
def specs(tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/mine.yaml").write_text(SPEC)
    return tmp_path / "specs"


def test_cases_are_a_table(assay, specs):
    text = assay("conform", "cases", "--specs", specs).stdout
    assert text.startswith("mine: 7 small cases, ")
    assert "everywhere: dtype float32" in text
    assert text.count("\n  small-") == 7
    assert "small-invalid-negative" in text
    assert assay("conform", "cases", "-q", "--specs", specs).stdout.count(
        "\n") == 1


def test_cases_are_json_and_files(assay, specs, tmp_path):
    folder = tmp_path / "out"
    text = assay("conform", "cases", "mine", "--specs", specs, "--json", "-",
                 "-o", folder).stdout
    document, = json.loads(text)
    assert document["module"] == "mine" and len(document["cases"]) == 7
    for case in document["cases"]:
        name = folder / "mine" / case["case"]
        assert json.loads(name.with_suffix(".json").read_text()) == case
        if case.get("inputs") is None:
            assert case["case"] == "small-invalid-negative"
            continue
        assert ("b" in case["inputs"]) == case["parameters"]["bias"]
        with safe_open(name.with_suffix(".safetensors"), "np") as tensors:
            assert set(tensors.keys()) == set(case["inputs"])
            x = tensors.get_tensor("x")
            assert list(x.shape) == case["inputs"]["x"]["shape"]
            assert x.nbytes == case["inputs"]["x"]["bytes"]


def test_every_shipped_module_has_cases(assay):
    for tier in "small", "real":
        modules = json.loads(assay("conform", "cases", "--tier", tier,
                                   "--json", "-").stdout)
        assert len(modules) > 3
        assert all(module["cases"] for module in modules)


def test_wrong_names_are_one_line(assay, specs):
    for arguments, wanted in [
            (["cases", "linaer"], "did you mean 'linear'?"),
            (["cases", "--tier", "huge"], "expected small or real"),
            (["new", "transformer_engine.pytorch.Liner"], "did you mean"),
    ]:
        error = assay("conform", *arguments, code=2).stderr
        assert error.count("\n") == 1 and wanted in error


def test_lint_says_where(assay, specs):
    assert "1 spec, 1 finding" in assay("conform", "lint", "--specs", specs,
                                        code=1).stdout
    (specs / "mine.yaml").write_text(SPEC.replace(
        "invalid:\n  negative: {n: -1}\n", ""))
    assert assay("conform", "lint", "--specs",
                 specs).stdout == "1 spec, 0 findings\n"
    (specs / "mine.yaml").write_text(SPEC.replace("Linear", "Liner"))
    (specs / "broken.yaml").write_text("module: [\n")
    text = assay("conform", "lint", "--specs", specs, code=1).stdout
    assert f"{specs}/mine.yaml:3: error: transformer_engine.pytorch.Liner" \
        in text
    assert f"{specs}/broken.yaml:" in text and "2 specs, " in text


def test_a_draft_becomes_a_spec(assay, tmp_path):
    path = tmp_path / "linear.yaml"
    api = "transformer_engine.pytorch.Linear"
    assert "fill the gaps" in assay("conform", "new", api, "-o", path).stdout
    assert path.read_text() == assay("conform", "new", api).stdout
    assert "is there already" in assay("conform", "new", api, "-o", path,
                                       code=2).stderr
    assert "is a gap of a draft" in assay("conform", "cases", "--specs", path,
                                          code=2).stderr
