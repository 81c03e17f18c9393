"""linear: te.Linear forward and backward."""

from __future__ import annotations

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import require
from assay.worker.torch_provider.linear import DEFAULTS

ADAPTER = 1
API = ["transformer_engine.pytorch.Linear",
       "transformer_engine.pytorch.module.linear.Linear"]


def run(call: Call) -> Result:
    kind = require(*API)
    module = modules.build(call, kind, {"in_features": call.in_features,
                                        "out_features": call.out_features,
                                        "bias": call.bias})
    result = modules.train(call, module, lambda m, t: m(t["x"]))
    modules.contract_defaults(result, kind, DEFAULTS)
    return result
