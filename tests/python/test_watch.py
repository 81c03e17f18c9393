"""assay.watch: what it logs, and that it changes nothing."""

import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

import assay
from assay.watch.log import last_step
from assay.watch.reductions import Reductions
from assay.watch import reductions
from paths import ASSAY, PACKAGE


class Gpt(torch.nn.Module):
    def __init__(self, width=16, layers=2):
        super().__init__()
        self.embed = torch.nn.Embedding(32, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU())
            for _ in range(layers))
        self.head = torch.nn.Linear(width, 32)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randint(0, 32, (2, 8), generator=generator)


def train(steps, *, watch=None, optimizer=torch.optim.AdamW, model=None,
          first=0, **options):
    """Losses and gradients of the last step, bit for bit."""
    torch.manual_seed(0)
    model = model or Gpt()
    optimizer = optimizer(model.parameters(), lr=1e-2)
    watcher = assay.watch(model, optimizer, **watch) if watch else None
    losses = []
    for step in range(first, first + steps):
        tokens = batch(step)
        loss = torch.nn.functional.cross_entropy(
            model(tokens).flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    gradients = [p.grad.clone() for p in model.parameters()]
    if watcher:
        watcher.close()
    return losses, gradients, model, optimizer


def lines(path):
    return [json.loads(line) for line in
            pathlib.Path(path).read_text().splitlines()]


def steps_of(path):
    return [line["step"] for line in lines(path) if "step" in line]


def test_losses_and_gradients_are_the_same_bits(tmp_path):
    plain, gradients, model, _ = train(6)
    watched, watched_gradients, watched_model, _ = train(
        6, watch={"every": 2, "path": tmp_path / "run.jsonl",
                  "activations": ["layers.*", "head"]})
    assert plain == watched
    assert all(torch.equal(a, b)
               for a, b in zip(gradients, watched_gradients))
    assert all(torch.equal(a, b) for a, b in zip(
        model.parameters(), watched_model.parameters()))


def test_a_line_holds_what_torch_computes(tmp_path):
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    path = tmp_path / "run.jsonl"
    with assay.watch(model, optimizer, every=1, path=path,
                     activations=["layers.0"]):
        tokens = batch(0)
        outputs = []
        handle = model.layers[0].register_forward_hook(
            lambda m, i, o: outputs.append(o.detach().double()))
        loss = torch.nn.functional.cross_entropy(
            model(tokens).flatten(0, 1), tokens.flatten())
        handle.remove()
        loss.backward()
        gradients = {n: p.grad.double() for n, p in model.named_parameters()}
        before = {n: p.detach().double().clone()
                  for n, p in model.named_parameters()}
        optimizer.step()
    heading, line = lines(path)
    assert heading["format"] == "assay-watch" and heading["world"] == 1
    assert heading["parameters"] == sum(p.numel() for p in model.parameters())
    assert line["step"] == 1 and line["lr"] == 0.5
    assert line["loss"] == loss.item()

    def norm(tensors):
        return math.sqrt(sum(float((t * t).sum()) for t in tensors))

    assert line["grad_norm"] == pytest.approx(norm(gradients.values()), 1e-12)
    assert line["param_norm"] == pytest.approx(norm(before.values()), 1e-12)
    changes = [p.detach().double() - before[n]
               for n, p in model.named_parameters()]
    assert line["update_norm"] == pytest.approx(norm(changes), 1e-6)
    assert line["update_ratio"] == pytest.approx(
        line["update_norm"] / line["param_norm"])
    assert list(line["modules"]) == ["embed", "layers.0", "layers.1", "head"]
    assert line["modules"]["layers.0"]["grad_norm"] == pytest.approx(
        norm(g for n, g in gradients.items() if n.startswith("layers.0.")))
    seen = line["activations"]["layers.0"]
    assert seen["norm"] == pytest.approx(norm(outputs), 1e-12)
    assert seen["max"] == outputs[0].max().item()
    assert seen["mean"] == pytest.approx(outputs[0].mean().item(), 1e-9)
    assert line["tokens"] == 16
    assert line["tokens_per_second"] == pytest.approx(16 / line["seconds"])
    assert line["peak_rss_bytes"] > 1e6
    assert "nonfinite" not in line


def test_only_every_nth_step_is_logged(tmp_path):
    path = tmp_path / "run.jsonl"
    losses, *_ = train(25, watch={"every": 10, "path": path})
    assert steps_of(path) == [10, 20]
    assert lines(path)[1]["loss"] == losses[9]


def hooks_of(model):
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
             "_backward_pre_hooks")
    return sum(len(getattr(m, kind)) for m in model.modules()
               for kind in kinds)


