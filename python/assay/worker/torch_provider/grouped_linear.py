"""grouped_linear: a linear layer for each group of rows, every group a tensor
of its own to the quantisers."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider.linear_common import (LINEAR_DEFAULTS,
                                                       Gradients, finish,
                                                       step_input)
from assay.worker.torch_provider.recipes import (bias_gradient, histories,
                                                 products_of)

ADAPTER = 1
DEFAULTS = {**LINEAR_DEFAULTS, "save_original_input": False,
            "single_grouped_weight": False, "single_grouped_bias": False}


def parts_of(call: Call, kind: str) -> list[torch.Tensor]:
    """A tensor for each group, from one stacked parameter or many."""
    if call.parameters[f"single_grouped_{kind}"]:
        return list(call.inputs[kind])
    return [call.inputs[f"{kind}{i}"] for i in range(call.num_gemms)]


class Parts:
    """Where gradients of groups go: their own parameter, or their place in
    the stacked one."""

    def __init__(self, call: Call, gradients: Gradients):
        self._call, self._gradients = call, gradients

    def put(self, kind: str, grads: list[torch.Tensor]) -> None:
        put = (self._gradients.put_weight if kind == "weight"
               else self._gradients.put)
        if self._call.parameters[f"single_grouped_{kind}"]:
            put(kind, self._call.inputs[kind], torch.stack(grads))
            return
        for i, grad in enumerate(grads):
            put(f"{kind}{i}", self._call.inputs[f"{kind}{i}"], grad)


def check(call: Call) -> None:
    rows = call.inputs["x"].shape[0]
    if len(call.m_splits) != call.num_gemms or sum(call.m_splits) != rows:
        raise Refused(f"m_splits: {call.m_splits}, expected {call.num_gemms} "
                      f"that add up to {rows}")
    if call.save_original_input and call.recipe == "delayed":
        raise Refused("save_original_input: true, expected false for a recipe "
                      "with a history")


def run(call: Call) -> Result:
    check(call)
    gemms = products_of(call, call.num_gemms)
    weights = parts_of(call, "weight")
    biases = parts_of(call, "bias") if call.bias else None
    added = biases if biases and not call.return_bias else [None] * len(gemms)
    gradients, result = Gradients(call), Result()
    parts = Parts(call, gradients)
    for step in range(1, call.steps + 1):
        xs = step_input(call, "x", step).split(call.m_splits)
        dys = step_input(call, "dy", step).split(call.m_splits)
        passes = [gemm.fprop(x, w, b)
                  for gemm, x, w, b in zip(gemms, xs, weights, added)]
        for gemm in gemms:
            gemm.update_forward()
        grads = [gemm.backward(dy, saved)
                 for gemm, dy, (_, saved) in zip(gemms, dys, passes)]
        for gemm in gemms:
            gemm.update_backward()
        result.outputs[call.step_name("y", step)] = torch.cat(
            [y for y, _ in passes])
        result.outputs[call.step_name("grad.x", step)] = torch.cat(
            [dx for dx, _ in grads])
        parts.put("weight", [dw for _, dw in grads])
        if biases:
            parts.put("bias", [bias_gradient(dy, b)
                               for dy, b in zip(dys, biases)])
    return finish(result, gradients, histories(gemms), DEFAULTS)
