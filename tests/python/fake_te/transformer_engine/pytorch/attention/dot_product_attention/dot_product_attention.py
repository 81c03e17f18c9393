"""DotProductAttention with NVTE's signatures."""

from __future__ import annotations

import torch

from assay.worker.call import Result
from assay.worker.torch_provider import dot_product_attention as composite
from transformer_engine.pytorch.provided import provided
from transformer_engine.pytorch.quantization import Regions


def flat(t, qkv_format):
    return t if qkv_format == "thd" else t.flatten(0, 1)


def lengths(cu_seqlens, whole, batch):
    if cu_seqlens is None:
        return [whole] * batch
    return (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()


def run(call):
    found = composite.compute(call)
    for name in ("q", "k", "v"):
        found[f"grad.{name}"] = found[f"grad.{name}"].reshape(
            call.inputs[name].shape)
    return Result(found)


class DotProductAttention(torch.nn.Module):

    def __init__(self, num_attention_heads, kv_channels, num_gqa_groups=None,
                 attention_dropout=0.0, qkv_format="sbhd",
                 attn_mask_type="causal", window_size=None,
                 bottom_right_diagonal=None, sequence_parallel=False,
                 tp_size=1, get_rng_state_tracker=None, tp_group=None,
                 layer_number=None, attention_type="self", cp_group=None,
                 cp_global_ranks=None, cp_stream=None, cp_comm_type="p2p",
                 softmax_scale=None, softmax_type="vanilla",
                 return_max_logit=False, name=None):
        super().__init__()
        groups = num_gqa_groups or num_attention_heads
        if num_attention_heads % groups:
            raise ValueError("num_gqa_groups: no divisor of the heads")
        if attn_mask_type not in composite.ENUMS["attn_mask_type"]:
            raise ValueError(f"attn_mask_type {attn_mask_type}")
        if window_size is not None and min(window_size) < -1:
            raise ValueError(f"window_size {window_size}")
        channels = (kv_channels[0] if isinstance(kv_channels, tuple)
                    else kv_channels)
        left, right = window_size or (-1, -1)
        self.options = {
            "num_attention_heads": num_attention_heads,
            "num_gqa_groups": groups, "channels": channels,
            "qkv_format": qkv_format, "attn_mask_type": attn_mask_type,
            "window_left": left, "window_right": right,
            "bottom_right_diagonal": "default" if bottom_right_diagonal is None
            else bottom_right_diagonal,
            "softmax_scale": "default" if softmax_scale is None
            else softmax_scale,
            "softmax_type": softmax_type,
            "return_max_logit": return_max_logit}
        if softmax_type == "learnable":
            self.softmax_offset = torch.nn.Parameter(
                torch.zeros(num_attention_heads))

    def forward(self, query_layer=None, key_layer=None, value_layer=None,
                attention_mask=None, qkv_format=None, cu_seqlens_q=None,
                cu_seqlens_kv=None, cu_seqlens_q_padded=None,
                cu_seqlens_kv_padded=None, max_seqlen_q=None,
                max_seqlen_kv=None, attn_mask_type=None, window_size=None,
                bottom_right_diagonal=None, checkpoint_core_attention=False,
                core_attention_bias_type="no_bias", core_attention_bias=None,
                alibi_slopes=None, fast_zero_fill=True, inference_params=None,
                pad_between_seqs=None, fp8_output=False, bf16_backward=False,
                num_splits=1, score_mod=None, score_mod_bprop=None,
                score_mod_tensors=None, score_mod_bprop_tensors=None,
                qkv_layer=None, kv_layer=None, qkv_interleave_dim=-3):
        if Regions.recipe() is not None and Regions.recipe().fp8_dpa:
            raise NotImplementedError("fp8_dpa")
        fmt = self.options["qkv_format"]
        batch = {"sbhd": 1, "bshd": 0}.get(fmt)
        given = {}
        for end, t, cu in (("q", query_layer, cu_seqlens_q),
                           ("kv", key_layer, cu_seqlens_kv)):
            given[f"{end}_lengths"] = lengths(
                cu, None if batch is None else t.shape[1 - batch],
                None if batch is None else t.shape[batch])
        padded = cu_seqlens_q_padded is not None
        leaves = {name: flat(t, fmt) for name, t in
                  zip("qkv", (query_layer, key_layer, value_layer))}
        if core_attention_bias is not None:
            leaves["bias"] = core_attention_bias
        if self.options["softmax_type"] == "learnable":
            leaves["softmax_offset"] = self.softmax_offset
        others = {}
        if attention_mask is not None:
            others["mask"] = attention_mask
        if alibi_slopes is not None:
            others["alibi_slopes"] = (alibi_slopes if alibi_slopes.dim() == 2
                                      else alibi_slopes[None])
        gradients = {"out": "d_out"}
        if self.options["return_max_logit"]:
            gradients["max_logit"] = "no gradient"
        whole = (*query_layer.shape[:-2],
                 query_layer.shape[-2] * value_layer.shape[-1])
        return provided(
            run, {**self.options, **given, "pad_between_seqs": padded,
                  "core_attention_bias_type": core_attention_bias_type,
                  "dtype": str(query_layer.dtype).removeprefix("torch.")},
            leaves, others, gradients,
            {"d_out": query_layer.new_zeros(whole)})
