"""`assay.compare`: verdicts of pairs, containers and traces."""

import collections
import dataclasses
import json
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch

import assay
from assay.results import Comparison, Row

X = torch.linspace(-2, 2, 24).reshape(4, 6)


def verdict(golden, target, **options):
    found = assay.compare(golden, target, **options)
    assert isinstance(found, Row)
    return found.verdict


# One pair.

def test_equal_tensors_match():
    row = assay.compare(X, X.clone())
    assert row.verdict == "match" and row.matched and row.bitwise_equal
    assert row.max_abs == 0 and row.ulp_max == 0
    assert row.golden.shape == (4, 6) and row.golden.dtype == "float32"
    assert (row.golden.min, row.golden.max) == (-2, 2)


def test_a_mismatch_says_why_and_where():
    target = X.clone()
    target[2, 3] += 0.5
    row = assay.compare(X, target, op="linear")
    assert row.verdict == "mismatch" and not row.matched
    assert row.name == "linear"
    assert row.max_abs == pytest.approx(0.5, rel=1e-6)
    assert row.index == [2, 3] and row.mismatches == 1
    assert row.reasons[0].criterion == "element_bound"
    assert row.reasons[0].figure > row.reasons[0].bound
    assert row.reasons[0].index == (2, 3)


def test_the_cause_is_guessed():
    assert "constant factor" in assay.compare(X, X * 1.004).cause
    assert "permuted axes" in assay.compare(X[:, :4], X[:, :4].t()).cause


def test_the_operator_decides_how_exact_a_pair_has_to_be():
    target = X * (1 + 2.0**-21)
    assert verdict(X, target, op="transpose") == "mismatch"
    assert verdict(X.bfloat16(), X.bfloat16(), op="transpose") == "match"


def test_the_standard_decides():
    target = X * (1 + 3e-5)  # atol 1e-5, rtol 1.3e-6
    assert verdict(X, target, standard="torch-assert-close") == "mismatch"
    assert verdict(X, X + 1e-6, standard="torch-assert-close") == "match"
    assert verdict(X, X + 1e-6, standard="exact") == "mismatch"
    with pytest.raises(assay.Error, match="no standard 'exat'") as raised:
        assay.compare(X, X, standard="exat")
    assert raised.value.code == "usage"


