"""multihead_attention: projections, norms and RoPE of q and k, attention,
projection. In float32; what a module gives on, and its gradient, is rounded to
the dtype (`rounded`). Recipes quantise the operands of the projections; delayed
scaling those of a norm before it that have not been rounded."""

from __future__ import annotations

import dataclasses
import typing

import torch

from assay.worker.call import Call, Result, state_dict_contract
from assay.worker.torch_provider import dot_product_attention
from assay.worker.torch_provider.graph import Product
from assay.worker.torch_provider.recipes import (Products, histories,
                                                 products_of)
from assay.worker.torch_provider.rounding import Rounded

ADAPTER = 1
LAYER_EPS, HEAD_EPS = 1e-5, 1e-6

# NVTE's constructor, as documented.
DEFAULTS = {
    "attention_dropout": 0.1,
    "attn_mask_type": "causal",
    "return_bias": False,
    "return_layernorm_output": False,
    "input_layernorm": False,
    "attention_type": "self",
    "fuse_qkv_params": False,
    "zero_centered_gamma": False,
    "qkv_weight_interleaved": True,
    "rotary_pos_interleaved": False,
    "bias": True,
    "normalization": "LayerNorm",
    "qkv_format": "sbhd",
    "qk_norm_before_rope": False,
    "softmax_type": "vanilla",
}
NO_PARAMETERS = {"x", "encoder_output", "dy", "d_layernorm_output", "angles",
                 "bias"}


class Core(torch.autograd.Function):
    """The module dot_product_attention in a graph."""

    @staticmethod
    def forward(ctx: typing.Any, call: Call, q: torch.Tensor, k: torch.Tensor,
                v: torch.Tensor, bias: torch.Tensor | None,
                offset: torch.Tensor | None) -> torch.Tensor:
        parameters = {**call.parameters, "channels": call.kv_channels,
                      "softmax_scale": "default", "return_max_logit": False}
        given = {"q": q, "k": k, "v": v, "bias": bias}
        inputs = {name: t.to(call.torch_dtype) for name, t in given.items()
                  if t is not None}
        if offset is not None:
            inputs["softmax_offset"] = offset
        ctx.call = dataclasses.replace(call, parameters=parameters,
                                       inputs=inputs)
        zeros = torch.zeros_like(inputs["q"]).flatten(-2)
        return Core.compute(ctx.call, zeros)["out"].reshape(zeros.shape).float()

    @staticmethod
    def compute(call: Call, d_out: torch.Tensor) -> dict[str, torch.Tensor]:
        inputs = {**call.inputs, "d_out": d_out}
        return dot_product_attention.compute(
            dataclasses.replace(call, inputs=inputs))

    @staticmethod
    def backward(ctx: typing.Any, g: torch.Tensor) -> tuple[typing.Any, ...]:
        call = ctx.call
        out = Core.compute(call, g.to(call.torch_dtype))
        grads = [out[f"grad.{name}"].reshape(call.inputs[name].shape).float()
                 for name in "qkv"]
        bias = out.get("grad.bias")
        return (None, *grads, None if bias is None else bias.float(),
                out.get("grad.softmax_offset"))


def positions(call: Call, lengths: list[int]) -> torch.Tensor:
    """Of every token in its sequence."""
    if call.qkv_format == "thd":
        return torch.cat([torch.arange(n) for n in lengths]).to(call.device)
    within = torch.arange(max(lengths), device=call.device)
    if call.qkv_format == "sbhd":
        return within.repeat_interleave(len(lengths))
    return within.repeat(len(lengths))


def gemms_of(call: Call) -> dict[str, Products]:
    """Of every projection, by the name of its module."""
    names = ["qkv", "proj"]
    if call.attention_type == "cross":
        names = ["query_layer", "key_value", "proj"]
    if call.input_layernorm:
        names[0] = {"qkv": "layernorm_qkv",
                    "query_layer": "layernorm_query"}[names[0]]
    return {name: products_of(call, 1)[0] for name in names}


