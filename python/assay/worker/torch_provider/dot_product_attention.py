"""dot_product_attention: softmax(scale q k^T + bias, mask) v, sequence by
sequence (formulas in attention.py), in float32, each result rounded once."""

from __future__ import annotations

import math
import typing

import torch

from assay.worker.call import Call, Refused, Result, Unsupported
from assay.worker.torch_provider import attention

ADAPTER = 1
API = ["torch.nn.functional.scaled_dot_product_attention"]

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


class Rows:
    """Where the tokens of each sequence lie in [.., heads, dim]."""

    def __init__(self, call: Call, lengths: list[int]):
        self.format = call.qkv_format
        padding = call.attn_mask_type.startswith("padding")
        whole = max(lengths)
        self.lengths = lengths if padding or self.format == "thd" else (
            [whole] * len(lengths))
        slack = 3 if self.format == "thd" and call.pad_between_seqs else 0
        self.begins = [sum(lengths[:b]) + b * slack
                       for b in range(len(lengths))]

    def of(self, t: torch.Tensor, b: int) -> torch.Tensor:
        """A view [tokens, heads, dim] of sequence b."""
        n = self.lengths[b]
        if self.format == "thd":
            return t[self.begins[b]:self.begins[b] + n]
        return t[:n, b] if self.format == "sbhd" else t[b, :n]


def heads_first(t: torch.Tensor) -> torch.Tensor:
    return t.float().transpose(0, 1)


def plane(t: torch.Tensor, b: int) -> torch.Tensor:
    """Sequence b of [1 or batch, 1 or heads, sq, skv]."""
    return t[b if t.shape[0] > 1 else 0]


class Problem:
    """The case, for all its sequences."""

    def __init__(self, call: Call):
        self.call = call
        self.q_rows = Rows(call, call.q_lengths)
        self.kv_rows = Rows(call, call.kv_lengths)
        self.mask = attention.Mask(call.attn_mask_type, call.window_left,
                                   call.window_right,
                                   call.bottom_right_diagonal)
        self.scale = (1 / math.sqrt(call.channels) if call.softmax_scale
                      == "default" else call.softmax_scale)
        self.heads = call.num_attention_heads
        self.groups = call.num_gqa_groups

    def seen(self, b: int, sq: int, skv: int) -> torch.Tensor:
        seen = self.mask.seen(sq, skv, self.call.device)[None]
        given = self.call.inputs.get("mask")
        return seen if given is None else seen & ~plane(given.bool(), b)

    def bias(self, b: int, sq: int, skv: int) -> torch.Tensor | None:
        kind = self.call.core_attention_bias_type
        if kind == "no_bias":
            return None
        if kind == "alibi":
            return self.alibi(b, sq, skv)
        given = plane(self.call.inputs["bias"], b).float()[:, :sq, :skv]
        return self.scale * given if kind == "pre_scale_bias" else given

    def alibi(self, b: int, sq: int, skv: int) -> torch.Tensor:
        slopes = self.call.inputs.get("alibi_slopes")
        if slopes is None:
            slopes = torch.tensor(attention.alibi_slopes(self.heads),
                                  device=self.call.device)
        else:
            slopes = slopes[b if slopes.shape[0] > 1 else 0]
        i = torch.arange(sq, device=self.call.device)[:, None]
        j = torch.arange(skv, device=self.call.device)[None, :]
        far = (i + self.mask.offset(sq, skv) - j).abs()
        return -slopes.float()[:, None, None] * far

    def sink(self) -> torch.Tensor | None:
        if self.call.softmax_type == "vanilla":
            return None
        if self.call.softmax_type == "learnable":
            return self.call.inputs["softmax_offset"].float()
        return torch.zeros(self.heads, device=self.call.device)


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
    check(call)
    if call.recipe != "none":
        raise Unsupported(f"recipe {call.recipe}")
    result = Result()
    gradients = compute(call)
    for step in range(1, call.steps + 1):
        for name, tensor in gradients.items():
            if name != "grad.softmax_offset":
                name = call.step_name(name, step)
            result.outputs[name] = tensor
    offset = call.inputs.get("softmax_offset")
    result.contract = {
        "defaults": DEFAULTS, "enums": ENUMS,
        "state_dict": {} if offset is None else
        {"softmax_offset": ["float32", [call.num_attention_heads]]}}
    return result


def shaped(call: Call, t: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """[tokens, heads, dim] as the format has it, the strides kept."""
    if call.qkv_format == "thd":
        return t
    length = t.shape[0] // len(lengths)
    if call.qkv_format == "sbhd":
        return t.unflatten(0, (length, len(lengths)))
    return t.unflatten(0, (len(lengths), length))


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


def put(rows: torch.Tensor, heads: torch.Tensor) -> None:
    rows.copy_(heads.transpose(0, 1))


def add_to_plane(total: torch.Tensor, b: int, dx: torch.Tensor) -> None:
    """Sums over what a bias of one sequence or one head is shared by."""
    to = plane(total, b)
    part = dx.sum(0, keepdim=True) if to.shape[0] == 1 else dx
    to[:, :dx.shape[1], :dx.shape[2]] += part