def test_close_removes_every_hook(tmp_path):
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters())
    plain = torch.autograd.backward
    first = assay.watch(model, optimizer, every=1, path=tmp_path / "a.jsonl",
                        activations=["*"])
    second = assay.watch(model, optimizer, every=2, path=tmp_path / "b.jsonl")
    assert hooks_of(model) > 2 and torch.autograd.backward is not plain
    first.close()
    assert torch.autograd.backward is not plain  # of the second
    second.close()
    second.close()
    assert hooks_of(model) == 0
    assert torch.autograd.backward is plain
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_step_pre_hooks


def test_modules_have_hooks_only_before_a_watched_step(tmp_path):
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with assay.watch(model, optimizer, every=3, path=tmp_path / "r.jsonl",
                     activations=["layers.*"], tokens_per_step=16):
        seen = []
        for step in range(6):
            seen.append(hooks_of(model))
            model(batch(step)).sum().backward()
            optimizer.step()
    assert seen == [0, 0, 2 * 3, 0, 0, 2 * 3]  # a layer and its two parts


def test_an_optimizer_without_hooks_is_wrapped(tmp_path):
    class Plain:
        def __init__(self, parameters, lr):
            self.parameters, self.lr = list(parameters), lr

        def zero_grad(self):
            for p in self.parameters:
                p.grad = None

        def step(self):
            with torch.no_grad():
                for p in self.parameters:
                    p -= self.lr * p.grad

    path = tmp_path / "run.jsonl"
    *_, optimizer = train(2, watch={"every": 1, "path": path},
                          optimizer=Plain)
    assert steps_of(path) == [1, 2]
    assert "step" not in vars(optimizer)


def test_the_first_module_with_nan_is_named(tmp_path):
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        model.layers[1][0].weight[0, 0] = math.nan
    path = tmp_path / "run.jsonl"
    with assay.watch(model, optimizer, every=1, path=path,
                     activations=["embed", "layers.*", "head"]):
        model(batch(0)).sum().backward()
        optimizer.step()
    line = lines(path)[1]
    found = line["nonfinite"]
    assert found["first_output"] == "layers.1.0"
    assert found["first_parameter"] == "layers.1.0.weight"
    assert found["parameters"] == 1
    assert found["first_gradient"].startswith("head.")
    assert math.isnan(line["loss"]) and math.isnan(line["grad_norm"])
    assert line["activations"]["layers.1"]["nan"] > 0
    assert "nan" not in line["activations"]["layers.0"]
    # And compare-runs reads it: NaN beside NaN is no evidence.
    result = subprocess.run([ASSAY, "compare-runs", path, path, "-q"],
                            capture_output=True, text=True)
    assert result.returncode == 4, result.stdout + result.stderr


def test_micro_batches_a_scaler_and_figures_of_the_user(tmp_path):
    class Scaler:
        def get_scale(self):
            return 8.0

    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = tmp_path / "run.jsonl"
    with assay.watch(model, optimizer, every=1, path=path,
                     scaler=Scaler()) as watch:
        losses = []
        for step in range(2):
            loss = model(batch(step)).square().mean() / 2
            losses.append(loss.item())
            (loss * 8).backward()
        watch.log(reward=3, temperature=torch.tensor(0.5))
        optimizer.step()
        watch.loss(7.25)
        optimizer.step()
        with pytest.raises(ValueError, match="step"):
            watch.log(step=3)
    _, first, second = lines(path)
    assert first["loss"] == pytest.approx(sum(losses))
    assert first["backwards"] == 2 and first["tokens"] == 32
    assert first["reward"] == 3 and first["temperature"] == 0.5
    assert second["loss"] == 7.25 and "reward" not in second


def test_main_grad_of_megatron_and_a_loss_that_is_called(tmp_path):
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.weight.main_grad = torch.tensor([[3.0, 4.0]])
    path = tmp_path / "run.jsonl"
    with assay.watch(model, optimizer, every=1, path=path,
                     loss=lambda: torch.tensor(1.5)):
        optimizer.step()
    line = lines(path)[1]
    assert line["grad_norm"] == 5 and line["loss"] == 1.5


def test_scales_of_transformer_engine(tmp_path):
    class Meta:
        amax_history = torch.tensor([[2.0, 3.0], [9.0, 9.0]])
        scale = torch.tensor([64.0, 128.0])

    class Quantizer:
        def __init__(self, amax):
            self.amax, self.scale = torch.tensor([amax]), torch.tensor(2.0)

    model = Gpt()
    model.head.fp8_meta = {"scaling_fwd": Meta(), "recipe": None}
    model.layers[0].quantizers = {"scaling_fwd": [Quantizer(1.0),
                                                  Quantizer(5.0)]}
    path = tmp_path / "run.jsonl"
    train(1, model=model, watch={"every": 1, "path": path})
    assert lines(path)[1]["fp8"] == {
        "head": {"scaling_fwd.amax": 3, "scaling_fwd.scale_min": 64,
                 "scaling_fwd.scale_max": 128},
        "layers.0": {"scaling_fwd.amax": 5, "scaling_fwd.scale_min": 2,
                     "scaling_fwd.scale_max": 2}}


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_reductions_on_a_device_are_those_on_the_host(monkeypatch, bad):
    torch.manual_seed(1)
    tensors = [torch.randn(50, 7), torch.randn(9).bfloat16(),
               torch.arange(5)]
    if bad is not None:
        tensors[0][3, 3] = bad

    def results():
        some = Reductions()
        for i, tensor in enumerate(tensors):
            some.add(i, tensor)
            some.add(("whole", i), tensor, whole=True)
        some.scalar("s", torch.tensor(2.5))
        return some.results()

    host = results()
    monkeypatch.setattr(reductions, "on_host", lambda tensor: False)
    device = results()
    assert host.keys() == device.keys()
    for key in host:
        a, b = host[key], device[key]
        assert b.norm == pytest.approx(a.norm, 1e-5, nan_ok=True)
        assert (b.nan, b.inf) == (a.nan, a.inf)
        if isinstance(key, tuple) and not a.nonfinite:
            assert b.max == pytest.approx(a.max)
            assert b.mean == pytest.approx(a.mean, 1e-4)