def test_a_standard_from_a_file_is_read_each_time(root, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text((root / "standards/exact.yaml").read_text())
    assert verdict(X, X + 1e-6, standard=str(path)) == "mismatch"
    path.write_text((root / "standards/torch-assert-close.yaml").read_text())
    assert verdict(X, X + 1e-6, standard=str(path)) == "match"


NO_MATCH = {
    "shape": (X, X[:2], "mismatch", "shape differs"),
    "squeezed": (X, X[None], "mismatch", "shape differs"),
    "dtype": (X, X.double(), "mismatch", "dtype differs"),
    "number": (X[0, 0], -2.0, "mismatch", "dtype differs"),
    "empty": (X[:0], X[:0], "empty", "no evidence"),
    "empty shapes": (X[:0], X[:, :0], "mismatch", "shape differs"),
    "all NaN": (X * np.nan, X * np.nan, "incomplete", "finite"),
    "NaN": (X, X / X.where(X > -2, 0 * X), "mismatch", None),
    "meta": (X, X.to("meta"), "incomplete", "target: a tensor of the meta"),
    "object": (np.array([None]), np.array([None]), "incomplete", "object"),
    "text": (X, np.array(["a"]), "incomplete", "<U1"),
    "integers": (2**62, 2**62 + 1, "mismatch", None),
    "large": (2**70, 2**70 + 1, "mismatch", "golden 1180591620717411303424"),
    "bool and int": (True, 1, "mismatch", "dtype differs"),
    "sparse shape": (X, X[:2].to_sparse(), "mismatch", "shape differs"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", NO_MATCH)
def test_no_match(kind):
    golden, target, expected, why = NO_MATCH[kind]
    row = assay.compare(golden, target)
    assert row.verdict == expected and not row.matched
    assert why is None or why in " ".join(r.text for r in row.reasons)


MATCH = {
    "numpy": (X, X.numpy()), "backwards": (X.numpy()[::-1], X.flip(0)),
    "transposed": (X.t().contiguous(), X.t()), "0-d": (X[0, 0], X[0, 0]),
    "parameter": (X, torch.nn.Parameter(X)), "sparse": (X, X.to_sparse()),
    "complex": (X + 1j * X, (X - 1j * X).conj()), "large": (2**70, 2**70),
    "bfloat16": (X.bfloat16(), X.numpy().astype(ml_dtypes.bfloat16)),
    "fp8": (X.to(torch.float8_e4m3fn),
            X.numpy().astype(ml_dtypes.float8_e4m3fn)),
    "number": (0.5, np.float64(0.5)), "big endian": (
        X, X.numpy().astype(">f4")),
}


@pytest.mark.parametrize("kind", MATCH)
def test_match(kind):
    assert verdict(*MATCH[kind]) == "match"


def test_what_is_no_tensor_is_a_type_error():
    for pair in ((None, None), (object(), 1j and None), (torch, torch),
                 (X, "a.pt"), ("a.pt", {})):
        if isinstance(pair[0], str) or isinstance(pair[1], str):
            found = assay.compare({"x": pair[0]}, {"x": pair[1]})
            assert found.verdict == "mismatch"
            continue
        with pytest.raises(TypeError, match="expected tensors"):
            assay.compare(*pair)


def test_error_stats_are_those_of_numpy():
    x, y = X.double(), X.double() * 1.5 + 0.25
    stats = assay.error_stats(x, y)
    d = (y - x).numpy()
    assert stats.count == 24 and not stats.bitwise_equal
    assert stats.max_abs == abs(d).max()
    assert stats.rmse == pytest.approx(np.sqrt((d * d).mean()), rel=1e-14)
    assert stats.bias == pytest.approx(d.mean(), rel=1e-13)
    assert "24 differ" in repr(stats)
    with pytest.raises(assay.Error) as raised:
        assay.error_stats(X, X[:1])
    assert raised.value.code == "usage"
    with pytest.raises(TypeError, match="a str is no tensor"):
        assay.error_stats(X, "x")


# Containers.

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple


def names(found, *verdicts):
    return [row.name for row in found.of_verdict(*verdicts)]


def test_leaves_are_named_by_their_path():
    found = assay.compare(
        {"a": X, "b": [X, (X, {"c": X})], 7: X},
        {"a": X, "b": (X, [X, {"c": X}]), 7: X})
    assert found.verdict == "match" and found.matched
    assert names(found, "match") == ["a", "b[0]", "b[1][0]", "b[1][1].c", "[7]"]
    assert found["b[0]"].matched and found[0].name == "a" and len(found) == 5
    assert found.counts["match"] == 5


def test_what_is_on_one_side_only_is_named_and_no_match():
    found = assay.compare({"a": X, "gone": {"b": X, "c": [X]}, "e": {}},
                          {"a": X, "new": X, "e": {}})
    assert found.verdict == "incomplete" and not found.matched
    assert names(found, "incomplete") == ["gone.b", "gone.c[0]", "new"]
    assert found["new"].golden is None
    assert "no counterpart in the golden" in found["new"].reason


def test_lists_of_different_lengths():
    found = assay.compare([X, X], [X])
    assert found.verdict == "incomplete"
    assert names(found, "incomplete") == ["[1]"]


@pytest.mark.parametrize("golden, target, text", [
    ({"a": X}, {"a": [X]}, "tensor"), ({"a": [X]}, {"a": {"b": X}}, "list"),
    ([X], X, "tensor"), ({"a": {}}, {"a": X}, "dict"),
    ({"a": X}, {"a": None}, "NoneType")])
def test_other_structure_is_a_mismatch(golden, target, text):
    found = assay.compare(golden, target)
    assert found.verdict == "mismatch"
    assert text in found.rows[0].reason


@pytest.mark.parametrize("golden, target", [
    ({}, {}), ([], ()), ({"a": []}, {"a": []}), ([X[:0]], [X[:0]]),
    ([X[:0], "a"], [X[:0], "a"]), ([X * np.nan, None], [X * np.nan, None])])
def test_no_evidence_is_no_match(golden, target):
    assert assay.compare(golden, target).verdict == "incomplete"


def test_a_mismatch_outweighs_what_is_missing():
    assert assay.compare([X, X], [X + 1]).verdict == "mismatch"


VALUES = ["text", None, b"bytes", torch.float32, torch.device("cpu"), 3, 2.5,
          True, 2**80, slice(1, 2), "\ud800"]


def test_values_that_are_no_tensors():
    found = assay.compare({"t": X, "v": VALUES}, {"t": X, "v": list(VALUES)})
    assert found.verdict == "match" and len(found) == 1 + len(VALUES)
    assert found["v[0]"].evidence == "value"
    assert found["v[0]"].golden.value == "text"
    for i, value in enumerate(VALUES):
        other = "other" if value is None else None
        found = assay.compare([X, value], [X, other])
        assert found.verdict == "mismatch", VALUES[i]
    assert assay.compare([X, "a"], [X, "b"]).verdict == "mismatch"
    # Where a tensor lives is what a port changes.
    devices = [[X, torch.device(name)] for name in ("cpu", "cuda")]
    assert assay.compare(*devices).verdict == "match"


def test_objects_are_not_compared():
    found = assay.compare([X, object()], [X, object()])
    assert names(found, "incomplete") == ["[1]"]
    assert "a object is not compared" in found["[1]"].reason


def test_modules_dataclasses_and_optimizers():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    found = assay.compare(model, model.state_dict())
    assert found.matched and "0.weight" in [row.name for row in found]
    state = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": X}},
             "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999),
                               "foreach": None, "params": [0]}]}
    found = assay.compare(state, state)
    assert found.matched and found["state[0].exp_avg"].matched
    outputs = [Output(X, (X, Point(X, k))) for k in (1, 2)]
    found = assay.compare(*outputs)
    assert names(found, "match") == ["logits", "hidden[0]", "hidden[1][0]"]
    assert names(found, "mismatch") == ["hidden[1][1]"]


