"""assay.fuzz: planted faults are found in the modes that can see them, what
is right never is, and the training does not notice."""

from __future__ import annotations

import copy
import json
import random
import sys

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch import nn

import assay
import planted
from assay._core import fuzz_modes
from paths import ROOT

sys.path.insert(0, str(ROOT / "bench/capture"))
from gpt_step import Block  # noqa: E402

MODES = fuzz_modes()


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors: threads would wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)



def seeded(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)
                       ).to(dtype)


def looked_at(function, *args, mode, **options):
    check = assay.fuzz(mode=mode, **options)
    with check:
        function(*args)
    return check.report


def verdicts(report, api):
    return {row.verdict for row in report.rows if row.name.startswith(api)}


# -- what is planted is found

X = seeded(16, 512)
FOUND = [
    ("cancel", X, {"improve_precision", "add_noise"}),
    ("naive_var", X + 1000, {"improve_precision", "add_noise", "bit_noise"}),
    ("naive_softmax", X + 100, {"improve_precision"}),
    ("half_sum", seeded(16, 4096, dtype=torch.bfloat16),
     {"improve_precision"}),
    ("uncertain", X, {"repeat", "to_cpu"}),  # on the CPU they are one
    ("stale", X, {"add_noise", "swap"}),
    ("placed", X, {"improve_precision", "swap"}),
]


@pytest.mark.parametrize("name, x, expected", FOUND,
                         ids=[each[0] for each in FOUND])
def test_planted_faults_are_found(name, x, expected):
    for mode in expected:
        planted.forget()
        report = looked_at(getattr(planted, name), x, mode=mode)
        row = report[f"planted.{name}.0.forward.output.0"]
        assert row.verdict == "mismatch", (mode, row)
        assert report.verdict == "mismatch"
        assert report.first_divergence.name == f"planted.{name}.0.forward"
    assert "repeat" in expected or verdicts(
        looked_at(getattr(planted, name), x, mode="repeat"),
        "planted.") == {"match"}


@pytest.mark.parametrize("mode", MODES)
def test_an_extension_that_is_right_matches(mode):
    report = looked_at(planted.right, X, mode=mode)
    assert verdicts(report, "planted.right") == {"match"}


def test_the_reason_says_what_the_mode_held_it_to():
    report = looked_at(planted.uncertain, X, mode="repeat")
    assert report.rows[0].reason.startswith("does not repeat: ")
    report = looked_at(planted.cancel, X, mode="improve_precision")
    assert report.rows[0].reason.startswith("float64 gives other values: ")
    assert any("that does not explain it" in reason.text
               for reason in report.rows[0].reasons)
    planted.forget()
    report = looked_at(planted.stale, X, mode="add_noise")
    assert report.rows[0].reasons[0].criterion == "stale"


def test_inputs_rounding_explains_what_no_operator_can_do_better():
    """The variance of values that differ in their last bits: nothing is wrong
    with the operator, and its inputs have no more digits."""
    x = (1e4 + seeded(64, 256) * 1e-2)
    report = looked_at(lambda: x.sub(1e4).pow(3).mean(-1),
                       mode="improve_precision")
    assert report.matched
    # The sum of what nearly cancels is off by more than its class allows.
    y = torch.cat([x, -x + 1e-6 * seeded(64, 256, seed=1)], 1)
    report = looked_at(lambda: y.sum(), mode="improve_precision")
    row = report.rows[0]
    assert row.verdict in ("match", "incomplete")
    assert any(reason.criterion == "ill_conditioned"
               for reason in row.reasons), row.reasons


def test_indices_that_tie_are_a_decision_boundary():
    x = torch.ones(4, 8)
    x[:, 3], x[:, 5] = 2, 2 + 2**-22
    report = looked_at(planted.coarse_argmax, x, mode="improve_precision")
    row = report["planted.coarse_argmax.0.forward.output.0"]
    assert row.verdict == "incomplete", row
    assert row.reasons[0].criterion == "decision_boundary"
    x[:, 5] = 2 + 2**-12  # bfloat16 does not see it, float32 does
    report = looked_at(planted.coarse_argmax, x, mode="improve_precision")
    assert report.rows[0].verdict == "mismatch"


def test_indices_may_follow_the_noise():
    x = torch.ones(64, 8) + 1e-7 * seeded(64, 8)
    report = looked_at(lambda: x.argmax(-1), mode="add_noise")
    assert report.rows[0].verdict == "match"


