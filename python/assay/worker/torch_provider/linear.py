"""linear: y = x W^T + b, dx = dy W, dW = dy^T x, db = the sum of dy's rows
before dy is quantised."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider.linear_common import (LINEAR_DEFAULTS,
                                                       Gradients, finish,
                                                       step_input)
from assay.worker.torch_provider.recipes import (bias_gradient, histories,
                                                 products_of)

ADAPTER = 2
DEFAULTS = {**LINEAR_DEFAULTS, "save_original_input": False}
PARTS = ("query", "key")  # of parameters_split


def names_of(call: Call, kind: str) -> list[str]:
    if call.parameters_split:
        return [f"{part}_{kind}" for part in PARTS]
    return [kind]


def whole(call: Call, kind: str) -> torch.Tensor:
    return torch.cat([call.inputs[name] for name in names_of(call, kind)])


def run(call: Call) -> Result:
    if call.save_original_input and call.recipe == "delayed":
        raise Refused("save_original_input: true, expected false for a recipe "
                      "with a history")
    weight = whole(call, "weight")
    bias = whole(call, "bias") if call.bias else None
    rows = [call.inputs[name].shape[0] for name in names_of(call, "weight")]
    (gemm,) = products_of(call, 1)
    gradients, result = Gradients(call), Result()
    for step in range(1, call.steps + 1):
        x, dy = step_input(call, "x", step), step_input(call, "dy", step)
        y, saved = gemm.fprop(x, weight, None if call.return_bias else bias)
        gemm.update_forward()
        dx, dw = gemm.backward(dy, saved)
        gemm.update_backward()
        result.outputs[call.step_name("y", step)] = y
        result.outputs[call.step_name("grad.x", step)] = dx
        for name, part in zip(names_of(call, "weight"), dw.split(rows)):
            gradients.put_weight(name, call.inputs[name], part)
        if bias is not None:
            db = bias_gradient(dy, bias).split(rows)
            for name, part in zip(names_of(call, "bias"), db):
                gradients.put(name, call.inputs[name], part)
    return finish(result, gradients, histories([gemm]), DEFAULTS)