def test_containers_within_themselves_end():
    loop = {"x": X}
    loop["loop"] = loop
    found = assay.compare(loop, loop)
    assert found.verdict == "incomplete"
    assert "nested deeper than 100 levels" in found.rows[-1].reason


def test_leaves_of_equal_names_are_all_compared():
    found = assay.compare({"a.b": X, "a": {"b": X}},
                          {"a.b": X, "a": {"b": X + 1}})
    assert [row.verdict for row in found] == ["match", "mismatch"]
    assert [row.name for row in found] == ["a.b", "a.b"]


def test_names_for_the_items():
    found = assay.compare((X, X), (X, X + 1), names=["dx", "dw"])
    assert names(found, "mismatch") == ["dw"]
    assert assay.compare(X, X, names="loss").name == "loss"
    with pytest.raises(ValueError, match="1 names"):
        assay.compare((X, X), (X, X), names=["dx"])
    with pytest.raises(TypeError, match="names"):
        assay.compare({"a": X}, {"a": X}, names=["dx"])


def test_a_large_state_dict_is_quick():
    state = {f"layers.{i}.weight": X for i in range(3000)}
    assert assay.compare(state, state).counts["match"] == 3000


# Results.

def test_results_are_no_truth_values():
    for found in (assay.compare(X, X), assay.compare([X], [X])):
        with pytest.raises(TypeError, match="no truth value.*matched"):
            bool(found)
        with pytest.raises(TypeError):
            assert found


def test_results_are_frozen_and_can_be_sent_elsewhere():
    for found in (assay.compare(X, X + 1), assay.compare([X], [X + 1])):
        with pytest.raises(dataclasses.FrozenInstanceError):
            found.verdict = "match"
        again = pickle.loads(pickle.dumps(found))
        assert again == found and again.verdict == "mismatch"
        assert repr(again) == repr(found)
    with pytest.raises(TypeError):
        assay.compare(X, X).fields["verdict"] = "match"


def test_figures_that_are_not_finite_are_floats():
    row = assay.compare(torch.zeros(2), torch.ones(2))
    assert row.max_rel == float("inf") and row.norm_l2 == float("inf")
    found = assay.compare({"inf": torch.zeros(1)}, {"inf": torch.zeros(1)})
    assert found.rows[0].name == "inf"
    assert assay.compare(["nan", X], ["nan", X])[0].golden.value == "nan"


def test_every_documented_key_of_a_row_is_an_attribute(root):
    text = (root / "docs/json-output.md").read_text()
    rows = text[text.index("## `rows`"):text.index("## Example")]
    documented = {key for line in rows.splitlines() if line.startswith("| `")
                  for key in line.split("|")[1].replace("`", "").split(", ")}
    documented = {key.strip() for key in documented}
    structured = {"name", "verdict", "reasons", "golden", "target", "is_tensor",
                  "rel_histogram", "ulp_histogram", "baseline",
                  "worst_block32", "worst_block128"}
    from assay.results import ROW_KEYS
    assert set(ROW_KEYS) == documented - structured - {"golden, target"}
    row = assay.compare(X, X + 1)
    assert set(row.fields) <= documented | structured
    with pytest.raises(AttributeError):
        row.no_such_key
    assert "norm_l2" in dir(row) and row.amplification is None