# -- what is right is not

def gpt(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(48) for _ in range(2))).to(dtype)
    return model, seeded(3, 12, 48, dtype=dtype, seed=1)


def trained(model, x, check=None, autocast=False, steps=1):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        if check is not None:
            check.start()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = F.dropout(model(x), 0.1)
            tokens = y.float().argmax(-1)
            picked = y.float()[..., :10].topk(3, -1).values
            mask = torch.where(y > 0, y, y * 0.5)
            y = F.cross_entropy(y.float().flatten(0, 1), tokens.flatten())
            loss = y + picked.mean() + mask.float().cumsum(-1).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if check is not None:
            check.stop()
            check.step()
    return loss


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "autocast"])
@pytest.mark.parametrize("mode", MODES)
def test_a_healthy_step_raises_no_alarm(mode, kind):
    model, x = gpt(torch.bfloat16 if kind == "bfloat16" else torch.float32)
    check = assay.fuzz(model, mode=mode)
    trained(model, x, check, autocast=kind == "autocast")
    report = check.report
    wrong = report.of_verdict("mismatch", "incomplete")
    assert report.matched, [(row.name, row.reason) for row in wrong]
    assert report.counts["match"] > 60


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "autocast"])
@pytest.mark.parametrize("mode", ["repeat", "improve_precision"])
def test_a_healthy_backward_pass_raises_no_alarm(mode, kind):
    model, x = gpt(torch.bfloat16 if kind == "bfloat16" else torch.float32)
    check = assay.fuzz(model, mode=mode, stage="backward")
    trained(model, x, check, autocast=kind == "autocast")
    report = check.report
    wrong = report.of_verdict("mismatch", "incomplete")
    assert report.matched, [(row.name, row.reason) for row in wrong]
    assert report.counts["match"] > 40
    names = {row.name for row in report.rows}
    assert "Functional.linear.0.backward.output.1" in names


def test_backward_passes_are_held_to_wider_ones():
    x = (X * 1).requires_grad_()
    check = assay.fuzz(mode="improve_precision", stage="backward")
    with check:
        planted.lossy_grad(x).sum().backward()
    row = check.report["planted.lossy_grad.0.backward.output.0"]
    assert row.verdict == "mismatch"
    assert verdicts(looked_at(planted.lossy_grad, X,
                              mode="improve_precision"), "planted") == {
        "match"}


def test_an_input_that_changed_since_is_no_evidence():
    weight = nn.Parameter(X.clone())
    check = assay.fuzz(mode="repeat", stage="backward")
    with check:
        y = torch.cat([weight, weight])
        with torch.no_grad():
            weight.add_(1)
        y.sum().backward()
    rows = {row.name: row for row in check.report.rows}
    assert rows["Torch.cat"].verdict == "incomplete"
    assert "written to" in rows["Torch.cat"].reason


# -- the training does not notice

def state_of(model, loss):
    return [loss.detach().clone(),
            *(p.detach().clone() for p in model.parameters()),
            *(p.grad.clone() for p in model.parameters()),
            torch.get_rng_state(), torch.tensor(random.getstate()[1])]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("mode, stage", [
    *((mode, "forward") for mode in MODES),
    ("repeat", "backward"), ("improve_precision", "backward")])
def test_bits_gradients_and_generators_are_unchanged(mode, stage, autocast):
    states = []
    for check in (False, True):
        model, x = gpt()
        torch.manual_seed(3)
        random.seed(3)
        found = (assay.fuzz(model, mode=mode, stage=stage) if check else None)
        loss = trained(model, x, found, autocast)
        states.append(state_of(model, loss))
    assert all(map(torch.equal, *states))


def test_in_place_calls_and_views_are_run_on_copies():
    def run():
        x = X.clone()
        x[2:5] += 1
        x.mul_(2).relu_()
        x[0] = 7
        torch.add(x, 1, out=x)
        F.relu(x, True)
        y = x[:, ::2]
        y.exp_().clamp_(max=5)
        torch._foreach_mul_([x, y], 0.5)
        x.add_(x.t().contiguous().t())
        return x

    expected = run()
    for mode in MODES:
        check = assay.fuzz(mode=mode)
        with check:
            found = run()
        assert torch.equal(found, expected), mode
        assert not check.report.of_verdict("mismatch"), mode
        shared, *_ = (row for row in check.report.rows
                   if row.name.startswith("Torch._foreach_mul_"))
        assert shared.verdict == (
            "match" if mode in ("repeat", "to_cpu") else "incomplete")
    assert "match" in verdicts(check.report, "Tensor.exp_")


