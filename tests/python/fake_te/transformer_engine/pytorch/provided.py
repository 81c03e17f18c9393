"""Functions that a composite of torch_provider computes, forward and backward
in one: run once without gradients for its results, once with them."""

from __future__ import annotations

import dataclasses
import typing

import torch

from assay.worker.call import Call


@dataclasses.dataclass
class Request:
    """`leaves`: inputs that have gradients; `gradients`: result -> the input
    that holds its gradient."""

    run: typing.Callable
    call: Call
    leaves: list[str]
    gradients: dict[str, str]
    zeros: dict[str, torch.Tensor]

    def compute(self, given: dict[str, torch.Tensor],
                ) -> dict[str, torch.Tensor]:
        inputs = {**self.call.inputs, **self.zeros, **given}
        with torch.enable_grad():  # some composites use autograd themselves
            found = self.run(dataclasses.replace(self.call, inputs=inputs))
        return {name: t.detach() for name, t in found.outputs.items()}


class Provided(torch.autograd.Function):

    @staticmethod
    def forward(ctx, request, *leaves):
        ctx.request = request
        ctx.given = dict(zip(request.leaves, (t.detach() for t in leaves)))
        found = request.compute(ctx.given)
        results = tuple(found[name] for name in request.gradients)
        return results if len(results) > 1 else results[0]

    @staticmethod
    def backward(ctx, *grads):
        request = ctx.request
        named = dict(zip(request.gradients.values(), grads))
        found = request.compute({**ctx.given, **named})
        return (None, *(found.get(f"grad.{name}") for name in request.leaves))


def provided(run: typing.Callable, parameters: dict[str, typing.Any],
             leaves: dict[str, torch.Tensor],
             others: dict[str, torch.Tensor], gradients: dict[str, str],
             zeros: dict[str, torch.Tensor]) -> typing.Any:
    device = next(iter(leaves.values())).device
    call = Call("", parameters, others, 1, 0, device)
    return Provided.apply(Request(run, call, list(leaves), gradients, zeros),
                          *leaves.values())
