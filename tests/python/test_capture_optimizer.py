"""What assay.capture sees of optimizers and gradient scalers."""

from __future__ import annotations

import json
import sys

import pytest
import torch

import assay
from test_capture import Block, names, tensor


def operators(folder) -> dict[str, dict]:
    """{name: line} of a trace of one step."""
    found = {}
    order = []
    for text in (folder / "step0/rank0/trace.jsonl").read_text().splitlines():
        line = json.loads(text)
        if "op" in line:
            order.append(line["op"])
            found[line["op"]] = line
            if "parent" in line:
                line["parent"] = order[line["parent"]]
    return found


def stepped(folder, optimizer_of, *, level="mix", steps=1, **options):
    """A net after steps of which the last is captured; its optimizer."""
    torch.manual_seed(4)
    net = torch.nn.Linear(3, 2)
    optimizer = optimizer_of(net.parameters())
    for step in range(steps):
        watch = assay.Capture(folder, net, level=level, mode="tensor",
                              **options)
        if step == steps - 1:
            before = [p.detach().clone() for p in net.parameters()]
            watch.start()
        optimizer.zero_grad()
        net(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        if step == steps - 1:
            watch.close()
    return net, optimizer, before


@pytest.mark.parametrize("level", ["mix", "module"])
def test_a_step_is_an_operator_with_state(tmp_path, level):
    net, optimizer, before = stepped(
        tmp_path, lambda p: torch.optim.AdamW(p, lr=0.25), level=level,
        steps=2)
    stem = "Optimizer.AdamW.0.forward"
    assert tensor(tmp_path, f"{stem}.parameters.weight").equal(before[0])
    assert tensor(tmp_path, f"{stem}.input.grad.bias").equal(net.bias.grad)
    assert tensor(tmp_path, f"{stem}.output.weight").equal(net.weight)
    state = optimizer.state[net.weight]
    for key in ("exp_avg", "exp_avg_sq"):
        assert tensor(tmp_path,
                      f"{stem}.output.state.{key}.weight").equal(state[key])
        assert not tensor(tmp_path, f"{stem}.parameters.state.{key}.weight"
                          ).equal(state[key])
    assert tensor(tmp_path, f"{stem}.output.state.step.weight") == 2
    assert f"{stem}.input.group0.lr" in names(tmp_path)


def test_what_the_step_calls_is_inside_it(tmp_path):
    stepped(tmp_path, lambda p: torch.optim.SGD(p, lr=0.25))
    found = operators(tmp_path)
    inside = [name for name, line in found.items()
              if line.get("parent") == "Optimizer.SGD.0.forward"]
    assert "Tensor.add_.0.forward" in inside
    assert "Module.Linear.forward.0" not in inside


class Foreign(torch.optim.Optimizer):
    """Writes as a kernel of an extension does: no version is counted."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1.0})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.detach().numpy()[...] -= p.grad.numpy()
                p.grad.detach().numpy()[...] = 7


def test_a_foreign_kernel_is_seen(tmp_path):
    net, _, before = stepped(tmp_path, Foreign, include="Optimizer.*")
    stem = "Optimizer.Foreign.0.forward"
    gradient = tensor(tmp_path, f"{stem}.input.grad.weight")
    assert tensor(tmp_path, f"{stem}.output.weight").equal(
        before[0] - gradient)
    assert not gradient.eq(7).any()


def test_parameters_nobody_named_have_their_place(tmp_path):
    extra = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [torch.zeros(1)]},
                                 {"params": [torch.zeros(1), extra]}], lr=1.)
    with assay.capture(tmp_path, level="api", mode="tensor"):
        (extra * 3).sum().backward()
        optimizer.step()
    assert tensor(tmp_path, "Optimizer.SGD.0.forward.output.group1.1"
                  ).tolist() == [-2, -2]


def test_a_step_that_fails_ends_with_its_module(tmp_path):
    net = torch.nn.Sequential(Block(4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def fails():
        raise ZeroDivisionError

    with assay.capture(tmp_path, net):
        with pytest.raises(ZeroDivisionError):
            optimizer.step(fails)
        net(torch.ones(1, 2, 4))
    found = names(tmp_path)
    assert "Module.Sequential.forward.0.output.0" in found
    hooks = sys.modules[torch.optim.Optimizer.__module__]
    assert not hooks._global_optimizer_pre_hooks
    assert not hooks._global_optimizer_post_hooks


@pytest.mark.parametrize("infinite", [False, True])
def test_a_scaler_tells_its_scale_and_what_it_found(tmp_path, infinite):
    net = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    method = torch.amp.GradScaler.step
    with assay.capture(tmp_path, net, level="module", mode="tensor"):
        loss = net(torch.ones(4, 3)).sum() * (1e38 if infinite else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert torch.amp.GradScaler.step is method
    stem = "Optimizer.GradScaler"
    assert tensor(tmp_path, f"{stem}.step.0.forward.input.scale") == 8
    assert tensor(tmp_path, f"{stem}.step.0.forward.output.found_inf.0"
                  ) == float(infinite)
    assert tensor(tmp_path, f"{stem}.update.0.forward.output.scale") == (
        4 if infinite else 16)
    ran = "Optimizer.SGD.0.forward" in operators(tmp_path)
    assert ran != infinite
    if ran:
        assert operators(tmp_path)["Optimizer.SGD.0.forward"]["parent"] == (
            f"{stem}.step.0.forward")


@pytest.mark.parametrize("stepping", [True, False])
def test_gradients_kept_beside_grad(tmp_path, stepping):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2))
    main = torch.full((2, 3), 5.0)
    net[0].weight.main_grad = main
    with assay.capture(tmp_path, net, mode="tensor"):
        net(torch.ones(1, 3))
        if stepping:
            torch.optim.SGD([torch.zeros(1)], lr=0.1).step()
            main.zero_()
    name = "Module.0.Linear.parameters_grad.0.weight.main_grad"
    assert tensor(tmp_path, name).eq(5).all()
    assert names(tmp_path).count(name) == 1
