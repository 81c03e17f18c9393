"""assay.capture: what a trace holds, held to what torch itself computes."""

from __future__ import annotations

import subprocess
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import relu  # bound before any capture
from torch.utils.checkpoint import checkpoint

import assay
from paths import ASSAY


class Block(torch.nn.Module):
    """Norm, attention, residual, MLP: an input that is used twice."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x, *, scale=1.0):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = F.softmax(q @ k.transpose(-1, -2) * scale, dim=-1)
        x = x + scores @ v
        return x + self.down(F.gelu(self.up(x)))


def model(layers: int = 2, width: int = 8) -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(*(Block(width) for _ in range(layers)))


def loss_of(net: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return net(x).square().mean()


def names(trace, *flags) -> list[str]:
    """Names of the records that the program reads."""
    text = subprocess.run([ASSAY, "inspect", "--all", *flags, trace],
                          check=True, capture_output=True, text=True).stdout
    return [line.split()[0] for line in text.splitlines()[2:] if line.strip()]


def tensor(trace, name: str) -> torch.Tensor:
    """A captured tensor, read by safetensors from a converted trace."""
    from safetensors.torch import load_file
    out = trace / "all.safetensors"
    if not out.exists():
        subprocess.run([ASSAY, "convert", trace / "step0/rank0", out],
                       capture_output=True)
    return load_file(out)[name]


@pytest.fixture
def step(tmp_path):
    """A captured step: net, input, and where its trace is."""
    net, x = model(), torch.randn(2, 4, 8, requires_grad=True)
    with assay.capture(tmp_path, net, mode="tensor"):
        loss_of(net, x).backward()
    return net, x, tmp_path


def test_forward_and_backward_of_modules_and_functions(step):
    found = names(step[2])
    for wanted in ("Module.0.norm.LayerNorm.forward.0.input.0",
                   "Module.0.norm.LayerNorm.forward.0.parameters.weight",
                   "Module.1.up.Linear.backward.0.output.0",
                   "Module.1.up.Linear.parameters_grad.0.weight",
                   "Functional.gelu.1.forward.output.0",
                   "Functional.softmax.0.backward.input.0",
                   "Functional.softmax.0.forward.input.dim"):
        assert wanted in found
    assert len(found) == len(set(found))


def test_values_are_those_that_torch_computed(step):
    net, x, trace = step
    with torch.no_grad():
        y = net[0].norm(x)
    assert torch.equal(
        tensor(trace, "Module.0.norm.LayerNorm.forward.0.output.0"), y)
    for i, block in enumerate(net):
        for name, parameter in block.named_parameters():
            module, _, leaf = name.rpartition(".")
            kind = type(block.get_submodule(module)).__name__
            assert torch.equal(
                tensor(trace, f"Module.{i}.{module}.{kind}"
                              f".parameters_grad.0.{leaf}"), parameter.grad)
    assert torch.equal(tensor(trace, "Module.0.Block.backward.0.output.0"),
                       x.grad)


def test_gradients_of_a_module_are_those_of_full_backward_hooks(tmp_path):
    seen = {}
    net, x = model(), torch.randn(2, 4, 8, requires_grad=True)
    for name, module in net.named_modules():
        if name:
            module.register_full_backward_hook(
                lambda m, inputs, outputs, name=name:
                seen.update({name: (inputs, outputs)}))
    loss_of(net, x).backward()
    net.zero_grad()
    for module in net.modules():
        module._backward_hooks.clear()
    with assay.capture(tmp_path, net, level="module", mode="tensor"):
        loss_of(net, x.detach().requires_grad_()).backward()
    for name, (inputs, outputs) in seen.items():
        stem = f"Module.{name}.{type(net.get_submodule(name)).__name__}"
        assert torch.equal(tensor(tmp_path, f"{stem}.backward.0.output.0"),
                           inputs[0]), name
        assert torch.equal(tensor(tmp_path, f"{stem}.backward.0.input.0"),
                           outputs[0]), name


def test_gradients_of_a_function_with_several_nodes_and_a_shared_input(
        tmp_path):
    x = torch.randn(3, 4, requires_grad=True)
    target = torch.tensor([0, 3, 1])
    with assay.capture(tmp_path, level="api", mode="tensor"):
        a = x.tanh()
        loss = F.cross_entropy(a, target) + torch.bmm(
            a[None], a.T[None]).sum() + (a * a).sum()
        loss.backward()
    y = x.detach().tanh().requires_grad_()
    F.cross_entropy(y, target).backward()
    assert torch.equal(
        tensor(tmp_path, "Functional.cross_entropy.0.backward.output.0"),
        y.grad)
    # a * a: one operator, one input twice.
    assert torch.equal(tensor(tmp_path, "Tensor.mul.0.backward.output.0"),
                       2 * y.detach())


@pytest.mark.parametrize("level", ["module", "api", "mix"])
@pytest.mark.parametrize("mode", ["tensor", "statistics", "hash"])
def test_a_capture_changes_no_bit(tmp_path, level, mode):
    results = []
    for captured in (False, True):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(1))
        losses = []
        watch = assay.Capture(tmp_path, net, level=level, mode=mode)
        for _ in range(3):
            if captured:
                watch.start()
            optimizer.zero_grad()
            loss = loss_of(net, x)
            loss.backward()
            optimizer.step()
            if captured:
                watch.stop()
                watch.step()
            losses.append(loss.detach())
        results.append([*losses, *(p.grad for p in net.parameters()),
                        *(p.detach() for p in net.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_a_name_bound_before_the_capture_is_seen(tmp_path):
    with assay.capture(tmp_path, level="api"):
        relu(torch.ones(3))
    assert "Torch.relu.0.forward.output.0" in names(tmp_path)


def test_functions_have_the_names_they_are_called_by(tmp_path):
    with assay.capture(tmp_path, level="api"):
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        torch.einsum("ij->i", torch.ones(2, 2))
        torch.split(torch.ones(4), 2)
    found = {name.split(".0.")[0] for name in names(tmp_path)}
    assert {"Torch.mm", "Torch.einsum", "Torch.split"} <= found


def test_an_in_place_operator_has_input_before_and_output_after(tmp_path):
    x = torch.zeros(64, 1024)
    with assay.capture(tmp_path, level="api", mode="tensor"):
        x.add_(1)
        x[0] = 7
        torch._foreach_add_([x], 1)
    assert tensor(tmp_path, "Tensor.add_.0.forward.input.0").sum() == 0
    assert tensor(tmp_path, "Tensor.add_.0.forward.output.0").eq(1).all()
    after = tensor(tmp_path, "Tensor.__setitem__.0.forward.output.0")
    assert after[0].eq(7).all() and after[1].eq(1).all()
    assert tensor(tmp_path,
                  "Torch._foreach_add_.0.forward.output.0")[1].eq(2).all()


@pytest.mark.parametrize("write", ["data", "numpy", "alias"])
def test_a_write_behind_autograds_back_is_seen(tmp_path, write):
    x = torch.zeros(256, 1024)
    alias = x.data
    with assay.capture(tmp_path, level="api", mode="statistics"):
        torch.neg(x)
        if write == "data":
            x.data[200] = 5  # few elements: no sample would find them
        elif write == "numpy":
            x.numpy()[200] = 5
        else:
            alias.fill_(5)
        torch.neg(x)
    result = subprocess.run([ASSAY, "inspect", tmp_path,
                             "Torch.neg.1.forward.input.0"],
                            capture_output=True, text=True).stdout
    assert "5" in result.split("max", 1)[1].splitlines()[0]


def test_steps_ranks_and_names_are_chosen(tmp_path):
    net, x = model(), torch.randn(2, 4, 8)
    watch = assay.Capture(tmp_path, net, steps="1,3-4", include="Module.*",
                          exclude=["*.norm.*", "*Linear*"])
    with watch:
        for _ in range(5):
            loss_of(net, x).backward()
            watch.step()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step1", "step3", "step4"]
    found = names(tmp_path / "step3")
    assert found and all(n.startswith(("Module.0.Block", "Module.1.Block",
                                       "Module.Sequential")) for n in found)
    with assay.capture(tmp_path / "other", net, ranks=[3]):
        loss_of(net, x)
    assert not (tmp_path / "other").exists()


def test_gradients_of_a_step_are_its_own(tmp_path):
    net, x = model(1), torch.randn(2, 4, 8)
    watch = assay.Capture(tmp_path, net, mode="hash")
    with watch:
        for _ in range(2):  # accumulates: .grad of step 1 is twice that
            loss_of(net, x).backward()
            watch.step()
    result = subprocess.run([ASSAY, "compare", tmp_path / "step0/rank0",
                             tmp_path / "step1/rank0", "--quiet"])
    assert result.returncode == 0


def test_recomputed_calls_pair_with_a_run_without(tmp_path):
    net, x = model(), torch.randn(2, 4, 8, requires_grad=True)
    with assay.capture(tmp_path / "plain", net, mode="tensor"):
        loss_of(net, x).backward()
    with assay.capture(tmp_path / "again", net, mode="tensor"):
        y = x
        for block in net:
            y = checkpoint(block, y, use_reentrant=False)
        y.square().mean().backward()
    found = names(tmp_path / "again")
    assert "Module.0.up.Linear.forward.0.recompute.output.0" in found
    assert "Functional.gelu.1.forward.recompute.output.0" in found
    mine = {n for n in names(tmp_path / "plain") if "Sequential" not in n}
    assert mine <= set(found)
    for name in ("Functional.gelu.0.backward.output.0",
                 "Module.0.up.Linear.backward.0.output.0"):
        assert torch.equal(tensor(tmp_path / "plain", name),
                           tensor(tmp_path / "again", name)), name


def test_save_names_a_value_and_its_gradient(tmp_path):
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    with assay.capture(tmp_path, level="api", mode="tensor"):
        y = x * 2
        assay.save({"y": y.T}, "mine")
        (y * y).sum().backward()
    assert tensor(tmp_path, "mine.0.debug.tensor.y").tolist() == [
        [0, 6], [2, 8], [4, 10]]
    assay.save(x, "nowhere")  # no capture: nothing happens


def test_slices_keep_a_part(tmp_path):
    with assay.capture(tmp_path, level="api", mode="tensor",
                       slices=["1:3", "0:2"]):
        torch.neg(torch.arange(12.0).view(4, 3))
    assert tensor(tmp_path, "Torch.neg.0.forward.input.0").tolist() == [
        [3, 4], [6, 7]]


def test_everything_is_put_back(tmp_path):
    net, x = model(), torch.randn(2, 4, 8)
    before = (F.gelu, torch.Tensor.add, torch.Tensor.__add__)
    with pytest.raises(ZeroDivisionError):
        with assay.capture(tmp_path, net):
            loss_of(net, x).backward()
            1 / 0
    assert before == (F.gelu, torch.Tensor.add, torch.Tensor.__add__)
    assert not torch.overrides._get_current_function_mode_stack()
    for module in net.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks
    assert all(not p._backward_hooks for p in net.parameters())
    assert names(tmp_path)


@pytest.mark.parametrize("arguments, message", [
    ({"level": "L0"}, "level: 'L0', expected one of module, api, mix, aten"),
    ({"mode": "md5"}, "mode: 'md5'"),
    ({"steps": "3-1"}, "steps: '3-1' is no range"),
    ({"ranks": [True]}, "ranks: True is no number"),
    ({"slices": "a:b"}, "slices: 'a:b'"),
    ({"include": [3]}, "include: 3 is no pattern"),
    ({"level": "module"}, "model: level 'module' needs one"),
    ({"queue_bytes": 0}, "queue_bytes: 0"),
    ({"nonsense": 1}, "nonsense: no such argument; there are first_step, "),
    ({"model": "net"}, "model: str, expected a torch.nn.Module or a list"),
    ({"model": 3}, "model: int, expected a torch.nn.Module"),
    ({"model": [None]}, "model: NoneType, expected a torch.nn.Module"),
    ({"model": torch.optim.SGD([torch.ones(1)])}, "model: SGD, expected"),
])
def test_arguments_that_cannot_be_meant(tmp_path, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        assay.capture(tmp_path, **arguments)


def test_a_path_that_is_none():
    with pytest.raises(TypeError, match="path: Linear, expected the folder"):
        assay.capture(torch.nn.Linear(2, 2), "run")


def test_a_model_that_is_forgotten_is_missed(tmp_path):
    with pytest.warns(RuntimeWarning, match="no model was given") as said:
        with assay.Capture(tmp_path) as watch:
            for _ in range(2):
                torch.ones(2).neg()
                watch.step()
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with assay.capture(tmp_path / "api", level="api"):
            torch.ones(2).neg()


def test_a_trace_is_not_written_over(tmp_path):
    for again in (False, True):
        watch = assay.Capture(tmp_path, level="api")
        if again:
            with pytest.raises(assay.Error, match="there is a trace already"):
                watch.start()
        else:
            with watch:
                torch.ones(2).neg()
