"""layernorm: y = (x - mean) / sqrt(var + eps) times the weight, plus bias.

The variance is that of the population, from a second pass over x - mean.
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Result, state_dict_contract
from assay.worker.torch_provider.rmsnorm import DEFAULTS, check

ADAPTER = 1


def run(call: Call) -> Result:
    check(call)
    dtype = call.torch_dtype
    x = call.inputs["x"].float()
    weight, bias = call.inputs["weight"], call.inputs["bias"]
    gamma = weight.float() + (1.0 if call.zero_centered_gamma else 0.0)
    mean = x.mean(-1)
    centred = x - mean[:, None]
    rsigma = torch.rsqrt(centred.square().mean(-1) + call.eps)
    normed = centred * rsigma[:, None]
    result = Result()
    result.outputs["y"] = (normed * gamma + bias.float()).to(dtype)
    parameters = {"weight": weight, "bias": bias}
    result.contract = {"state_dict": state_dict_contract(parameters),
                       "defaults": DEFAULTS}
    if not call.training:
        return result
    dy = call.inputs["dy"].float()
    t = dy * gamma
    dx = rsigma[:, None] * (t - (t * normed).mean(-1, keepdim=True) * normed
                            - t.mean(-1, keepdim=True))
    result.outputs["mean"], result.outputs["rsigma"] = mean, rsigma
    result.outputs["grad.x"] = dx.to(dtype)
    result.outputs["grad.weight"] = (dy * normed).sum(0).to(weight.dtype)
    result.outputs["grad.bias"] = dy.sum(0).to(bias.dtype)
    return result
