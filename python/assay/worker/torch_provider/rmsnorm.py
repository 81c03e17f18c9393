"""rmsnorm: y = x / sqrt(mean(x^2) + eps) times the weight, in fp32."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result, state_dict_contract

ADAPTER = 1


def check(call: Call) -> None:
    if call.hidden_size < 1 or call.eps < 0:
        raise Refused(f"hidden_size {call.hidden_size}, eps {call.eps}: "
                      "expected a positive size and 0 or more")


def run(call: Call) -> Result:
    check(call)
    dtype = call.torch_dtype
    x, weight = call.inputs["x"].float(), call.inputs["weight"]
    gamma = weight.float() + (1.0 if call.zero_centered_gamma else 0.0)
    rsigma = torch.rsqrt(x.square().mean(-1) + call.eps)
    normed = x * rsigma[:, None]
    result = Result()
    result.outputs["y"] = (normed * gamma).to(dtype)
    result.contract = {"state_dict": state_dict_contract({"weight": weight}),
                       "defaults": DEFAULTS}
    if not call.training:
        return result
    dy = call.inputs["dy"].float()
    t = dy * gamma
    dx = rsigma[:, None] * (t - (t * normed).mean(-1, keepdim=True) * normed)
    if call.add:
        dx = dx + call.inputs["add"].float()
    result.outputs["rsigma"] = rsigma
    result.outputs["grad.x"] = dx.to(dtype)
    result.outputs["grad.weight"] = (dy * normed).sum(0).to(weight.dtype)
    return result


# NVTE's constructors of both norms, as documented.
DEFAULTS = {"eps": 1e-5, "zero_centered_gamma": False}
