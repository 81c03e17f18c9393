"""assay.capture(mode="overflow"): it stops where NaN or Inf is born, and
nowhere else; `assay overflow` names the same operator."""

from __future__ import annotations

import json
import subprocess

import pytest
import torch
import torch.nn.functional as F

import assay
from paths import ASSAY

NAN, INF = float("nan"), float("inf")


def stopped(path, body, model=None, **options):
    """What is raised; the program says the same of the trace."""
    with pytest.raises(assay.OverflowStop) as caught:
        with assay.capture(path, model, mode="overflow", **options):
            body()
    stop = caught.value
    found = json.loads(subprocess.run(
        [ASSAY, "overflow", path, "--json", "-"], capture_output=True,
        text=True).stdout)
    born = [f for f in found["found"] if f["kind"] == "born"
            and not f.get("note", "").startswith("asked for")]
    assert len(born) == stop.birth
    assert born[-1] == stop.finding
    if stop.birth == 1:
        assert found["first"]["name"] == stop.operator
    return stop


def passes(path, body, model=None, **options):
    with assay.capture(path, model, mode="overflow", **options):
        result = body()
    assert subprocess.run([ASSAY, "inspect", path],
                          capture_output=True).returncode == 0
    return result


def line_of(text):
    """Line of this file's test that has the text."""
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


def test_the_message_has_what_an_engineer_needs(tmp_path):
    x = torch.tensor([[-1.0, 2.0, 0.0], [4.0, -5.0, 6.0]])
    stop = stopped(tmp_path, lambda: torch.log(x), level="api")  # here
    assert str(stop).splitlines() == [
        "Torch.log.0.forward: its inputs are finite, output.0 is not: "
        "2 NaN, 1 -inf of 6 elements",
        "  input.0  float32 [2, 3]  min -5  max 6",
        "  output.0  float32 [2, 3]  2 NaN, 1 -inf of 6 elements  "
        "min 0.693147  max 1.79176",
        f"  {__file__}:{line_of('level=' + chr(34) + 'api' + chr(34) + ')  # here')} in <lambda>",
        "  step 0, rank 0; everything up to here: assay overflow "
        f"{tmp_path}/step0/rank0"]
    assert (stop.operator, stop.leaf) == ("Torch.log.0.forward", "output.0")
    assert (stop.step, stop.rank, stop.birth) == (0, 0, 1)


@pytest.mark.parametrize("body, operator", [
    (lambda: torch.zeros(3) / torch.zeros(3), "Tensor.div.0.forward"),
    (lambda: torch.full((4,), 12.0, dtype=torch.float16).exp(),
     "Tensor.exp.0.forward"),
    (lambda: torch.full((4,), 90.0, dtype=torch.bfloat16).exp(),
     "Tensor.exp.0.forward"),
    (lambda: torch.full((4,), 1e5).to(torch.float16), "Tensor.to.0.forward"),
    (lambda: torch.tensor([1 + 1j]) / torch.zeros(1), "Tensor.div.0.forward"),
    (lambda: torch.ones(3).div_(0), "Tensor.div_.0.forward"),
    (lambda: torch.empty(2, dtype=torch.float16).copy_(torch.tensor(1e6)),
     "Tensor.copy_.0.forward"),
    (lambda: F.softmax(torch.zeros(2, 3).masked_fill(
        torch.tensor([[True], [False]]), -INF), -1),
     "Functional.softmax.0.forward"),
    (lambda: F.softmax(MASK, -1), "Functional.softmax.0.forward"),
])
def test_births(tmp_path, body, operator):
    assert stopped(tmp_path, body, level="api").operator == operator


MASK = torch.tensor([[0.0, 1.0], [-INF, -INF]])
BUFFER = torch.full((3,), NAN)


def test_what_is_written_over_is_no_input(tmp_path):
    out = torch.full((3,), NAN)
    stop = stopped(tmp_path, lambda: torch.log(-torch.ones(3), out=out),
                   level="api")
    assert stop.operator == "Torch.log.0.forward"


def attention(mask):
    q = torch.randn(2, 4, 8)
    scores = q @ q.transpose(-1, -2) + mask
    return F.softmax(scores, -1) @ q


@pytest.mark.parametrize("body", [
    lambda: attention(torch.full((4, 4), -INF).triu(1)),
    lambda: attention(CAUSAL),
    lambda: attention(torch.zeros(4, 4).masked_fill(CAUSAL < 0, -INF)),
    lambda: attention(torch.where(CAUSAL < 0, -INF, 0.0)),
    lambda: torch.empty(3).copy_(torch.ones(3)),
    lambda: torch.ones(3, out=torch.empty(3)),
    lambda: BUFFER.clone().fill_(1.0),
    lambda: torch.relu(torch.tensor([NAN])) + 1,
    lambda: torch.minimum(torch.tensor(float("inf")), torch.ones(1)),
    lambda: torch.full((2,), INF),
    lambda: torch.nan_to_num(BUFFER),
    lambda: torch.zeros(3).masked_fill(torch.ones(3) > 0, -INF),
    lambda: F.softmax(BUFFER, 0),
    lambda: torch.ones(2, device="meta").log(),
])
def test_no_births(tmp_path, body):
    passes(tmp_path, body, level="api")


