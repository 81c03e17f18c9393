"""tp_linear: te.Linear cut across ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist

from assay.worker.call import Call, Refused, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require
from assay.worker.te_provider.recipes import region
from assay.worker.torch_provider.collectives import check_ranks, part
from assay.worker.torch_provider.linear_common import step_input
from assay.worker.torch_provider.tp_linear import layout_of

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
API = [_PATH + "Linear", _PATH + "distributed.gather_along_first_dim",
       _PATH + "distributed.reduce_scatter_along_first_dim",
       _PATH + "distributed.allreduce"]


def build(call: Call, group: dist.ProcessGroup | None) -> torch.nn.Module:
    """With this rank's part of the parameters."""
    layout = layout_of(call)
    module = call_named(require(API[0]), {
        "in_features": call.in_features, "out_features": call.out_features,
        "sequence_parallel": call.sequence_parallel, "tp_group": group,
        "tp_size": call.ranks, "bias": call.bias,
        "params_dtype": call.torch_dtype,
        "parallel_mode": call.parallel_mode, "device": str(call.device)})
    cuts = {"weight": layout.weight, "bias": layout.bias}
    own = Call(**{**call.__dict__, "inputs": {
        name: part(call.inputs[name], cuts[name], call)
        for name in cuts if name in call.inputs}})
    modules.fill(own, module)
    return module


def run(call: Call) -> Result:
    check_ranks(call)
    layout = layout_of(call)
    if call.ranks > 1 and not dist.is_initialized():
        raise Refused("ranks without torch.distributed")
    group = dist.group.WORLD if call.ranks > 1 else None
    module = build(call, group)
    result = Result()
    for step in range(1, call.steps + 1):
        module.zero_grad()
        x = part(step_input(call, "x", step), layout.x, call)
        x = x.detach().requires_grad_()
        with region(call, group=group):
            y = module(x)
        y.backward(part(step_input(call, "dy", step), layout.y, call))
        result.outputs[call.step_name(f"{layout.name}.y", step)] = y
        result.outputs[call.step_name(f"{layout.name}.grad.x",
                                      step)] = x.grad
    for name, parameter in module.named_parameters():
        result.outputs[f"{layout.name}.grad.{name}"] = parameter.grad
    modules.put_state(call, result, module)
    return result
