"""Workers over a transformer_engine: a fake of it in tests/python/fake_te,
with NVTE's layout and signatures, judged by the engine's reference."""

import json
import os
import shlex
import subprocess
import sys

import pytest

from paths import ASSAY, LONG, ROOT

pytest.importorskip("torch")
pytest.importorskip("safetensors")

FAKE = ROOT / "tests/python/fake_te"
# What a release can lack, in modules that the fake has whole.
LACKS = {
    "fused_optimizer": "FusedSGD takes no ",  # masters, loss scales
    "dot_product_attention": "fp8_dpa",
    "multihead_attention": "recipes",
    "transformer_layer": "recipes",
    "recompute": "recipes",
    "router": "contract.enums",
}
MODULES = ["linear", "layernorm_linear", "layernorm_mlp", "grouped_linear",
           "layernorm", "rmsnorm", "dot_product_attention",
           "multihead_attention", "transformer_layer", "softmax", "rope",
           "cross_entropy", "permutation", "router", "multi_tensor",
           "recompute", "fused_optimizer"] if LONG else [
               "layernorm_linear", "rmsnorm", "softmax", "permutation"]


def environment(variant):
    path = os.pathsep.join((str(ROOT / "python"), str(FAKE)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1",
            "FAKE_TE": variant}


def chosen(modules):
    return [word for module in modules for word in ("-m", module)]


def judge(goldens, modules, variant=""):
    """Exit code, and by module the cases by name."""
    worker = shlex.join([sys.executable, "-m", "assay.worker", "--provider",
                         "te"])
    out = goldens.parent / f"te{variant}"
    done = subprocess.run(
        [ASSAY, "conform", "run", "--goldens", goldens, "--target", worker,
         "-o", out, "-q", "--workers", "2", *chosen(modules)],
        env=environment(variant), capture_output=True, text=True, timeout=900)
    result = json.loads((out / "run.json").read_text())
    return done.returncode, {
        module["module"]: {case["case"]: case for case in module["cases"]}
        for module in result["modules"]}


@pytest.fixture(scope="module")
def whole(goldens):
    return judge(goldens, MODULES)[1]


@pytest.fixture(scope="module")
def old(goldens):
    return judge(goldens, ["linear", "layernorm_linear"], "old")


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
def test_a_whole_release_matches(whole, module):
    cases = whole[module]
    lacking = {name for name, case in cases.items()
               if case["verdict"] == "incomplete"}
    for name in lacking:
        assert module in LACKS, cases[name]["message"]
        assert LACKS[module] in cases[name]["message"]
    # Of the router there is always a field that Python does not show.
    assert sum(c["verdict"] == "match" for c in cases.values()) >= (
        3 if module == "router" else 10)
    # rope's binding is not in the fake: that is what `exports` says.
    but = lacking | ({"exports"} if module == "rope" else set())
    assert verdicts(cases, but) <= {"match", "empty"}
    if module == "rope":
        assert cases["exports"]["verdict"] == "mismatch"
        assert "transformer_engine_torch.fused_rope_forward" in (
            cases["exports"]["message"])


def test_legacy_spellings_compute_the_same(goldens):
    """fp8_autocast for autocast; softmax where 1.x had it."""
    code, found = judge(goldens, ["layernorm_linear", "softmax"], "legacy")
    assert code == 0
    for cases in found.values():
        assert verdicts(cases) <= {"match", "empty"}


def test_functions_that_know_no_names_are_called_by_place(goldens):
    code, found = judge(goldens, ["rmsnorm", "cross_entropy"], "positional")
    assert code == 0
    for cases in found.values():
        assert verdicts(cases) <= {"match", "empty"}


def test_recipes_that_a_release_lacks_are_incomplete(old):
    seen = set()
    for name, case in old[1]["layernorm_linear"].items():
        recipe = case["parameters"].get("recipe")
        if recipe in ("block", "nvfp4") and "invalid" not in name:
            seen.add(recipe)
            assert case["verdict"] == "incomplete", name
            assert "no transformer_engine.common.recipe." in case["message"]
        else:
            assert case["verdict"] in ("match", "empty"), case["message"]
    assert seen == {"block", "nvfp4"}


def test_what_is_only_incomplete_exits_with_4(goldens):
    code, _ = judge(goldens, ["layernorm_linear"], "old")
    assert code == 4


def test_arguments_that_a_release_lacks_are_never_dropped(old):
    code, found = old
    assert code == 1  # save_original_input is no default of its constructor
    cases = list(found["linear"].values())
    asked = [case for case in cases
             if case["parameters"].get("save_original_input")
             and case["parameters"]["recipe"] in ("none", "current")]
    assert asked
    for case in asked:
        assert case["verdict"] == "incomplete"
        assert "takes no save_original_input" in case["message"]
    others = [case for case in cases
              if case["parameters"].get("save_original_input") is False
              and case["verdict"] == "mismatch"]
    assert others
    assert all("contract.defaults.save_original_input" in case["message"]
               for case in others)


def test_a_missing_export_is_a_mismatch_of_its_module(goldens):
    code, found = judge(goldens, ["rmsnorm"], "missing")
    cases = found["rmsnorm"]
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