def resumed(tmp_path, first_steps, checkpoint, optimizer):
    path = tmp_path / "run.jsonl"
    *_, model, first = train(checkpoint, optimizer=optimizer,
                             watch={"every": 1, "path": path})
    state = first.state_dict()
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    again = Gpt()
    again.load_state_dict(weights)
    second = optimizer(again.parameters(), lr=1e-2)
    return path, again, second, state


@pytest.mark.parametrize("load_first", [True, False])
def test_a_resumed_run_goes_on_in_its_file(tmp_path, load_first):
    path, model, optimizer, state = resumed(tmp_path, 0, 3, torch.optim.AdamW)
    # The run went on to step 5 and was killed within a line.
    with open(path, "a") as log:
        log.write('{"step":4,"loss":1}\n{"step":5,"loss":1}\n{"step":6,"lo')
    if load_first:
        optimizer.load_state_dict(state)
    with assay.watch(model, optimizer, every=1, path=path):
        if not load_first:
            optimizer.load_state_dict(state)
        for step in range(3, 6):
            model(batch(step)).sum().backward()
            optimizer.step()
    assert steps_of(path) == [1, 2, 3, 4, 5, 6]
    assert all(line["loss"] != 1 for line in lines(path) if "step" in line)


def test_a_run_that_begins_anew_keeps_the_file_of_the_last(tmp_path):
    path = tmp_path / "run.jsonl"
    train(2, watch={"every": 1, "path": path})
    old = path.read_bytes()
    train(3, watch={"every": 1, "path": path})
    assert (tmp_path / "run.1.jsonl").read_bytes() == old
    assert steps_of(path) == [1, 2, 3]
    train(2, watch={"every": 1, "path": path, "step": 3})
    assert steps_of(path) == [1, 2, 3, 4, 5]


def test_every_line_survives_sigkill(tmp_path):
    path = tmp_path / "run.jsonl"
    code = textwrap.dedent(f"""
        import os, signal, torch, assay
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        watch = assay.watch(model, optimizer, every=1, path={str(path)!r})
        for _ in range(7):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    result = subprocess.run([sys.executable, "-c", code], env={
        **os.environ, "PYTHONPATH": str(PACKAGE)})
    assert result.returncode == -signal.SIGKILL
    assert steps_of(path) == list(range(1, 8))
    assert last_step(path) == 7


def test_ranks_have_files_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    train(1, watch={"every": 1, "path": tmp_path / "run.jsonl"})
    heading, line = lines(tmp_path / "run.rank3.jsonl")
    assert (heading["rank"], heading["world"]) == (3, 8)
    assert line["step"] == 1


def test_mistakes_are_said_at_once(tmp_path):
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="every: 0"):
        assay.watch(model, optimizer, every=0)
    with pytest.raises(ValueError, match="no module is named 'layer.*'"):
        assay.watch(model, optimizer, activations=["layer.*"])
    with pytest.raises(TypeError, match=r"optimizer: Gpt has no step\(\)"):
        assay.watch(optimizer, model)
    with pytest.raises(ValueError, match="path: .* is a folder"):
        assay.watch(model, optimizer, path=tmp_path)
    assert hooks_of(model) == 0


def test_evaluation_is_not_training(tmp_path):
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = tmp_path / "run.jsonl"
    with assay.watch(model, optimizer, every=1, path=path,
                     activations=["head"]):
        model.eval()
        with torch.no_grad():
            model(batch(0))
        model.train()
        model(batch(1)).sum().backward()
        optimizer.step()
    assert lines(path)[1]["tokens"] == 16


def test_two_watched_runs_compare(tmp_path):
    for name in ("a", "b"):
        train(12, watch={"every": 3, "path": tmp_path / f"{name}.jsonl"})
    result = subprocess.run(
        [ASSAY, "compare-runs", tmp_path / "a.jsonl", tmp_path / "b.jsonl"],
        capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the same value at all 4 steps" in result.stdout