class Layer:
    """The module, its parameters leaves of the graph."""

    def __init__(self, call: Call, gemms: dict[str, Products]):
        self.call, self.gemms = call, gemms
        self.leaves = {name: t.detach().float().requires_grad_()
                       for name, t in call.inputs.items()}

    def rounded(self, x: torch.Tensor) -> torch.Tensor:
        return Rounded.apply(x, self.call.torch_dtype)

    def parameter(self, prefix: str, kind: str) -> torch.Tensor | None:
        """`weight` or `bias` of a projection, its parts one under another."""
        if f"{prefix}.{kind}" in self.leaves:
            return self.leaves[f"{prefix}.{kind}"]
        parts = [self.leaves[f"{prefix}.{part}_{kind}"]
                 for part in ("query", "key", "value")
                 if f"{prefix}.{part}_{kind}" in self.leaves]
        return torch.cat(parts) if parts else None

    def linear(self, x: torch.Tensor, prefix: str) -> torch.Tensor:
        return self.rounded(Product.apply(
            x, self.parameter(prefix, "weight"),
            self.parameter(prefix, "bias"), self.gemms[prefix]))

    def norm(self, x: torch.Tensor, kind: str, weight: torch.Tensor | None,
             bias: torch.Tensor | None, eps: float,
             rounds: bool = True) -> torch.Tensor:
        x = self.rounded(x)
        if kind == "LayerNorm":
            x = x - x.mean(-1, keepdim=True)
        squares = x.square()
        size = (squares.sum(-1, keepdim=True) if kind == "L2Normalization" else
                squares.mean(-1, keepdim=True))
        y = x * torch.rsqrt(size + eps)
        y = y if weight is None else y * weight
        return Rounded.apply(y if bias is None else y + bias,
                             self.call.torch_dtype, rounds)

    def layer_norm(self, x: torch.Tensor, prefix: str) -> torch.Tensor:
        """Rounded where anybody but delayed scaling sees the result."""
        rounds = (self.call.recipe != "delayed"
                  or self.call.return_layernorm_output)
        weight = self.leaves[f"{prefix}.layer_norm_weight"]
        if self.call.zero_centered_gamma:
            weight = 1 + weight
        return self.norm(x, self.call.normalization, weight,
                         self.leaves.get(f"{prefix}.layer_norm_bias"),
                         LAYER_EPS, rounds)

    def head_norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        if self.call.qk_norm_type == "none":
            return x
        return self.norm(x, self.call.qk_norm_type,
                         self.leaves.get(f"{name}.weight"),
                         self.leaves.get(f"{name}.bias"), HEAD_EPS)

    def rotated(self, x: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        """x [tokens, heads, d]: pairs turned by their angle."""
        if self.call.rotary == "none":
            return x
        angles = self.call.inputs["angles"][positions(self.call, lengths)]
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        n = 2 * angles.shape[1]
        x = self.rounded(x)
        turned, rest = x[..., :n], x[..., n:]
        if self.call.rotary_pos_interleaved:
            a, b = turned[..., 0::2], turned[..., 1::2]
        else:
            a, b = turned.chunk(2, -1)
        pair = a * cos - b * sin, b * cos + a * sin
        out = (torch.stack(pair, -1).flatten(-2)
               if self.call.rotary_pos_interleaved else torch.cat(pair, -1))
        return self.rounded(torch.cat((out, rest), -1))

    def split(self, mixed: torch.Tensor,
              counts: list[int]) -> list[torch.Tensor]:
        """Columns into heads of q, k and v (or k and v): one after another,
        or group after group."""
        call = self.call
        if call.fuse_qkv_params and call.qkv_weight_interleaved:
            groups = call.num_gqa_groups
            grouped = mixed.unflatten(-1, (groups, -1, call.kv_channels))
            parts = grouped.split([n // groups for n in counts], -2)
            return [part.flatten(-3, -2) for part in parts]
        heads = mixed.unflatten(-1, (-1, call.kv_channels))
        return list(heads.split(counts, -2))

    def project(self) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        call, x, z = self.call, self.rounded(self.leaves["x"]), None
        heads, groups = call.num_attention_heads, call.num_gqa_groups
        cross = call.attention_type == "cross"
        prefix = "query_layer" if cross else "qkv"
        if call.input_layernorm:
            prefix = "layernorm_query" if cross else "layernorm_qkv"
            x = z = self.layer_norm(x, prefix)
        first = self.linear(x, prefix)
        if not cross:
            return self.split(first, [heads, groups, groups]), z
        second = self.linear(self.rounded(self.leaves["encoder_output"]),
                             "key_value")
        return [first.unflatten(-1, (heads, -1)),
                *self.split(second, [groups, groups])], z

    def forward(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        call = self.call
        (q, k, v), z = self.project()
        if call.qk_norm_before_rope:
            q, k = self.head_norm(q, "q_norm"), self.head_norm(k, "k_norm")
        q = self.rotated(q, call.q_lengths)
        k = self.rotated(k, call.kv_lengths)
        if not call.qk_norm_before_rope:
            q, k = self.head_norm(q, "q_norm"), self.head_norm(k, "k_norm")
        core = Core.apply(call, q, k, v, self.leaves.get("bias"),
                          self.leaves.get("core_attention.softmax_offset"))
        return self.linear(core, "proj"), z


def shaped(call: Call, t: torch.Tensor) -> torch.Tensor:
    return dot_product_attention.shaped(call, t, call.q_lengths)


def run_step(call: Call, step: int, result: Result,
             gemms: dict[str, Products]) -> None:
    layer = Layer(call, gemms)
    y, z = layer.forward()
    for gemm in gemms.values():
        gemm.update_forward()
    loss = (y * call.inputs["dy"].float()).sum()
    values = {"y": shaped(call, y)}
    if call.return_layernorm_output:
        loss = loss + (z * call.inputs["d_layernorm_output"].float()).sum()
        values["layernorm_output"] = shaped(call, z)
    loss.backward()
    for gemm in gemms.values():
        gemm.update_backward()
    grads = {name: leaf.grad for name, leaf in layer.leaves.items()
             if leaf.grad is not None}
    values["grad.x"] = shaped(call, grads["x"])
    if "bias" in grads:
        values["grad.bias"] = grads["bias"]
    if "encoder_output" in grads:
        values["grad.encoder_output"] = dot_product_attention.shaped(
            call, grads["encoder_output"], call.kv_lengths)
    for name, value in values.items():
        result.outputs[call.step_name(name, step)] = value.to(
            call.torch_dtype)
    for name, t in parameters_of(call).items():
        result.outputs[f"grad.{name}"] = grads[name].to(t.dtype)


def parameters_of(call: Call) -> dict[str, torch.Tensor]:
    return {name: t for name, t in call.inputs.items()
            if name not in NO_PARAMETERS}


def run(call: Call) -> Result:
    dot_product_attention.check(call)
    result, gemms = Result(), gemms_of(call)
    for step in range(1, call.steps + 1):
        run_step(call, step, result, gemms)
    kept = parameters_of(call)
    for name, gemm in gemms.items():
        kept.update(histories([gemm], f"{name}."))
    result.contract = {"defaults": DEFAULTS,
                       "state_dict": state_dict_contract(kept)}
    return result
