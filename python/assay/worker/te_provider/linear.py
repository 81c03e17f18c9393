"""linear: te.Linear forward and backward."""

from __future__ import annotations

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import require
from assay.worker.torch_provider.linear import DEFAULTS

ADAPTER = 2
API = ["transformer_engine.pytorch.Linear",
       "transformer_engine.pytorch.module.Linear",
       "transformer_engine.pytorch.module.linear.Linear"]
OPTIONS = ("bias", "return_bias", "fuse_wgrad_accumulation",
           "delay_wgrad_compute", "save_original_input")


def run(call: Call) -> Result:
    kind = require(*API)
    arguments = {"in_features": call.in_features,
                 "out_features": call.out_features,
                 **{name: call.parameters[name] for name in OPTIONS}}
    if call.parameters_split:
        half = call.out_features // 2
        arguments["parameters_split"] = {"query": half,
                                         "key": call.out_features - half}
    module = modules.build(call, kind, arguments, DEFAULTS)
    names = modules.returned(call, "y")

    def forward(module, leaves, options):
        return modules.tuple_of(module(leaves["x"], **options), *names)

    result = modules.Training(call, module, forward).run()
    result.contract["defaults"] = modules.defaults_contract(kind, DEFAULTS)
    return result