def test_statistics_of_batch_norm_are_kept_once():
    def run():
        torch.manual_seed(0)
        norm = nn.BatchNorm1d(512)
        for _ in range(2):
            norm(X)
        return norm.state_dict()

    expected = run()
    with assay.fuzz(mode="repeat") as check:
        found = run()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert check.report.matched


def test_what_a_schema_tells_or_hides_is_not_written_twice():
    for operator in (planted.sneaky, planted.secretive):
        expected = [operator(x := X.clone()), x]
        with assay.fuzz(mode="repeat") as check:
            operator(X.clone())  # the first call tells
            found = [operator(x := X.clone()), x]
        assert all(map(torch.equal, found, expected))
        assert not check.report.of_verdict("mismatch")
    rows = [row for row in check.report.rows if "secretive" in row.name]
    assert [row.verdict for row in rows] == ["match", "incomplete"]


def test_a_subclass_and_errors_of_the_users_pass_through():
    class Mine(torch.Tensor):
        pass

    with assay.fuzz(mode="repeat") as check:
        with pytest.raises(RuntimeError):
            torch.matmul(X, X)
        (X.as_subclass(Mine) + 1)
        torch.ones(3) + 1
    rows = {row.name: row.verdict for row in check.report.rows}
    assert rows["Tensor.add.1.forward.output.0"] == "match"
    assert "incomplete" in rows.values()


def test_faults_of_the_check_are_rows_and_stop_nothing(monkeypatch):
    from assay.fuzz import modes

    def broken(judged):
        raise ValueError("planted")

    monkeypatch.setattr(modes, "repeat", broken)
    with assay.fuzz(mode="repeat") as check:
        y = X + 1
    assert torch.equal(y, X + 1)
    row, = check.report.rows
    assert row.verdict == "incomplete" and "planted" in row.reason
    assert not check.report.matched


def test_what_cannot_be_called_wider_is_incomplete():
    report = looked_at(planted.only_f32, X, mode="improve_precision")
    row, = report.rows
    assert row.verdict == "incomplete"
    assert "only_f32 expects float32" in row.reason
    assert report.verdict == "incomplete"
    report = looked_at(lambda: X.double() + 1, mode="improve_precision")
    assert {row.verdict for row in report.rows if "add" in row.name} == {
        "incomplete"}


def test_skips_are_told_and_are_no_matches():
    with assay.fuzz(mode="improve_precision") as check:
        torch.empty(3)
        F.dropout(X, 0.5)
        torch.arange(4)
    rows = {row.name: row for row in check.report.rows}
    assert {row.verdict for row in rows.values()} == {"empty"}
    assert "nothing has written" in rows["Torch.empty"].reason
    assert "random numbers" in rows["Functional.dropout"].reason
    assert check.report.verdict == "incomplete"


def test_dropout_repeats_with_its_generator():
    generator = torch.Generator().manual_seed(1)
    with assay.fuzz(mode="repeat") as check:
        F.dropout(X, 0.5)
        torch.randn(3)
        torch.randn(3, generator=generator)
        (X * 0 + 0.5).bernoulli(generator=generator)
    assert check.report.matched
    assert check.report.counts["match"] == 6


# -- names, choice, steps

def test_names_are_the_captures_and_modules_are_told(tmp_path):
    model, x = gpt()
    check = assay.fuzz(model, mode="repeat")
    with check, assay.capture(tmp_path / "t", model, level="mix"):
        model(x)
    from capturing import rows
    seen = rows(tmp_path / "t/step0/rank0")
    mine = [row for row in check.report.rows if row.name.endswith("output.0")]
    assert mine and all(row.name in seen for row in mine)
    notes = {reason.text for row in mine for reason in row.reasons
             if reason.criterion == "module"}
    assert "Module.1.qkv.Linear" in notes


