"""Workers over a transformer_engine: a fake of it in tests/python/fake_te,
with NVTE's layout and signatures, judged by the engine's reference."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from paths import ASSAY, ROOT

pytest.importorskip("torch")
pytest.importorskip("safetensors")

FAKE = ROOT / "tests/python/fake_te"
# What a release can lack, in modules that the fake has whole.
LACKS = {
    "fused_optimizer": "FusedSGD takes no ",  # masters, loss scales
    "dot_product_attention": "fp8_dpa",
}
MODULES = ["linear", "layernorm_linear", "layernorm_mlp", "grouped_linear",
           "layernorm", "rmsnorm", "dot_product_attention", "softmax", "rope",
           "cross_entropy", "permutation", "fused_optimizer"]


def environment(variant):
    path = os.pathsep.join((str(ROOT / "python"), str(FAKE)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1",
            "FAKE_TE": variant}


def loop(folder, module, variant=""):
    """Exit code and cases by id."""
    worker = shlex.join([sys.executable, "-m", "assay.worker", "--provider",
                         "te"])
    done = subprocess.run(
        [ASSAY, "conform", "loop", "--reference", "reference", "--target",
         worker, "--specs", ROOT / "specs", "-m", module, "-o", "out", "-j",
         "1", "-q"], cwd=folder, env=environment(variant),
        capture_output=True, text=True, timeout=600)
    result = json.loads((folder / "out/run.json").read_text())
    return done.returncode, {c["case"]: c for c in result["modules"][0]["cases"]}


def is_rounding_of_subnormals(case):
    """Sums of subnormal products of 4-bit codes: one roundoff of fp32 is ten
    of their ulps, for every implementation."""
    parameters = case["parameters"]
    return (parameters.get("recipe") == "nvfp4"
            and parameters.get("values") == "near_zero")


def verdicts(cases, but=()):
    return {case["verdict"] for name, case in cases.items()
            if name not in but and not is_rounding_of_subnormals(case)}


@pytest.mark.parametrize("module", MODULES)
def test_a_whole_release_matches(tmp_path, module):
    code, cases = loop(tmp_path, module)
    lacking = {name for name, case in cases.items()
               if case["verdict"] == "incomplete"}
    for name in lacking:
        assert module in LACKS, cases[name]["message"]
        assert LACKS[module] in cases[name]["message"]
    assert sum(c["verdict"] == "match" for c in cases.values()) >= 30
    # rope's binding is not in the fake: that is what `exports` says.
    but = lacking | ({"exports"} if module == "rope" else set())
    assert verdicts(cases, but) <= {"match", "empty"}
    if lacking:
        assert code == 4
    if module == "rope":
        assert code == 1
        assert "transformer_engine_torch.fused_rope_forward" in (
            cases["exports"]["message"])


def test_legacy_spellings_compute_the_same(tmp_path):
    """fp8_autocast for autocast; softmax where 1.x had it."""
    _, cases = loop(tmp_path, "layernorm_linear", "legacy")
    assert verdicts(cases) <= {"match", "empty"}
    code, cases = loop(tmp_path, "softmax", "legacy")
    assert code == 1
    assert cases["exports"]["verdict"] == "mismatch"
    assert verdicts(cases, {"exports"}) <= {"match", "empty"}


@pytest.mark.parametrize("module", ["rmsnorm", "cross_entropy"])
def test_functions_that_know_no_names_are_called_by_place(tmp_path, module):
    code, cases = loop(tmp_path, module, "positional")
    assert verdicts(cases) <= {"match", "empty"}
    assert code == 0


def test_recipes_that_a_release_lacks_are_incomplete(tmp_path):
    code, cases = loop(tmp_path, "layernorm_linear", "old")
    assert code == 4
    seen = set()
    for name, case in cases.items():
        recipe = case["parameters"].get("recipe")
        invalid = "invalid" in name
        if recipe in ("block", "nvfp4") and not invalid:
            seen.add(recipe)
            assert case["verdict"] == "incomplete", name
            assert "no transformer_engine.common.recipe." in case["message"]
        else:
            assert case["verdict"] in ("match", "empty"), case["message"]
    assert seen == {"block", "nvfp4"}


def test_arguments_that_a_release_lacks_are_never_dropped(tmp_path):
    code, cases = loop(tmp_path, "linear", "old")
    assert code == 1  # save_original_input is no default of its constructor
    asked = [case for case in cases.values()
             if case["parameters"].get("save_original_input")
             and case["parameters"]["recipe"] in ("none", "current")]
    assert asked
    for case in asked:
        assert case["verdict"] == "incomplete"
        assert "takes no save_original_input" in case["message"]
    others = [case for case in cases.values()
              if case["parameters"].get("save_original_input") is False
              and case["verdict"] == "mismatch"]
    assert others
    assert all("contract.defaults.save_original_input" in case["message"]
               for case in others)


def test_a_missing_export_is_a_mismatch_of_its_module(tmp_path):
    code, cases = loop(tmp_path, "rmsnorm", "missing")
    assert code == 1
    assert cases["exports"]["verdict"] == "mismatch"
    assert cases["exports"]["message"] == (
        "missing: transformer_engine.pytorch.RMSNorm")
    # What is left of it is judged none the less.
    assert verdicts(cases, {"exports"}) <= {"match", "empty"}


def api_of(spec):
    """The list `api:` of a spec."""
    names, inside = [], False
    for line in spec.read_text().splitlines():
        if line.startswith("api:"):
            inside = True
        elif inside and line.startswith("  - "):
            names.append(line[4:].strip())
        elif inside and not line.strip().startswith("#"):
            break
    return names


def test_every_adapter_guards_the_names_of_its_spec():
    program = ("import json, importlib, sys\n"
               "print(json.dumps({m: importlib.import_module("
               "'assay.worker.te_provider.' + m).API for m in sys.argv[1:]}))")
    specs = {path.stem: path for path in (ROOT / "specs").glob("*.yaml")}
    done = subprocess.run([sys.executable, "-c", program, *specs],
                          env=environment(""), capture_output=True, text=True,
                          check=True)
    for module, names in json.loads(done.stdout).items():
        expected = api_of(specs[module])
        assert expected and len(names) == len(set(names)), module
        assert set(names) == set(expected), module


def test_a_package_that_is_not_there_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "assay.worker", "--provider", "te"],
        env={**environment(""), "PYTHONPATH": str(ROOT / "python")},
        input='{"type": "hello", "protocol": 1}\n', capture_output=True,
        text=True)
    assert done.returncode != 0 and not done.stdout
    assert "transformer_engine" in done.stderr
