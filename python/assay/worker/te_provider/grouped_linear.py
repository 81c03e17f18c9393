"""grouped_linear: te.GroupedLinear forward and backward."""

from __future__ import annotations

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import require
from assay.worker.torch_provider.grouped_linear import DEFAULTS

ADAPTER = 1
API = ["transformer_engine.pytorch.GroupedLinear",
       "transformer_engine.pytorch.module.GroupedLinear",
       "transformer_engine.pytorch.module.grouped_linear.GroupedLinear"]
OPTIONS = ("bias", "return_bias", "fuse_wgrad_accumulation",
           "delay_wgrad_compute", "save_original_input",
           "single_grouped_weight", "single_grouped_bias")


def run(call: Call) -> Result:
    kind = require(*API)
    module = modules.build(
        call, kind, {"num_gemms": call.num_gemms,
                     "in_features": call.in_features,
                     "out_features": call.out_features,
                     **{name: call.parameters[name] for name in OPTIONS}},
        DEFAULTS)
    result = modules.Training(call, module, forward_of(call)).run()
    result.contract["defaults"] = modules.defaults_contract(kind, DEFAULTS)
    return result


def forward_of(call: Call):
    """Biases that are given back are added to the rows of their groups, for
    them to have gradients."""
    splits = list(call.m_splits)

    def forward(module, leaves, options):
        answer = module(leaves["x"], splits, **options)
        if not call.return_bias:
            return modules.tuple_of(answer, "y")
        y, biases = answer
        return {"y": y, modules.BIAS: rows_of(list(biases), splits, y)}

    return forward


def rows_of(biases: list[torch.Tensor], splits: list[int],
            like: torch.Tensor) -> torch.Tensor:
    rows = [bias.to(like.dtype).expand(n, -1)
            for bias, n in zip(biases, splits)]
    return torch.cat(rows)
