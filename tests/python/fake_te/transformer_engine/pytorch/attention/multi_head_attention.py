"""MultiheadAttention with NVTE's signatures, computed as a whole."""

from __future__ import annotations

import torch

from assay.worker.call import Result
from assay.worker.torch_provider import multihead_attention as composite
from transformer_engine.pytorch.attention.dot_product_attention import (
    flat, lengths)
from transformer_engine.pytorch.gemm import parameter
from transformer_engine.pytorch.provided import provided
from transformer_engine.pytorch.quantization import Regions

OPTIONS = ("num_attention_heads", "kv_channels", "attention_type",
           "input_layernorm", "return_layernorm_output", "normalization",
           "zero_centered_gamma", "fuse_qkv_params", "qkv_weight_interleaved",
           "bias", "rotary_pos_interleaved", "qk_norm_before_rope",
           "softmax_type", "qkv_format", "attn_mask_type")


def run(call):
    found = composite.run(call).outputs
    for name, leaf in call.inputs.items():
        key = f"grad.{name}"
        if key in found:
            found[key] = found[key].reshape(leaf.shape)
    return Result(found)


class Named(torch.nn.Module):
    """Parameters under a child's name."""


class MultiheadAttention(torch.nn.Module):

    def __init__(self, hidden_size, num_attention_heads, kv_channels=None,
                 attention_dropout=0.1, layernorm_epsilon=1e-05,
                 init_method=None, output_layer_init_method=None,
                 layer_number=None, attn_mask_type="causal", window_size=None,
                 bottom_right_diagonal=None, tp_group=None, tp_size=1,
                 num_gqa_groups=None, fuse_wgrad_accumulation=False,
                 get_rng_state_tracker=None, sequence_parallel=False,
                 params_dtype=None, return_bias=False,
                 return_layernorm_output=False, input_layernorm=False,
                 attention_type="self", set_parallel_mode=False,
                 fuse_qkv_params=False, zero_centered_gamma=False,
                 qkv_weight_interleaved=True, rotary_pos_interleaved=False,
                 ub_overlap_ag=False, ub_overlap_rs=False,
                 ub_overlap_rs_dgrad=False, ub_bulk_dgrad=False,
                 ub_bulk_wgrad=False, bias=True, normalization="LayerNorm",
                 device="cuda", qkv_format="sbhd", name=None,
                 qk_norm_type=None, qk_norm_eps=1e-06,
                 qk_norm_before_rope=False, seq_length=None,
                 micro_batch_size=None, softmax_type="vanilla"):
        super().__init__()
        if attention_dropout:
            raise ValueError("dropout is not comparable")
        groups = num_gqa_groups or num_attention_heads
        if num_attention_heads % groups:
            raise ValueError("num_gqa_groups: no divisor of the heads")
        if attn_mask_type not in composite.dot_product_attention.ENUMS[
                "attn_mask_type"]:
            raise ValueError(f"attn_mask_type {attn_mask_type}")
        given = locals()
        left, right = window_size or (-1, -1)
        self.options = {
            **{key: given[key] for key in OPTIONS}, "num_gqa_groups": groups,
            "qk_norm_type": qk_norm_type or "none", "window_left": left,
            "window_right": right, "recipe": "none",
            "bottom_right_diagonal": "default" if bottom_right_diagonal is None
            else bottom_right_diagonal, "pad_between_seqs": False}
        self.places = params_dtype, device
        q = num_attention_heads * kv_channels
        kv = groups * kv_channels
        cross = attention_type == "cross"
        first = {"query": q} if cross else {"query": q, "key": kv, "value": kv}
        child = "query_layer" if cross else "qkv"
        if input_layernorm:
            child = "layernorm_query" if cross else "layernorm_qkv"
            self._add(child, "layer_norm_weight", hidden_size)
            if normalization == "LayerNorm":
                self._add(child, "layer_norm_bias", hidden_size)
        self._linear(child, first, hidden_size, bias,
                     fuse_qkv_params or child == "query_layer")
        if cross:
            self._linear("key_value", {"key": kv, "value": kv}, hidden_size,
                         bias, fuse_qkv_params)
        for norm in ("q_norm", "k_norm"):
            if qk_norm_type in ("RMSNorm", "LayerNorm"):
                self._add(norm, "weight", kv_channels)
            if qk_norm_type == "LayerNorm":
                self._add(norm, "bias", kv_channels)
        if softmax_type == "learnable":
            self.places = torch.float32, device
            self._add("core_attention", "softmax_offset", num_attention_heads)
            self.places = params_dtype, device
        self._linear("proj", {"": hidden_size}, q, bias, True)

    def _add(self, child, name, *shape):
        if not hasattr(self, child):
            self.add_module(child, Named())
        getattr(self, child).register_parameter(name, parameter(
            shape, *self.places))

    def _linear(self, child, parts, columns, bias, fused):
        if fused:
            parts = {"": sum(parts.values())}
        for part, rows in parts.items():
            prefix = f"{part}_" if part else ""
            self._add(child, f"{prefix}weight", rows, columns)
            if bias:
                self._add(child, f"{prefix}bias", rows)

    def forward(self, hidden_states, attention_mask=None, encoder_output=None,
                attn_mask_type=None, window_size=None,
                bottom_right_diagonal=None, is_first_microbatch=None,
                checkpoint_core_attention=False, inference_params=None,
                rotary_pos_emb=None, core_attention_bias_type="no_bias",
                core_attention_bias=None, alibi_slopes=None,
                cu_seqlens_q=None, cu_seqlens_kv=None,
                cu_seqlens_q_padded=None, cu_seqlens_kv_padded=None,
                max_seqlen_q=None, max_seqlen_kv=None, fast_zero_fill=True,
                pad_between_seqs=None):
        if Regions.recipe() is not None:
            raise NotImplementedError("recipes")
        fmt = self.options["qkv_format"]
        batch = {"sbhd": 1, "bshd": 0}.get(fmt)
        other = hidden_states if encoder_output is None else encoder_output
        seen = {}
        for end, t, cu in (("q", hidden_states, cu_seqlens_q),
                           ("kv", other, cu_seqlens_kv)):
            seen[f"{end}_lengths"] = lengths(
                cu, None if batch is None else t.shape[1 - batch],
                None if batch is None else t.shape[batch])
        leaves = {"x": flat(hidden_states, fmt)}
        if encoder_output is not None:
            leaves["encoder_output"] = flat(encoder_output, fmt)
        if core_attention_bias is not None:
            leaves["bias"] = core_attention_bias
        leaves.update(self.named_parameters())
        dtype = str(hidden_states.dtype).removeprefix("torch.")
        options = {**self.options, **seen, "dtype": dtype, "rotary": "none",
                   "core_attention_bias_type": core_attention_bias_type}
        others = {}
        if rotary_pos_emb is not None:
            options["rotary"] = "given"
            others["angles"] = self._angles(rotary_pos_emb)
        gradients = {"y": "dy"}
        zero = torch.zeros_like(leaves["x"])
        zeros = {"dy": zero}
        if self.options["return_layernorm_output"]:
            gradients["layernorm_output"] = "d_layernorm_output"
            zeros["d_layernorm_output"] = zero
        flatly = Flat(fmt)
        return provided(flatly.run, options, leaves, others, gradients, zeros)

    def _angles(self, tables):
        """Of pairs; both tables are of the same angles."""
        longer = max(tables, key=len)[:, 0, 0]
        if self.options["rotary_pos_interleaved"]:
            return longer[:, ::2]
        return longer[:, :longer.shape[1] // 2]


class Flat:
    """The composite takes tokens in a row."""

    def __init__(self, qkv_format):
        self.format = qkv_format

    def run(self, call):
        inputs = {name: flat(t, self.format)
                  if name in ("dy", "d_layernorm_output") and t.dim() == 3
                  else t for name, t in call.inputs.items()}
        call.inputs = inputs
        return run(call)