CAUSAL = torch.full((4, 4), -INF).triu(1)


class Logs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.log(self.inner(x))


def logs():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), Logs(),
                               torch.nn.Linear(4, 4))


@pytest.mark.parametrize("level, operator", [
    ("mix", "Torch.log.0.forward"), ("module", "Module.1.Logs.forward.0")])
def test_of_modules_and_what_runs_in_them_one_is_named(tmp_path, level,
                                                       operator):
    net = logs()
    stop = stopped(tmp_path, lambda: net(-torch.ones(8, 4)), net, level=level)
    assert stop.operator == operator
    assert not net._forward_hooks and not net[1]._forward_pre_hooks
    assert not torch.overrides._get_current_function_mode_stack()


def test_a_birth_in_the_backward_pass(tmp_path):
    x = torch.tensor([0.0, 1.0], requires_grad=True)

    def body():
        torch.sqrt(x).sum().backward()  # the forward call

    stop = stopped(tmp_path, body, level="api")
    assert stop.operator == "Torch.sqrt.0.backward"
    assert stop.leaf == "output.0"
    assert f":{line_of('# the forward ' + 'call')} in body" in str(stop)
    assert torch.equal(torch.sqrt(x.detach()), torch.tensor([0.0, 1.0]))


def test_a_backward_pass_need_not_be_seen(tmp_path):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    passes(tmp_path, lambda: torch.sqrt(x).sum().backward(), level="api",
           backward=False)
    assert x.grad[0] == INF


def test_a_parameters_gradient_is_where_it_is_born(tmp_path):
    net = torch.nn.Linear(2, 2, bias=False).half()
    x = torch.full((1, 2), 6e4, dtype=torch.float16)
    with torch.no_grad():
        net.weight.fill_(1e-4)
    stop = stopped(tmp_path, lambda: net(x).sum().mul(4).backward(), net)
    assert stop.operator == "Functional.linear.0.backward"


def test_the_third_birth(tmp_path):
    def body():
        for value in (-1.0, -2.0, 3.0, -4.0, -5.0):
            torch.log(torch.full((2,), value)).add(1)

    stop = stopped(tmp_path, body, level="api", stop_after=3)
    assert stop.operator == "Torch.log.3.forward"
    assert "(birth 3)" in str(stop)


def test_births_are_counted_over_steps(tmp_path):
    capture = assay.Capture(tmp_path, mode="overflow", level="api",
                            stop_after=3)
    seen = 0
    with pytest.raises(assay.OverflowStop) as caught:
        with capture:
            for seen in range(5):
                torch.log(-torch.ones(2))
                capture.step()
    assert seen == 2
    assert (caught.value.step, caught.value.birth) == (2, 3)


def test_what_is_excluded_is_not_looked_at(tmp_path):
    def body():
        return torch.log(-torch.ones(2)), torch.ones(2) / torch.zeros(2)

    stop = stopped(tmp_path / "a", body, level="api", exclude="*.log.*")
    assert stop.operator == "Tensor.div.0.forward"
    stop = stopped(tmp_path / "b", body, level="api", include="*.div.*")
    assert stop.operator == "Tensor.div.0.forward"
    passes(tmp_path / "c", body, level="api", include="*.mul.*")


def test_a_run_goes_on_as_without(tmp_path):
    results = []
    for captured in (False, True):
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(),
                                  torch.nn.Linear(8, 2))
        loss = lambda: net(torch.ones(3, 4)).square().sum().backward()
        passes(tmp_path, loss, net) if captured else loss()
        results.append([p.grad for p in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_the_trace_is_searched_only_where_something_is_born(
        tmp_path, monkeypatch):
    """Masks, NaN on its way, and repeated doubts cost no search each."""
    from assay.capture import overflow
    searches = []
    find = overflow._core.find_overflow
    monkeypatch.setattr(overflow._core, "find_overflow",
                        lambda path: searches.append(path) or find(path))

    def masked():
        for _ in range(20):
            attention(torch.full((4, 4), -INF).triu(1))
        x = torch.tensor([NAN, 1.0], requires_grad=True)
        for _ in range(20):
            torch.relu(x * 2).sum().backward()

    passes(tmp_path / "a", masked, level="api")
    assert len(searches) <= 2
    with pytest.raises(assay.OverflowStop):
        with assay.capture(tmp_path / "b", level="api", mode="overflow"):
            torch.log(-torch.ones(2))
    assert len(searches) <= 3
