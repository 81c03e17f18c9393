"""rmsnorm: te.RMSNorm, and rmsnorm_bwd_add of the binding."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import norms
from assay.worker.te_provider.api import call_named, require

ADAPTER = 1
API = ["transformer_engine.pytorch.RMSNorm",
       "transformer_engine.pytorch.module.RMSNorm",
       "transformer_engine.pytorch.module.rmsnorm.RMSNorm",
       "transformer_engine.pytorch.ops.RMSNorm",
       "transformer_engine.pytorch.ops.basic.RMSNorm",
       "transformer_engine.pytorch.ops.basic.rmsnorm.RMSNorm",
       "transformer_engine_torch.rmsnorm_fwd",
       "transformer_engine_torch.rmsnorm_bwd",
       "transformer_engine_torch.rmsnorm_bwd_add"]


def run(call: Call) -> Result:
    result = norms.run_module(call, API[:3])
    if not call.training:
        return result
    _, _, rsigma = norms.statistics(call, "rmsnorm_fwd")
    result.outputs["rsigma"] = rsigma
    if call.add:
        add_residual(call, result, rsigma)
    return result


def add_residual(call: Call, result: Result, rsigma: torch.Tensor) -> None:
    """The weight has the dtype of x there: of another one the gradient is the
    module's."""
    weight = call.inputs["weight"]
    dx, dw = call_named(require("transformer_engine_torch.rmsnorm_bwd_add"), {
        "dz": call.inputs["dy"].contiguous(),
        "x": call.inputs["x"].contiguous(),
        "add": call.inputs["add"].contiguous(), "rsigma": rsigma,
        "gamma": weight.to(call.torch_dtype), "sm_margin": 0,
        "zero_centered_gamma": call.zero_centered_gamma})
    result.outputs["grad.x"] = dx
    if weight.dtype == dw.dtype:
        result.outputs["grad.weight"] = dw
