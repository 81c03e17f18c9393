"""The protocol's loop: a JSON object a line, tensors in safetensors files."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import resource
import sys
import time
import traceback
import typing

import safetensors.torch
import torch

from assay.worker.call import Call, Refused, Result, Unsupported

PROTOCOL = 1


class Provider(typing.Protocol):
    """An implementation of the modules."""

    implementation: str
    version: str
    launcher: str

    def modules(self) -> dict[str, dict[str, typing.Any]]:
        """{"linear": {"adapter": 1, "api": [...]}}"""

    def environment(self) -> dict[str, typing.Any]:
        """What else decides about bits."""

    def run(self, call: Call) -> Result:
        """Computes a case. Raises Unsupported or Refused."""


def claim_stdout() -> typing.TextIO:
    """The real stdout, for answers alone: whatever else prints there, C++
    code included, goes to stderr from now on."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


def strided_view(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements behind other strides: the last two dimensions change
    places in memory; of one dimension every second element counts."""
    if tensor.numel() < 2:
        return tensor
    if tensor.dim() == 1:
        wide = torch.empty(2 * tensor.numel(), dtype=tensor.dtype,
                           device=tensor.device)
        wide.view(torch.uint8).fill_(0xFF)
        view = wide[::2]
        view.copy_(tensor)
        return view
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def sources() -> str:
    """A digest of this package: what is computed changes with it, whatever
    the framework's version."""
    digest = hashlib.sha256()
    folder = pathlib.Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Server:
    """Answers requests with a provider."""

    def __init__(self, provider: Provider, device: torch.device,
                 rank: int = 0, ranks: int = 1):
        self.provider = provider
        self.device = device
        self.rank = rank
        self.ranks = ranks

    def hello(self) -> dict[str, typing.Any]:
        return {
            "type": "hello",
            "protocol": PROTOCOL,
            "implementation": self.provider.implementation,
            "version": self.provider.version,
            "device": str(self.device),
            "launcher": self.provider.launcher,
            "modules": self.provider.modules(),
            "environment": {**self.provider.environment(),
                            "sources": sources()},
        }

    def run(self, request: dict[str, typing.Any]) -> dict[str, typing.Any]:
        try:
            return self._compute(request)
        except Unsupported as error:
            return failure(request, "unsupported", "unsupported", error)
        except Refused as error:
            return failure(request, "error", "usage", error)
        except MemoryError as error:
            return failure(request, "error", "memory", error)
        except Exception as error:  # noqa: BLE001: a case, not the worker
            traceback.print_exc(file=sys.stderr)
            return failure(request, "error", type(error).__name__, error)

    def _compute(self, request: dict[str, typing.Any]) -> dict[str, typing.Any]:
        inputs = safetensors.torch.load_file(request["inputs"],
                                             device=str(self.device))
        for name in request.get("strided", []):
            if name in inputs:
                inputs[name] = strided_view(inputs[name])
        call = Call(module=request["module"],
                    parameters=request["parameters"],
                    inputs=inputs,
                    steps=request["steps"],
                    seed=request["seed"],
                    device=self.device,
                    rank=self.rank,
                    ranks=self.ranks)
        torch.manual_seed(call.seed)
        start = time.perf_counter()
        result = self.provider.run(call)
        seconds = time.perf_counter() - start
        path = f"{request['outputs']}.rank{self.rank}.safetensors"
        safetensors.torch.save_file(
            {name: t.detach().cpu().contiguous().clone()
             for name, t in result.outputs.items()}, path)
        return {
            "type": "result",
            "id": request["id"],
            "status": "ok",
            "contract": result.contract,
            "seconds": seconds,
            "peak_bytes": peak_bytes(),
        }

    def answer(self, line: str) -> dict[str, typing.Any] | None:
        """The answer to one line; None to `bye`."""
        try:
            message = json.loads(line)
            kind = message["type"]
        except (ValueError, KeyError, TypeError) as error:
            return failure({}, "error", "usage", error)
        if kind == "bye":
            return None
        if kind == "hello":
            return self.hello()
        if kind == "run":
            return self.run(message)
        return failure(message, "error", "usage", f"unknown type {kind!r}")


def failure(request: dict[str, typing.Any], status: str, kind: str,
            error: object) -> dict[str, typing.Any]:
    text = " ".join(str(error).split()) or kind
    return {"type": "result", "id": request.get("id", -1), "status": status,
            "error": kind, "message": text[:2000]}


def serve(server: Server, answers: typing.TextIO,
          lines: typing.Iterable[str]) -> None:
    for line in lines:
        if not line.strip():
            continue
        answer = server.answer(line)
        if answer is None:
            return
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