def test_only_and_samples_choose_calls():
    model, x = gpt()
    check = assay.fuzz(model, mode="repeat", only=["Functional.gelu.*"])
    with check:
        model(x)
    assert {row.op for row in check.report.rows} == {
        "Functional.gelu.0.forward", "Functional.gelu.1.forward"}
    check = assay.fuzz(model, mode="repeat", only="Module.1.*")
    with check:
        model(x)
    assert 0 < len(check.report) < 20

    def sampled(**options):
        check = assay.fuzz(mode="repeat", **options)
        with check:
            for _ in range(200):
                X[0] * 2
        return check.report

    half = sampled(sample=0.5)
    assert 60 < half.counts["match"] < 140
    assert [row.name for row in half] == [row.name for row in
                                          sampled(sample=0.5)]
    assert [row.name for row in half] != [row.name for row in
                                          sampled(sample=0.5, seed=1)]
    assert any("not in the sample" in text for text in half.warnings)
    assert 5 < sampled(every=10).counts["match"] < 40


def test_steps_number_calls_anew():
    check = assay.fuzz(mode="repeat")
    for _ in range(2):
        with check:
            X + 1
        check.step()
    assert [(row.name, row.step) for row in check.report.rows] == [
        ("Tensor.add.0.forward.output.0", 0),
        ("Tensor.add.0.forward.output.0", 1)]


def test_it_is_a_decorator():
    check = assay.fuzz(mode="repeat")

    @check
    def step():
        return X + 1

    step()
    step()
    assert check.report.counts["match"] == 2
    assert not check.running


def test_reports_are_those_of_compare(tmp_path):
    check = assay.fuzz(mode="repeat")
    with check:
        planted.uncertain(X)
    check.save(json=tmp_path / "a.json", html=tmp_path / "a.html",
               junit=tmp_path / "a.xml", csv=tmp_path / "a.csv")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["verdict"] == "mismatch"
    assert document["rows"][0]["origin"] == "born"
    assert "planted.uncertain" in (tmp_path / "a.html").read_text()
    assert "does not repeat" in (tmp_path / "a.xml").read_text()
    assert "first unsteady: planted.uncertain.0.forward" in str(check.report)


@pytest.mark.parametrize("options, word", [
    (dict(mode="no_change"), "mode"), (dict(stage="both"), "stage"),
    (dict(mode="swap", stage="backward"), "backward"),
    (dict(mode="repeat", fix=True), "fix"), (dict(sample=0), "sample"),
    (dict(every=0), "every"), (dict(wide="float16"), "wide"),
    (dict(mode="repeat", noise=3.0), "noise"),
    (dict(mode="improve_precision", fix="some"), "fix")])
def test_arguments_that_cannot_be_meant(options, word):
    with pytest.raises(ValueError, match=word):
        assay.fuzz(**options)


# -- fix

def test_fix_replaces_what_is_unsteady_and_nothing_else():
    x = (X * 1).requires_grad_()
    check = assay.fuzz(mode="improve_precision", fix=True)
    with check:
        y = planted.cancel(x)
        z = torch.tanh(x)
    assert torch.equal(y, x)  # what it computes, were it not for the digits
    assert not torch.equal(planted.cancel(x), x)
    assert z.grad_fn.name() == "TanhBackward0"
    assert torch.equal(z, torch.tanh(x))
    y.backward(X)
    assert torch.equal(x.grad, X)
    notes = [reason.text for row in check.report.rows
             for reason in row.reasons if reason.criterion == "fix"]
    assert notes == ["replaced by what it is held to"]


def test_fix_all_replaces_every_call():
    x = seeded(16, 512, dtype=torch.bfloat16).requires_grad_()
    check = assay.fuzz(mode="improve_precision", fix="all")
    with check:
        y = F.softmax(x, -1)
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, F.softmax(x.float(), -1).bfloat16())
    assert y.grad_fn.name() == "ToCopyBackward0"
    y.sum().backward()
    assert x.grad.dtype is torch.bfloat16


def test_fix_leaves_in_place_calls_alone():
    x = X.clone()
    with assay.fuzz(mode="improve_precision", fix="all") as check:
        result = x.exp_()
    assert result is x and torch.equal(x, X.exp())
    assert any(reason.criterion == "fix" and "in place" in reason.text
               for reason in check.report.rows[0].reasons)


def test_a_copy_of_the_model_has_no_hook_of_ours():
    model, x = gpt()
    check = assay.fuzz(model, mode="repeat")
    with check:
        other = copy.deepcopy(model)
    with check:
        pass
    seen = len(check.report)
    other(x)
    assert len(check.report) == seen
    assert not model[0]._forward_pre_hooks