def test_what_results_look_like():
    row = assay.compare(X, X * 1.004, op="linear")
    lines = repr(row).splitlines()
    assert lines[0] == "mismatch   linear   float32 [4, 6]"
    assert "max abs 0.008" in lines[-3] and "likely" in lines[-1]
    found = assay.compare({"w": X, "b": X}, {"w": X + 1})
    assert "not compared: 1 record, missing in the target" in repr(found)
    assert repr(found).startswith("mismatch   1 record differs\n")


def test_notebook_tables_escape_names():
    key = "<script>alert(1)</script>"
    found = assay.compare({key: X, "v": "<b>"}, {key: X + 1, "v": "<i>"})
    for page in (found._repr_html_(), found[key]._repr_html_(),
                 found["v"]._repr_html_()):
        assert "<script>" not in page and "<i>" not in page
        assert "mismatch</b>" in page and "#cf222e" in page
    for row in (assay.compare(X, X), assay.compare(X[:0], X[:0]),
                assay.compare([X], [])[0]):
        assert row.verdict in row._repr_html_()
    assert "step/rank" not in assay.compare([X, X], [X, X])._repr_html_()


def test_notebook_tables_put_first_what_differs():
    many = {f"w{i}": X for i in range(50)}
    found = assay.compare(many, {**many, "w49": X + 1})
    page = found._repr_html_()
    assert page.index(">w49<") < page.index(">w0<")
    assert "20 more in .rows" in page


def test_notebook_tables_put_the_origin_before_what_inherits(dumps):
    page = assay.compare(dumps / "golden", dumps / "target")._repr_html_()
    assert page.index(">born</b>") < page.index(">inherited</b>")


def test_notebook_tables_say_what_a_tensor_with_infinities_is(tmp_path):
    for run, shift in (("a", 0), ("b", 1)):
        with assay.capture(tmp_path / run, level="api", mode="tensor"):
            torch.tensor([-float("inf"), 2.0]) + shift
    page = assay.compare(tmp_path / "a", tmp_path / "b")._repr_html_()
    assert ">float32 [2]<" in page and "{" not in page


# Paths.

def test_traces(dumps):
    found = assay.compare(dumps / "golden", dumps / "target")
    assert isinstance(found, Comparison) and found.verdict == "mismatch"
    first = found.first_divergence
    assert first.name == "Functional.gelu.1.forward" and first.kind == "born"
    assert found.rows[first.row].origin == "born"
    assert "GELU variant" in first.cause and first.call_path and first.stack
    assert found.counts["mismatch"] == 785 and len(found) == 1382
    assert found.standard == "assay" and found.seconds > 0
    assert "first divergence: Functional.gelu.1.forward" in repr(found)
    page = found._repr_html_()
    assert "first divergence" in page and ">step/rank<" in page
    assert ">born</b>" in page and ">inherited</b>" in page


def test_traces_are_what_the_program_says(dumps, assay_json):
    found = assay.compare(str(dumps / "golden"), str(dumps / "target"),
                          flags=("--only", "*.gelu.*"), standard="exact")
    document = assay_json("--only", "*.gelu.*", "--standard", "exact")
    assert found.counts == document["counts"]
    assert [row.name for row in found] == [r["name"] for r in document["rows"]]
    assert found.standard == "exact"


@pytest.fixture
def assay_json(dumps, tmp_path):
    import subprocess

    from paths import ASSAY

    def run(*flags):
        path = tmp_path / "out.json"
        subprocess.run([ASSAY, "compare", dumps / "golden", dumps / "target",
                        "--json", path, "--quiet", *flags],
                       capture_output=True)
        return json.loads(path.read_text())

    return run


def test_equal_traces_match(dumps):
    assert assay.compare(dumps / "golden", dumps / "golden").matched


def test_errors_of_the_program_are_ours(dumps, tmp_path):
    with pytest.raises(assay.Error, match="no such file") as raised:
        assay.compare(tmp_path / "none", dumps / "golden")
    assert raised.value.code == "unreadable"
    with pytest.raises(assay.Error) as raised:
        assay.compare(dumps / "golden", dumps / "golden", standard="none")
    assert raised.value.code == "usage"
    with pytest.raises(TypeError, match="for tensors"):
        assay.compare(dumps / "golden", dumps / "golden", op="linear")
    with pytest.raises(TypeError, match="two paths"):
        assay.compare(X, X, flags=["--all"])


def test_paths_that_look_like_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("-x.npy", np.ones(3))
    assert assay.compare("-x.npy", "-x.npy").matched
