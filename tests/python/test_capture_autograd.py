"""assay.capture and autograd in every form: the same bits, and each pass's own
gradients."""

from __future__ import annotations

import importlib
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import assay
from capturing import batch, compared, small, unchanged
from test_capture import tensor


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * 3 * x ** 2


def second_derivative(net, x):
    y = net(x).tanh().sum()
    first, = torch.autograd.grad(y, x, create_graph=True)
    first.square().sum().backward()
    return [y, first, x.grad, *(p.grad for p in net.parameters())]


def create_graph(net, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net(x).square().sum().backward(create_graph=True)
    gradients = [p.grad for p in net.parameters()]
    net.zero_grad()
    gradients[0].square().sum().backward()
    return [*gradients, *(p.grad for p in net.parameters())]


def retained(net, x):
    y = net(x).square().sum()
    y.backward(retain_graph=True)
    y.backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def some_inputs(net, x):
    net(x).sum().backward(inputs=[x, net[0].weight])
    return [x.grad, net[0].weight.grad]


def jacobian(net, x):
    return torch.autograd.functional.jacobian(net, x, vectorize=True)


def custom(net, x):
    Cube.apply(net(x)).sum().backward()
    return [x.grad]


def users_hooks(net, x):
    seen = []
    handles = [
        net[2].register_full_backward_hook(
            lambda m, i, o: (i[0] * 2,) + i[1:]),
        net[3].register_full_backward_pre_hook(lambda m, o: (o[0] + 1,)),
        net[0].register_forward_hook(lambda m, a, out: out + 1),
        net[0].weight.register_post_accumulate_grad_hook(
            lambda p: seen.append(p.grad.clone()))]
    y = net(x)
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    for handle in handles:
        handle.remove()
    return [x.grad, *seen, *(p.grad for p in net.parameters())]


def anomaly(net, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            net(x).sum().backward()
    return [x.grad]


def saved_hooks(net, x):
    packed = []

    def pack(t):
        packed.append(t.detach().clone())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        net(x).sum().backward()
    return [x.grad, *packed]


def on_cpu(net, x):
    with torch.autograd.graph.save_on_cpu():
        net(x).sum().backward()
    return [x.grad]


def reentrant(net, x):
    checkpoint(net, x, use_reentrant=True).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def not_reentrant(net, x):
    checkpoint(net, x, use_reentrant=False).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def selective(net, x):
    """Its cache of operators is a dispatch mode, in which a call of the
    capture's would have a place."""
    from torch.utils.checkpoint import (
        CheckpointPolicy, create_selective_checkpoint_contexts)

    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE

    checkpoint(net, x, use_reentrant=False, context_fn=lambda:
               create_selective_checkpoint_contexts(policy)).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def autocast(net, x):
    with torch.autocast("cpu", torch.bfloat16):
        y = net(x)
    y.float().sum().backward()
    return [y, x.grad]


def reused(net, x):
    return [net[2](net[2](net[0](x))).sum(), net(x)]


def in_place(net, x):
    y = net[0](x)
    y.mul_(2).add_(1)
    y[0] = 0
    F.relu(y, inplace=True)
    y.sum().backward()
    return [y, x.grad]


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
@pytest.mark.parametrize("run", [
    second_derivative, create_graph, retained, some_inputs, jacobian, custom,
    users_hooks, anomaly, saved_hooks, on_cpu, reentrant, not_reentrant,
    selective, autocast, reused, in_place], ids=lambda run: run.__name__)
def test_autograd_in_every_form(tmp_path, run, mode):
    net = small()

    def again():
        net.zero_grad()
        return run(net, batch().requires_grad_())

    found = unchanged(tmp_path, again, net, mode=mode)
    assert "Functional.linear.0.forward.output.0" in found


def test_a_second_pass_through_a_freed_graph(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with assay.capture(tmp_path, level="api") as capture:
        y = (x * x).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        (x * 2).sum().backward()
    assert capture.faults == []
    assert torch.equal(x.grad, torch.full((2,), 4.0))


def test_a_pass_that_leaves_a_branch_out_is_not_added_to_the_next(tmp_path):
    """x goes into two nodes of one call; each pass reaches one of them. The
    call's gradient of x is that of its own pass."""
    class Two(torch.nn.Module):
        def forward(self, x):
            return x * 2, x * 3

    net, x = Two(), torch.ones(2, requires_grad=True)
    with assay.capture(tmp_path, net, level="module", mode="tensor"):
        a, b = net(x)
        torch.autograd.grad(a.sum(), x, retain_graph=True)
        b.sum().backward()
    name = "Module.Two.backward.0.output.0"
    assert tensor(tmp_path, name).tolist() == [2, 2]
    again = "Module.Two.backward.0#2.output.0"
    assert tensor(tmp_path, again).tolist() == [3, 3]


def test_a_graph_too_large_to_follow_is_told_of(tmp_path, monkeypatch):
    """What was not followed is a row that never matches."""
    monkeypatch.setattr(
        importlib.import_module("assay.capture.gradients"), "MAX_NODES", 20)

    class Deep(torch.nn.Module):
        def forward(self, x):
            for _ in range(40):
                x = x * 1.5
            return x

    x = torch.ones(3, requires_grad=True)
    net = Deep()
    with pytest.warns(RuntimeWarning, match="more than 20 nodes"):
        with assay.capture(tmp_path, net, level="module") as c:
            net(x).sum().backward()
    assert any("gradients of its inputs may be missing" in each
               for each in c.faults)
    assert compared(tmp_path, tmp_path) == 4
