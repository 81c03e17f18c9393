"""cross_entropy: the loss of every row in fp32 with label smoothing, and its
gradient; over a vocabulary that may be cut across ranks.

    loss = (1 - ls) (m + log d - x_target) + ls (m + log d) - ls / V sum x
    grad = d_loss (e^(x - m) / d - ls / V - (1 - ls) [i = target])

Rows whose target is ignore_idx have neither; a reduced loss is divided by the
number of the others.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from assay.worker.call import Call, Refused, Result

ADAPTER = 1


def reduced(values: torch.Tensor, ranks: int, op: str) -> torch.Tensor:
    if ranks > 1:
        dist.all_reduce(values, getattr(dist.ReduceOp, op))
    return values


def run(call: Call) -> Result:
    if not 0 <= call.label_smoothing < 1:
        raise Refused(f"label_smoothing {call.label_smoothing}, expected 0 "
                      "to below 1")
    whole, target = call.inputs["input"], call.inputs["target"].long()
    vocab = whole.shape[-1]
    counted = target != call.ignore_idx
    outside = counted & ((target < 0) | (target >= vocab))
    if bool(outside.any()):
        raise Refused(f"target: {target[outside][0].item()}, expected "
                      f"0 to {vocab - 1}")
    width = vocab // call.ranks
    begin = call.rank * width
    x = whole[..., begin:begin + width].float()

    top = reduced(x.amax(-1), call.ranks, "MAX")
    e = torch.exp(x - top[..., None])
    total = reduced(e.sum(-1), call.ranks, "SUM")
    # The target's logit comes from the rank that holds it.
    own = torch.arange(begin, begin + width, device=x.device)
    hit = own == target[..., None]
    at_target = torch.where(hit, x, torch.zeros_like(x)).sum(-1)
    at_target = reduced(at_target, call.ranks, "SUM")
    mean = reduced(x.sum(-1), call.ranks, "SUM") / vocab

    ls = call.label_smoothing
    lse = top + torch.log(total)
    loss = (1 - ls) * (lse - at_target)
    if ls > 0:  # 0 times the infinity that a -inf makes of the mean is no 0
        loss = loss + ls * (lse - mean)
    loss = torch.where(counted, loss, torch.zeros_like(loss))
    d_loss = call.inputs["d_loss"]
    if call.reduce_loss:
        count = counted.sum()
        loss = (loss.sum() / count).reshape(1)
        d_loss = d_loss / count
    else:
        d_loss = d_loss.reshape(target.shape)
    grad = e / total[..., None] - ls / vocab - (1 - ls) * hit.float()
    grad = d_loss[..., None] * grad
    grad = torch.where(counted[..., None], grad, torch.zeros_like(grad))
    result = Result()
    result.outputs = {"loss": loss, "grad.input": grad.to(whole.dtype)}
    result.contract["defaults"] = {"label_smoothing": 0.0,
                                   "reduce_loss": False, "ignore_idx": -100}
    return result
