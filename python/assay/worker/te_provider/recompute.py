"""recompute: two linear layers and a dropout with everything kept, and the
same with checkpoint(), compared bit by bit here."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require
from assay.worker.te_provider.recipes import region
from assay.worker.torch_provider.linear_common import step_input

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
API = [_PATH + "checkpoint", _PATH + "distributed.checkpoint"]
FACTS = ("output", "grad_input", "grad_parameters", "state", "random_states")


class Block(torch.nn.Module):
    """fc1 and fc2 are the package's, the dropout is torch's."""

    def __init__(self, call: Call):
        super().__init__()
        kind = require(_PATH + "Linear")
        places = {"params_dtype": call.torch_dtype,
                  "device": str(call.device)}
        sizes = (call.hidden_size, call.ffn_hidden_size)
        self.fc1, self.fc2 = (
            call_named(kind, {"in_features": given, "out_features": wanted,
                              **places})
            for given, wanted in (sizes, sizes[::-1]))
        self.dropout = call.dropout
        modules.fill(call, self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc1(x)
        if self.dropout > 0:
            h = torch.nn.functional.dropout(h, self.dropout)
        return self.fc2(h)


class Way:
    """One of the two, with random states of its own."""

    def __init__(self, call: Call, recomputes: bool):
        self.call, self.block = call, Block(call)
        self.checkpoint = require(*API) if recomputes else None
        torch.manual_seed(call.seed)
        self.random = random_states(call)

    def step(self, step: int) -> list[torch.Tensor]:
        """All micro-batches forward, each in a region of its own; then
        backward, the last one first. All y, then all dx."""
        call = self.call
        set_random_states(call, self.random)
        first = (step - 1) * call.micro_batches + 1
        xs, ys = [], []
        self.block.zero_grad()
        for i in range(call.micro_batches):
            x = step_input(call, "x", first + i).detach().requires_grad_()
            with region(call):
                ys.append(self.forward(x))
            xs.append(x)
        for i in reversed(range(call.micro_batches)):
            ys[i].backward(step_input(call, "dy", first + i))
        self.random = random_states(call)
        return [*(y.detach() for y in ys), *(x.grad for x in xs)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.checkpoint is None:
            return self.block(x)
        return self.checkpoint(self.block, x)

    def gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self.block.parameters()]

    def states(self) -> dict[str, torch.Tensor]:
        if self.call.recipe != "delayed":
            return {}
        return modules.histories(self.block)


def random_states(call: Call) -> list[torch.Tensor]:
    """The CPU's and the device's."""
    found = [torch.get_rng_state()]
    if call.device.type != "cpu":
        backend = getattr(torch, call.device.type)
        found.append(backend.get_rng_state(call.device))
    return found


def set_random_states(call: Call, states: list[torch.Tensor]) -> None:
    torch.set_rng_state(states[0])
    if len(states) > 1:
        backend = getattr(torch, call.device.type)
        backend.set_rng_state(states[1], call.device)


def same(a: typing.Iterable[torch.Tensor],
         b: typing.Iterable[torch.Tensor]) -> bool:
    a, b = list(a), list(b)
    return len(a) == len(b) and all(map(torch.equal, a, b))


def run(call: Call) -> Result:
    kept, again = Way(call, False), Way(call, True)
    differences = [0] * len(FACTS)
    result = Result()
    n = call.micro_batches
    for step in range(1, call.steps + 1):
        one, two = kept.step(step), again.step(step)
        now = [same(one[:n], two[:n]), same(one[n:], two[n:]),
               same(kept.gradients(), again.gradients()),
               same(kept.states().values(), again.states().values()),
               same(kept.random, again.random)]
        differences = [d + (not holds) for d, holds in zip(differences, now)]
        if call.dropout == 0:
            result.outputs[call.step_name("y", step)] = two[n - 1]
            result.outputs[call.step_name("grad.x", step)] = two[-1]
    if call.dropout == 0:
        for name, parameter in again.block.named_parameters():
            result.outputs[f"grad.{name}"] = parameter.grad
        result.outputs.update(again.states())
    result.outputs["differences"] = torch.tensor(differences)
    result.contract["same_bits"] = {
        name: count == 0 for name, count in zip(FACTS, differences)}
    return result
