"""cross_entropy: parallel_cross_entropy forward and backward."""

from __future__ import annotations

import torch
import torch.distributed as dist

from assay.worker.call import Call, Result
from assay.worker.te_provider.api import call_named, defaults_of, require

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
API = [_PATH + "parallel_cross_entropy",
       _PATH + "cross_entropy.parallel_cross_entropy"]
DEFAULTS = ("label_smoothing", "reduce_loss", "ignore_idx")


def run(call: Call) -> Result:
    function = require(*API)
    width = call.inputs["input"].shape[-1] // call.ranks
    begin = call.rank * width
    # A clone: the kernel forms the gradient in the place of the logits.
    x = call.inputs["input"][..., begin:begin + width].detach()
    x = x.clone().requires_grad_()
    loss = call_named(function, {
        "inp": x, "target": call.inputs["target"],
        "label_smoothing": call.label_smoothing,
        "reduce_loss": call.reduce_loss,
        "dist_process_group": dist.group.WORLD if call.ranks > 1 else None,
        "ignore_idx": call.ignore_idx})
    loss.backward(call.inputs["d_loss"].reshape(loss.shape))
    result = Result()
    result.outputs = {"loss": shaped(call, loss), "grad.input": x.grad}
    result.contract["defaults"] = defaults_of(function, DEFAULTS)
    return result


def shaped(call: Call, loss: torch.Tensor) -> torch.Tensor:
    return loss.reshape(1) if call.reduce_loss else loss.float()
