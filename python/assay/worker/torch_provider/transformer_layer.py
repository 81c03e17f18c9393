"""transformer_layer: h = x + attention(x), y = h + mlp(h), with the changes
that the options ask for; no dropout.

Gradients that meet are added in the activations' dtype by autograd: two of
them in fp32, rounded once.
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result
from assay.worker.torch_provider import transformer_blocks as blocks
from assay.worker.torch_provider.attention import Mask
from assay.worker.torch_provider.layernorm_linear import norm_of
from assay.worker.torch_provider.layernorm_mlp import mlp_of
from assay.worker.torch_provider.linear_common import (Gradients, finish,
                                                       step_input)
from assay.worker.torch_provider.recipes import Products, products_of

ADAPTER = 1
# NVTE's constructor, as documented.
DEFAULTS = {
    "layernorm_epsilon": 1e-5,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "self_attn_mask_type": "causal",
    "enc_dec_attn_mask_type": "no_mask",
    "apply_residual_connection_post_layernorm": False,
    "output_layernorm": False,
    "parallel_attention_mlp": False,
    "drop_path_rate": 0.0,
    "fuse_qkv_params": False,
    "rotary_pos_interleaved": False,
    "zero_centered_gamma": False,
    "qkv_weight_interleaved": True,
    "bias": True,
    "activation": "gelu",
    "qk_norm_eps": 1e-6,
    "qk_norm_before_rope": False,
}


def residual(x: torch.Tensor, branch: torch.Tensor,
             bias: torch.Tensor | None) -> torch.Tensor:
    """x + (branch + bias) in fp32, rounded once."""
    added = branch.float()
    if bias is not None:
        added = added + bias.to(branch.dtype).float()
    return (x.float() + added).to(x.dtype)


class Attention:
    """Projections, attention, projection; self or cross."""

    def __init__(self, call: Call, prefix: str, gradients: Gradients,
                 has_norm: bool, cross: bool, returns_norm: bool,
                 adds_bias: bool):
        self.call, self.prefix, self.cross = call, prefix, cross
        self.gradients = gradients
        self.has_norm, self.returns_norm = has_norm, returns_norm
        self.heads, self.groups = call.num_attention_heads, call.num_gqa_groups
        self.channels = call.hidden_size // self.heads
        self.interleaved = (call.fuse_qkv_params
                            and call.qkv_weight_interleaved)
        self.products: list[tuple[str, list[Products]]] = []
        self._make_projections(adds_bias)
        self.norms = {name: self._leaf(name)
                      for name in ("q_norm.weight", "q_norm.bias",
                                   "k_norm.weight", "k_norm.bias")}

    def _leaf(self, name: str) -> torch.Tensor | None:
        found = self.call.inputs.get(self.prefix + name)
        return None if found is None else found.detach().requires_grad_()

    def _gemm(self, child: str) -> tuple[Products, blocks.Named]:
        (gemm,) = products_of(self.call, 1)
        prefix = f"{self.prefix}{child}."
        self.products.append((prefix, [gemm]))
        return gemm, blocks.Named(prefix, self.call.inputs, self.gradients)

    def _make_projections(self, adds_bias: bool) -> None:
        fused = self.call.fuse_qkv_params
        parts = [""] if fused else ["query_", "key_", "value_"]
        if self.cross:
            parts = [""] if fused else ["query_"]
        child = "layernorm_query" if self.cross else (
            "layernorm_qkv" if self.has_norm else "qkv")
        gemm, named = self._gemm(child)
        self.first = (blocks.NormLinearBlock(norm_of(
            self.call, "layernorm_epsilon"), gemm, named, parts,
            self.returns_norm) if self.has_norm
                      else blocks.LinearBlock(gemm, named, parts))
        if self.cross:
            gemm, named = self._gemm("key_value")
            self.key_value = blocks.LinearBlock(
                gemm, named, [""] if fused else ["key_", "value_"])
        gemm, named = self._gemm("proj")
        self.proj = blocks.LinearBlock(gemm, named, [""], adds_bias)

    def _heads(self, mixed: torch.Tensor,
               counts: list[int]) -> list[torch.Tensor]:
        """Columns to heads: group after group, or all of one kind first."""
        if self.interleaved:
            grouped = mixed.unflatten(
                -1, (self.groups, sum(counts) // self.groups, self.channels))
            parts = grouped.split([n // self.groups for n in counts], -2)
            return [p.flatten(-3, -2) for p in parts]
        heads = mixed.unflatten(-1, (sum(counts), self.channels))
        return list(heads.split(counts, -2))

    def _qkv(self, x: torch.Tensor, encoder: torch.Tensor | None):
        mixed, z = self.first(x)
        kv = [self.groups, self.groups]
        if not self.cross:
            return (*self._heads(mixed, [self.heads, *kv]), z)
        q = mixed.unflatten(-1, (self.heads, self.channels))
        pair, _ = self.key_value(encoder)
        return (q, *self._heads(pair, kv), z)

    def _normed(self, t: torch.Tensor, which: str) -> torch.Tensor:
        if self.call.qk_norm_type == "none":
            return t
        return blocks.head_norm(t, self.call.qk_norm_type,
                                DEFAULTS["qk_norm_eps"],
                                self.norms[f"{which}_norm.weight"],
                                self.norms[f"{which}_norm.bias"])

    def _turned(self, t: torch.Tensor, which: str) -> torch.Tensor:
        call = self.call
        if call.qk_norm_before_rope:
            t = self._normed(t, which)
        if call.rotary and not self.cross:
            t = blocks.rotate(t, 0 if call.attn_input_format == "sbhd" else 1,
                              call.rotary_pos_interleaved)
        return t if call.qk_norm_before_rope else self._normed(t, which)

    def __call__(self, x: torch.Tensor, encoder: torch.Tensor | None = None,
                 ) -> tuple[torch.Tensor, torch.Tensor]:
        q, k, v, z = self._qkv(x, encoder)
        mask = Mask("no_mask") if self.cross else Mask(
            self.call.self_attn_mask_type, self.call.window_left)
        batch_dim = 1 if self.call.attn_input_format == "sbhd" else 0
        core = blocks.attend(self._turned(q, "q"), self._turned(k, "k"), v,
                             mask, batch_dim)
        y, _ = self.proj(core)
        return y, z

    def put_rest(self) -> None:
        """Gradients that autograd has left at leaves."""
        self.proj.put_bias()
        for name, leaf in self.norms.items():
            if leaf is not None:
                self.gradients.put(self.prefix + name, leaf.detach(),
                                   leaf.grad)
                leaf.grad = None

    def bias(self) -> torch.Tensor | None:
        return self.proj.bias


class Layer:

    def __init__(self, call: Call, gradients: Gradients):
        self.call = call
        self.post = call.apply_residual_connection_post_layernorm
        parallel = call.parallel_attention_mlp
        decoder = call.layer_type == "decoder"
        if parallel and (decoder or self.post or call.output_layernorm):
            raise Refused("parallel_attention_mlp: true, expected alone")
        has_norm = not call.output_layernorm
        self.attention = Attention(call, "self_attention.", gradients,
                                   has_norm, False, self.post and has_norm,
                                   parallel)
        self.inter = Attention(call, "inter_attention.", gradients, True, True,
                               self.post, False) if decoder else None
        prefix = "layernorm_mlp."
        tensors = {name.removeprefix(prefix): t
                   for name, t in call.inputs.items()
                   if name.startswith(prefix)}
        # fc2's bias: a leaf where the residual connection adds it.
        self.fc2_bias = None if parallel else tensors.pop("fc2_bias", None)
        mlp = mlp_of(call, tensors, norm_of(call, "layernorm_epsilon"),
                     self.post)
        self.mlp = blocks.MlpBlock(mlp, prefix, gradients, parallel)
        self.gradients = gradients
        if self.fc2_bias is not None:
            self.fc2_bias = self.fc2_bias.detach().requires_grad_()
        self.norm = blocks.NormBlock(
            norm_of(call, "layernorm_epsilon"),
            blocks.Named("layernorm.", call.inputs, gradients),
        ) if call.output_layernorm else None
        self.products = [*self.attention.products,
                         *(self.inter.products if self.inter else []),
                         (prefix, mlp.products())]

    def __call__(self, x: torch.Tensor,
                 encoder: torch.Tensor | None) -> torch.Tensor:
        attended, z = self.attention(x)
        if self.call.parallel_attention_mlp:
            branch, _ = self.mlp(x)
            both = (attended.float() + branch.float()).to(x.dtype)
            return residual(x, both, None)
        through_norm = self.post and self.norm is None
        h = residual(z if through_norm else x, attended,
                     self.attention.bias())
        if self.inter:
            attended, z = self.inter(h, encoder)
            h = residual(z if self.post else h, attended, self.inter.bias())
        branch, z = self.mlp(h)
        y = residual(z if self.post else h, branch, self.fc2_bias)
        return y if self.norm is None else self.norm(y)[0]

    def put_rest(self) -> None:
        self.attention.put_rest()
        if self.inter:
            self.inter.put_rest()
        if self.fc2_bias is not None:
            self.gradients.put("layernorm_mlp.fc2_bias",
                               self.fc2_bias.detach(), self.fc2_bias.grad)
            self.fc2_bias.grad = None


def run(call: Call) -> Result:
    gradients, result = Gradients(call), Result()
    layer = Layer(call, gradients)
    gemms = [g for _, group in layer.products for g in group]
    for step in range(1, call.steps + 1):
        x = step_input(call, "x", step).detach().requires_grad_()
        encoder = None
        if call.layer_type == "decoder":
            encoder = step_input(call, "encoder_output",
                                 step).detach().requires_grad_()
        y = layer(x, encoder)
        for gemm in gemms:
            gemm.update_forward()
        y.backward(step_input(call, "dy", step))
        for gemm in gemms:
            gemm.update_backward()
        layer.put_rest()
        result.outputs[call.step_name("y", step)] = y
        result.outputs[call.step_name("grad.x", step)] = x.grad
        if encoder is not None:
            result.outputs[call.step_name("grad.encoder_output",
                                          step)] = encoder.grad
    return finish(result, gradients, blocks.block_histories(layer.products),
                  DEFAULTS)
