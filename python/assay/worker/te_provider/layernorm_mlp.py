"""layernorm_mlp: te.LayerNormMLP forward and backward."""

from __future__ import annotations

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import require
from assay.worker.torch_provider.layernorm_mlp import DEFAULTS

ADAPTER = 1
API = ["transformer_engine.pytorch.LayerNormMLP",
       "transformer_engine.pytorch.module.LayerNormMLP",
       "transformer_engine.pytorch.module.layernorm_mlp.LayerNormMLP"]
OPTIONS = ("eps", "normalization", "activation", "zero_centered_gamma",
           "bias", "return_bias", "return_layernorm_output",
           "fuse_wgrad_accumulation", "delay_wgrad_compute", "checkpoint")


def run(call: Call) -> Result:
    kind = require(*API)
    module = modules.build(
        call, kind, {"hidden_size": call.hidden_size,
                     "ffn_hidden_size": call.ffn_hidden_size,
                     **{name: call.parameters[name] for name in OPTIONS}},
        DEFAULTS)
    result = modules.train_with_norm(call, module)
    result.contract["defaults"] = modules.defaults_contract(kind, DEFAULTS)
    return result
