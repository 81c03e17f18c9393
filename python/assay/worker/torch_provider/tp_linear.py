"""tp_linear: a linear layer whose weight is cut across the ranks.

Column parallel: every rank has rows of the weight, y is cut along features,
dx is a sum over ranks. Row parallel: columns of the weight, y is a sum, after
which the bias is added with a rounding of its own. With sequence parallelism
the tensor on the uncut side is this rank's tokens (Megatron-LM,
arXiv:1909.08053 and 2205.05198).
"""

from __future__ import annotations

import dataclasses

import torch

from assay.worker.call import Call, Refused, Result, state_dict_contract
from assay.worker.torch_provider.collectives import (check_ranks, gathered,
                                                     greatest, part, summed)
from assay.worker.torch_provider.linear_common import step_input
from assay.worker.torch_provider.recipes import (Products, bias_gradient,
                                                 histories, matrix,
                                                 products_of)

ADAPTER = 1


@dataclasses.dataclass
class Layout:
    """Dimensions that the ranks cut; None: whole on every rank."""

    name: str
    x: int | None
    y: int | None
    weight: int
    bias: int | None


def layout_of(call: Call) -> Layout:
    tokens = 0 if call.sequence_parallel else None
    end = "_sp" if call.sequence_parallel else ""
    if call.parallel_mode == "column":
        return Layout("column" + end, tokens, -1, 0, 0)
    if call.parallel_mode == "row":
        return Layout("row" + end, -1, tokens, -1, None)
    raise Refused(f"parallel_mode: {call.parallel_mode}")


def forward(call: Call, gemm: Products, x: torch.Tensor, weight: torch.Tensor,
            bias: torch.Tensor | None):
    """x and y as this rank has them."""
    if call.parallel_mode == "column":
        whole = gathered(x, 0 if call.sequence_parallel else None, call)
        return gemm.fprop(whole, weight, bias)
    partial, saved = gemm.fprop(x, weight, None)
    y = summed(partial, call)
    if call.sequence_parallel:
        y = part(y, 0, call)
    if bias is not None:
        # Outside of the GEMM, so never rounded to bf16 (trap T16).
        y = (y.float() + bias.float()).to(y.dtype)
    return y, saved


def backward(call: Call, gemm: Products, dy: torch.Tensor, saved):
    if call.parallel_mode == "row":
        whole = gathered(dy, 0 if call.sequence_parallel else None, call)
        return gemm.backward(whole, saved)
    dx, dw = gemm.backward(dy, saved)
    dx = summed(dx, call)
    return (part(dx, 0, call) if call.sequence_parallel else dx), dw


def share_maxima(call: Call, gemm: Products) -> None:
    """Delayed scaling's histories take the group's maxima."""
    for state in (gemm.forward_state, gemm.backward_state):
        if state is not None:
            state.history[0] = greatest(state.history[0], call)


def run(call: Call) -> Result:
    check_ranks(call)
    layout = layout_of(call)
    weight = part(call.inputs["weight"], layout.weight, call)
    bias = (part(call.inputs["bias"], layout.bias, call) if call.bias
            else None)
    (gemm,) = products_of(call, 1)
    result = Result()
    for step in range(1, call.steps + 1):
        x = part(step_input(call, "x", step), layout.x, call)
        dy = part(step_input(call, "dy", step), layout.y, call)
        y, saved = forward(call, gemm, x, weight, bias)
        dx, dw = backward(call, gemm, dy, saved)
        share_maxima(call, gemm)
        gemm.update_forward()
        gemm.update_backward()
        result.outputs[call.step_name(f"{layout.name}.y", step)] = y
        result.outputs[call.step_name(f"{layout.name}.grad.x", step)] = dx
    result.outputs[f"{layout.name}.grad.weight"] = dw.to(weight.dtype)
    parameters = {"weight": weight}
    if bias is not None:
        # Of this rank's tokens alone under sequence parallelism.
        result.outputs[f"{layout.name}.grad.bias"] = bias_gradient(
            matrix(dy), bias)
        parameters["bias"] = bias
    states = histories([gemm])
    result.outputs.update(states)
    result.contract["state_dict"] = state_dict_contract(
        {**parameters, **states})
    return result
