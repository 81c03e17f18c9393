"""recompute: two linear layers and a dropout, once with everything kept for
backward and once run again there, from x alone.

A pass that is run again takes the scales and the random state of the first,
and leaves neither a maximum nor a draw behind.
"""

from __future__ import annotations

import copy
import dataclasses
import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.torch_provider.linear_common import step_input
from assay.worker.torch_provider.recipes import (Products, bias_gradient,
                                                 histories, products_of)

ADAPTER = 1


@dataclasses.dataclass
class Saved:
    fc1: typing.Any
    fc2: typing.Any
    kept: torch.Tensor | None  # of the dropout; None: nothing is dropped


class Block:
    def __init__(self, call: Call):
        self.call = call
        self.products: list[Products] = products_of(call, 2)
        self.random = torch.Generator(call.device).manual_seed(call.seed)
        self.grads: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Saved]:
        given, p = self.call.inputs, self.call.dropout
        fc1, fc2 = self.products
        h, saved1 = fc1.fprop(x, given["fc1.weight"], given["fc1.bias"])
        kept = None
        if p > 0:
            draw = torch.rand(h.shape, generator=self.random,
                              device=h.device)
            kept = (draw >= p).float() / (1 - p)
            h = (h.float() * kept).to(h.dtype)
        y, saved2 = fc2.fprop(h, given["fc2.weight"], given["fc2.bias"])
        return y, Saved(saved1, saved2, kept)

    def backward(self, dy: torch.Tensor, saved: Saved) -> torch.Tensor:
        dh = self._layer("fc2", 1, dy, saved.fc2)
        if saved.kept is not None:
            dh = (dh.float() * saved.kept).to(dh.dtype)
        dx = self._layer("fc1", 0, dh, saved.fc1)
        for products in self.products:
            products.update_backward()
        return dx

    def _layer(self, name: str, index: int, dy: torch.Tensor,
               saved: typing.Any) -> torch.Tensor:
        dx, dw = self.products[index].backward(dy, saved)
        bias = self.call.inputs[f"{name}.bias"]
        self._add(f"grad.{name}.weight", dw.to(dy.dtype))
        self._add(f"grad.{name}.bias", bias_gradient(dy, bias))
        return dx

    def _add(self, name: str, grad: torch.Tensor) -> None:
        before = self.grads.get(name)
        self.grads[name] = (grad if before is None else
                            (before.float() + grad.float()).to(grad.dtype))

    def state(self) -> list[typing.Any]:
        """What a pass that is run again must find."""
        return [self.random.get_state(),
                *(copy.deepcopy(p.forward_state) for p in self.products)]

    def set_state(self, state: list[typing.Any]) -> None:
        self.random.set_state(state[0])
        for products, forward_state in zip(self.products, state[1:]):
            products.forward_state = forward_state


class Kept:
    """Everything is kept."""

    @staticmethod
    def forward(block: Block, x: torch.Tensor) -> tuple[torch.Tensor, Saved]:
        return block.forward(x)

    @staticmethod
    def backward(block: Block, dy: torch.Tensor,
                 saved: Saved) -> torch.Tensor:
        return block.backward(dy, saved)


class Recomputed:
    """x and the state before the first pass."""

    @staticmethod
    def forward(block: Block, x: torch.Tensor) -> tuple[torch.Tensor,
                                                        typing.Any]:
        before = block.state()
        return block.forward(x)[0], (x, before)

    @staticmethod
    def backward(block: Block, dy: torch.Tensor,
                 kept: typing.Any) -> torch.Tensor:
        x, before = kept
        now = block.state()
        block.set_state(before)
        saved = block.forward(x)[1]
        block.set_state(now)
        return block.backward(dy, saved)


def run_step(way: typing.Any, call: Call, block: Block,
             step: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """All micro-batches forward, each in a region of its own; then backward,
    the last one first. y and dx of each."""
    first = (step - 1) * call.micro_batches + 1
    block.grads = {}
    y, kept = [], []
    for i in range(call.micro_batches):
        out = way.forward(block, step_input(call, "x", first + i))
        y.append(out[0])
        kept.append(out[1])
        for products in block.products:
            products.update_forward()
    dx = [torch.empty(0)] * call.micro_batches
    for i in reversed(range(call.micro_batches)):
        dx[i] = way.backward(block, step_input(call, "dy", first + i), kept[i])
    return y, dx


def same(a: typing.Iterable[torch.Tensor],
         b: typing.Iterable[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def run(call: Call) -> Result:
    kept, again = Block(call), Block(call)
    names = ["output", "grad_input", "grad_parameters", "state",
             "random_states"]
    differences = [0] * len(names)
    result = Result()
    for step in range(1, call.steps + 1):
        y, dx = run_step(Kept, call, kept, step)
        y2, dx2 = run_step(Recomputed, call, again, step)
        now = [same(y, y2), same(dx, dx2),
               same(kept.grads.values(), again.grads.values()),
               same(histories(kept.products).values(),
                    histories(again.products).values()),
               torch.equal(kept.random.get_state(),
                           again.random.get_state())]
        differences = [n + (not holds) for n, holds in zip(differences, now)]
        if call.dropout == 0:
            result.outputs[call.step_name("y", step)] = y2[-1]
            result.outputs[call.step_name("grad.x", step)] = dx2[-1]
    if call.dropout == 0:
        result.outputs.update(again.grads)
        for i, products in enumerate(again.products):
            result.outputs.update(histories([products], f"fc{i + 1}."))
    result.outputs["differences"] = torch.tensor(differences)
    result.contract["same_bits"] = {
        name: n == 0 for name, n in zip(names, differences)}
    return result
