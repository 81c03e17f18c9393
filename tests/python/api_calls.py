"""Asks the worker's module api_call, as `assay precheck` does, and what its
tests compare with."""

from __future__ import annotations

import json

import pytest
import safetensors.torch
import torch

from assay.capture.leaves import described
from assay.worker.serve import Server
from assay.worker.torch_provider.provider import TorchProvider


class Spelled:
    """A value in words that are written by hand."""

    def __init__(self, kind, text):
        self.kind, self.text = kind, text


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
    kind, text = described(value)
    return {"type": kind, "value": text}


class Asker:
    """A worker, and the folder its tensors pass through."""

    def __init__(self, folder):
        self.server = Server(TorchProvider("cpu"), torch.device("cpu"))
        self.folder = folder

    def raw(self, inputs, parameters, answered="ok", seed=5, strided=()):
        """The answer to a request, with its tensors."""
        safetensors.torch.save_file(inputs, self.folder / "in.safetensors")
        answer = self.server.answer(json.dumps({
            "type": "run", "id": 1, "module": "api_call", "case": "c",
            "parameters": parameters, "steps": 1, "seed": seed,
            "strided": list(strided),
            "inputs": str(self.folder / "in.safetensors"),
            "outputs": str(self.folder / "out")}))
        answer = json.loads(json.dumps(answer))
        assert answer["status"] == answered, answer
        if answered == "ok":
            answer["tensors"] = safetensors.torch.load_file(
                self.folder / "out.rank0.safetensors")
        return answer

    def __call__(self, api, *args, keywords=None, gradients=None,
                 answered="ok", seed=5, **options):
        inputs, arguments = {}, {}
        for key, value in [*enumerate(args), *(keywords or {}).items()]:
            arguments[str(key)] = spelled(value, f"input.{key}", inputs)
        for name, gradient in (gradients or {}).items():
            inputs[f"gradient.{name}"] = gradient
        parameters = {"api": api, "arguments": arguments,
                      "precision": "given", "backward": bool(gradients),
                      "gradients": list(gradients or {}), **options}
        return self.raw(inputs, parameters, answered, seed)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """ask("Torch.add", x, y, keywords={...}) -> the answer."""
    before = torch.are_deterministic_algorithms_enabled()
    yield Asker(tmp_path_factory.mktemp("api_call"))
    torch.use_deterministic_algorithms(before)


def randn(*shape, dtype=torch.float32, grad=False, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(
        dtype).requires_grad_(grad)


def same(a, b):
    """Bit for bit."""
    assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
    assert torch.equal(a.contiguous().reshape(-1).view(torch.uint8),
                       b.contiguous().reshape(-1).view(torch.uint8)), (a, b)


class Recorded:
    """A call of a captured trace: the request for it, and what it gave."""

    def __init__(self, name, api):
        self.name, self.api = name, api
        self.arguments, self.inputs, self.expected = {}, {}, {}
        self.gradients = []

    def parameters(self, precision="given"):
        return {"api": self.api,
                "arguments": {key: _assembled(node)
                              for key, node in self.arguments.items()},
                "precision": precision, "backward": bool(self.gradients),
                "gradients": self.gradients}


class _Leaf(dict):
    """Tells arguments from containers of them."""


def _assembled(node):
    if isinstance(node, _Leaf):
        return dict(node)
    parts = [_assembled(each) for each in node.values()]
    if list(node) == [str(i) for i in range(len(node))]:
        return {"items": parts}
    return {"members": dict(zip(node, parts))}


def recorded_calls(folder):
    """The calls of a trace in mode "tensor", as `assay precheck` puts them
    together."""
    lines = [json.loads(line) for line in
             (folder / "trace.jsonl").read_text().splitlines()]
    tensors = {}
    for shard in folder.glob("tensors-*.safetensors"):
        tensors.update(safetensors.torch.load_file(shard))
    calls, ops = {}, []
    for line in lines:
        if "op" in line:
            name, _, direction = line["op"].rpartition(".")
            if direction == "forward":
                api = f"{line['prefix']}.{line['api']}"
                calls[name] = Recorded(name, api)
            ops.append((calls[name], direction))
        elif "of" in line:
            _add_leaf(*ops[line["of"]], line, tensors)
    return list(calls.values())


def _add_leaf(call, direction, line, tensors):
    leaf, tensor = line["leaf"], tensors.get(line.get("hash"))
    if direction == "backward":
        if line["role"] == "input" and tensor is not None:
            call.gradients.append("output" + leaf[len("input"):])
            call.inputs[f"gradient.{call.gradients[-1]}"] = tensor
        elif tensor is not None:
            call.expected["gradient.input" + leaf[len("output"):]] = tensor
    elif line["role"] == "output":
        if tensor is not None:
            call.expected[leaf] = tensor
    else:
        node = call.arguments
        *parts, last = leaf.split(".")[1:]
        for part in parts:
            node = node.setdefault(part, {})
        if tensor is None:
            node[last] = _Leaf(type=line["type"], value=line.get("value"))
        else:
            call.inputs[leaf] = tensor
            node[last] = _Leaf(tensor=leaf,
                               requires_grad=line.get("requires_grad", False))
