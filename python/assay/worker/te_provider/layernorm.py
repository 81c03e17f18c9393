"""layernorm: te.LayerNorm, with mean and rsigma of the binding."""

from __future__ import annotations

from assay.worker.call import Call, Result
from assay.worker.te_provider import norms

ADAPTER = 1
API = ["transformer_engine.pytorch.LayerNorm",
       "transformer_engine.pytorch.module.LayerNorm",
       "transformer_engine.pytorch.module.layernorm.LayerNorm",
       "transformer_engine.pytorch.ops.LayerNorm",
       "transformer_engine.pytorch.ops.basic.LayerNorm",
       "transformer_engine.pytorch.ops.basic.layer_norm.LayerNorm",
       "transformer_engine_torch.layernorm_fwd",
       "transformer_engine_torch.layernorm_bwd"]


def run(call: Call) -> Result:
    result = norms.run_module(call, API[:3])
    if call.training:
        _, mean, rsigma = norms.statistics(call, "layernorm_fwd")
        result.outputs["mean"], result.outputs["rsigma"] = mean, rsigma
    return result
