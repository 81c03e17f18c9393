"""The worker's module api_call: one call of a trace, computed again.

Values come from torch called directly, or are worked by hand.
"""

from __future__ import annotations

import json
import math

import numpy
import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

from assay.worker.serve import Server  # noqa: E402
from assay.worker.torch_provider.provider import TorchProvider  # noqa: E402

F = torch.nn.functional


@pytest.fixture(scope="module")
def server():
    before = torch.are_deterministic_algorithms_enabled()
    yield Server(TorchProvider("cpu"), torch.device("cpu"))
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def ask(server, tmp_path):
    """ask("Torch.add", args, kwargs, ...) -> the answer, with its tensors."""

    def run(api, *args, gradients=None, answered="ok", seed=5, **options):
        keywords = options.pop("keywords", {})
        inputs, arguments = {}, {}
        for key, value in [*enumerate(args), *keywords.items()]:
            arguments[str(key)] = spelled(value, f"input.{key}", inputs)
        for name, gradient in (gradients or {}).items():
            inputs[f"gradient.{name}"] = gradient
        safetensors.save_file(inputs, tmp_path / "in.safetensors")
        parameters = {"api": api, "arguments": arguments,
                      "precision": "given", "backward": bool(gradients),
                      "gradients": list(gradients or {}), **options}
        line = json.dumps({
            "type": "run", "id": 1, "module": "api_call", "case": "c",
            "parameters": parameters, "steps": 1, "seed": seed,
            "strided": [], "inputs": str(tmp_path / "in.safetensors"),
            "outputs": str(tmp_path / "out")})
        answer = server.answer(line)
        assert answer["status"] == answered, answer
        answer = json.loads(json.dumps(answer))
        if answered == "ok":
            answer["tensors"] = safetensors.load_file(
                tmp_path / "out.rank0.safetensors")
        return answer

    return run


def spelled(value, path, inputs):
    """A value as the request has it: as captures spell it."""
    if isinstance(value, torch.Tensor):
        inputs[path] = value.detach().clone().contiguous()
        return {"tensor": path, "requires_grad": value.requires_grad}
    if isinstance(value, Spelled):
        return {"type": value.kind, "value": value.text}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return {"items": [spelled(each, f"{path}.{i}", inputs)
                          for i, each in enumerate(value)]}
    if isinstance(value, dict):
        return {"members": {key: spelled(each, f"{path}.{key}", inputs)
                            for key, each in value.items()}}
    from assay.capture.leaves import described
    kind, text = described(value)
    return {"type": kind, "value": text}


class Spelled:
    """A value in words that are written by hand."""

    def __init__(self, kind, text):
        self.kind, self.text = kind, text


def randn(*shape, dtype=torch.float32, grad=False, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(
        dtype).requires_grad_(grad)


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
    assert torch.equal(a.contiguous().reshape(-1).view(torch.uint8),
                       b.contiguous().reshape(-1).view(torch.uint8)), (a, b)


def test_forward_and_backward_of_an_ordinary_call(ask):
    x, w, b = randn(4, 6, grad=True), randn(3, 6, grad=True), randn(3)
    y = F.linear(x, w, b)
    dy = randn(4, 3, seed=2)
    dx, dw = torch.autograd.grad(y, [x, w], dy)
    answer = ask("Functional.linear", x, w, b, gradients={"output.0": dy})
    assert set(answer["tensors"]) == {"output.0", "gradient.input.0",
                                      "gradient.input.1"}
    same(answer["tensors"]["output.0"], y.detach())
    same(answer["tensors"]["gradient.input.0"], dx)
    same(answer["tensors"]["gradient.input.1"], dw)
    assert answer["contract"] == {}
