"""dot_product_attention: softmax(scale q k^T + bias, mask) v, sequence by
sequence (formulas in attention.py), in float32, each result rounded once."""

from __future__ import annotations

import math
import typing

import torch

from assay.worker.call import Call, Refused, Result, state_dict_contract
from assay.worker.torch_provider import attention, attention_fp8
from assay.worker.torch_provider.attention_problem import (Problem,
                                                           heads_first, plane,
                                                           put, shaped)

ADAPTER = 1

# NVTE's constructor, as documented.
DEFAULTS = {
    "num_gqa_groups": None,
    "attention_dropout": 0.0,
    "qkv_format": "sbhd",
    "attn_mask_type": "causal",
    "bottom_right_diagonal": None,
    "attention_type": "self",
    "softmax_scale": None,
    "softmax_type": "vanilla",
    "return_max_logit": False,
}

ENUMS = {
    "qkv_format": ["sbhd", "bshd", "thd"],
    "attn_mask_type": ["no_mask", "padding", "causal", "padding_causal",
                       "causal_bottom_right", "padding_causal_bottom_right",
                       "arbitrary"],
    "softmax_type": ["vanilla", "off-by-one", "learnable"],
    "core_attention_bias_type": ["no_bias", "pre_scale_bias",
                                 "post_scale_bias", "alibi"],
}


def check(call: Call) -> None:
    """Refuses what every implementation must."""
    for name, allowed in ENUMS.items():
        if getattr(call, name) not in allowed:
            raise Refused(f"{name}: {getattr(call, name)}")
    if call.num_attention_heads % call.num_gqa_groups:
        raise Refused("num_gqa_groups: no divisor of num_attention_heads")
    if min(call.window_left, call.window_right) < -1:
        raise Refused("window_size: below -1")


def run(call: Call) -> Result:
    """Without a recipe every step gives the same."""
    check(call)
    result, kept = Result(), {}
    if call.recipe == "none":
        steps = [compute(call)] * call.steps
    else:
        quantizers = attention_fp8.Quantizers(call)
        steps = [attention_fp8.compute(call, quantizers)
                 for _ in range(call.steps)]
        kept = quantizers.histories()
    for step, outputs in enumerate(steps, 1):
        for name, tensor in outputs.items():
            if name != "grad.softmax_offset":
                name = call.step_name(name, step)
            result.outputs[name] = tensor
    if "softmax_offset" in call.inputs:
        kept = {"softmax_offset": call.inputs["softmax_offset"], **kept}
    result.contract = {"defaults": DEFAULTS, "enums": ENUMS,
                       "state_dict": state_dict_contract(kept)}
    return result


def compute(call: Call) -> dict[str, torch.Tensor]:
    problem = Problem(call)
    q, k, v = (shaped(call, call.inputs[name], lengths)
               for name, lengths in (("q", call.q_lengths),
                                     ("k", call.kv_lengths),
                                     ("v", call.kv_lengths)))
    out = q.new_zeros(*q.shape[:-1], v.shape[-1])
    d_out = call.inputs["d_out"].view(out.shape)
    grads = {name: torch.zeros_like(t).contiguous()
             for name, t in (("q", q), ("k", k), ("v", v))}
    bias = call.inputs.get("bias")
    d_bias = None if bias is None else torch.zeros_like(bias).float()
    d_sink = torch.zeros(problem.heads, device=call.device)
    top = torch.full((problem.heads,), -math.inf, device=call.device)
    for b in range(len(call.q_lengths)):
        rows = [heads_first(r.of(t, b)) for r, t in
                ((problem.q_rows, q), (problem.kv_rows, k),
                 (problem.kv_rows, v))]
        size = rows[0].shape[1], rows[1].shape[1]
        done = attention.forward(*rows, problem.scale,
                                 problem.seen(b, *size),
                                 problem.bias(b, *size), problem.sink(),
                                 call.torch_dtype)
        g = attention.backward(
            heads_first(problem.q_rows.of(d_out, b)), done, problem.groups)
        put(problem.q_rows.of(out, b), done.out)
        put(problem.q_rows.of(grads["q"], b), g.q)
        put(problem.kv_rows.of(grads["k"], b), g.k)
        put(problem.kv_rows.of(grads["v"], b), g.v)
        d_sink += g.sink
        if done.logits.numel():
            top = torch.maximum(top, done.logits.amax((1, 2)))
        if d_bias is not None:
            add_to_plane(d_bias, b, g.logits * (
                problem.scale if call.core_attention_bias_type
                == "pre_scale_bias" else 1.0))
    return {"out": out.flatten(-2), "grad.q": grads["q"],
            "grad.k": grads["k"], "grad.v": grads["v"],
            **optional(call, d_bias, d_sink, top)}


def optional(call: Call, d_bias: typing.Any, d_sink: torch.Tensor,
             top: torch.Tensor) -> dict[str, torch.Tensor]:
    more = {}
    if d_bias is not None:
        more["grad.bias"] = d_bias.to(call.torch_dtype)
    if call.softmax_type == "learnable":
        more["grad.softmax_offset"] = d_sink
    if call.return_max_logit:
        more["max_logit"] = top
    return more


def add_to_plane(total: torch.Tensor, b: int, dx: torch.Tensor) -> None:
    """Sums over what a bias of one sequence or one head is shared by."""
    to = plane(total, b)
    part = dx.sum(0, keepdim=True) if to.shape[0] == 1 else dx
    to[:, :dx.shape[1], :dx.shape[2]] += part
