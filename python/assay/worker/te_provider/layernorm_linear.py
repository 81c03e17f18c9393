"""layernorm_linear: te.LayerNormLinear forward and backward."""

from __future__ import annotations

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import require
from assay.worker.torch_provider.linear_common import NORM_LINEAR_DEFAULTS

ADAPTER = 1
API = ["transformer_engine.pytorch.LayerNormLinear",
       "transformer_engine.pytorch.module.LayerNormLinear",
       "transformer_engine.pytorch.module.layernorm_linear.LayerNormLinear"]
OPTIONS = ("eps", "normalization", "zero_centered_gamma", "bias",
           "return_bias", "return_layernorm_output",
           "fuse_wgrad_accumulation", "delay_wgrad_compute")


def run(call: Call) -> Result:
    kind = require(*API)
    module = modules.build(
        call, kind, {"in_features": call.in_features,
                     "out_features": call.out_features,
                     **{name: call.parameters[name] for name in OPTIONS}},
        NORM_LINEAR_DEFAULTS)
    result = modules.train_with_norm(call, module)
    result.contract["defaults"] = modules.defaults_contract(
        kind, NORM_LINEAR_DEFAULTS)
    return result
