"""The router's fused functions with NVTE's signatures."""

from __future__ import annotations

import enum

import torch

from assay.worker.call import Call
from assay.worker.torch_provider import router as composite


class RoutingMapFormat(enum.IntEnum):
    BYTEMAP = 0
    BITMAP_U8 = 1


def call_of(function, topk, fmt=RoutingMapFormat.BYTEMAP, **options):
    if function not in ("softmax", "sigmoid", "sqrtsoftplus"):
        raise ValueError(f"score_function {function}")
    return Call("", {"score_function": function, "topk": topk,
                     "routing_map_format": RoutingMapFormat(fmt).name,
                     "num_groups": 0, **options}, {}, 1, 0,
                torch.device("cpu"))


class Rounded(torch.autograd.Function):
    """Computed in fp32, both ways rounded once."""

    @staticmethod
    def forward(ctx, logits, compute, dtype):
        ctx.compute, ctx.logits = compute, logits.detach()
        return compute(ctx.logits.float()).to(dtype)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x = ctx.logits.float().requires_grad_()
            y = ctx.compute(x)
        (found,) = torch.autograd.grad(y, x, grad.float())
        return found.to(ctx.logits.dtype), None, None


def fused_topk_with_score_function(
        logits, topk, use_pre_softmax, num_groups, group_topk, scaling_factor,
        score_function, expert_bias,
        routing_map_format=RoutingMapFormat.BYTEMAP, topk_indices=None,
        qb_histogram=None, qb_bin_bounds=None, qb_histogram_mode=None):
    if topk > logits.shape[1]:
        raise ValueError("topk: more than experts")
    if score_function == "softmax" and expert_bias is not None:
        raise ValueError("expert_bias with softmax")
    call = call_of(score_function, topk, routing_map_format,
                   use_pre_softmax=use_pre_softmax, group_topk=group_topk or 0,
                   scaling_factor=scaling_factor)
    call.parameters["num_groups"] = num_groups or 0
    if expert_bias is not None:
        call.inputs["expert_bias"] = expert_bias
    x = logits.detach().float()
    chosen, ranking = composite.choose(call, x)
    if qb_histogram is not None:
        if qb_bin_bounds.tolist() != [composite.LOWER, composite.UPPER]:
            raise ValueError("qb_bin_bounds")
        if qb_histogram_mode not in ("two_kernel", "fused_atomic"):
            raise ValueError("qb_histogram_mode")
        qb_histogram += composite.histogram(ranking, torch.sigmoid(x), topk)
    probs = Rounded.apply(logits,
                          lambda t: composite.weights(call, t, chosen),
                          logits.dtype)
    return probs, composite.in_format(call, chosen)


def fused_compute_score_for_moe_aux_loss(
        logits, topk, score_function,
        routing_map_format=RoutingMapFormat.BYTEMAP):
    call = call_of(score_function, topk, routing_map_format)

    def scores(t):
        s = composite.scores(t, score_function)
        if score_function != "softmax":
            s = s / (s.sum(-1, keepdim=True) + 1e-20)
        return s

    found = Rounded.apply(logits, scores, torch.float32)
    chosen = composite.map_of(composite.best(found.detach(), topk),
                              logits.shape[1])
    return composite.in_format(call, chosen), found


def fused_moe_aux_loss(probs, tokens_per_expert, total_num_tokens,
                       num_experts, topk, coeff):
    factor = num_experts * coeff / (topk * total_num_tokens**2)

    def loss(t):
        return factor * (tokens_per_expert.float() * t.sum(0)).sum()

    return Rounded.apply(probs, loss, probs.dtype)
