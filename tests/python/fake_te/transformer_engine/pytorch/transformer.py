"""TransformerLayer with NVTE's signatures, computed as a whole."""

from __future__ import annotations

import torch

from assay.worker.torch_provider import transformer_layer as composite
from transformer_engine.pytorch.attention import MultiheadAttention
from transformer_engine.pytorch.module import (LayerNorm, LayerNormMLP,
                                               RMSNorm)
from transformer_engine.pytorch.provided import provided
from transformer_engine.pytorch.quantization import Regions

OPTIONS = ("hidden_size", "num_attention_heads", "layernorm_epsilon",
           "self_attn_mask_type", "apply_residual_connection_post_layernorm",
           "output_layernorm", "parallel_attention_mlp", "layer_type",
           "fuse_qkv_params", "rotary_pos_interleaved", "zero_centered_gamma",
           "qkv_weight_interleaved", "bias", "activation", "normalization",
           "attn_input_format", "qk_norm_before_rope")


class TransformerLayer(torch.nn.Module):

    def __init__(self, hidden_size, ffn_hidden_size, num_attention_heads,
                 num_gqa_groups=None, layernorm_epsilon=1e-05,
                 hidden_dropout=0.1, attention_dropout=0.1, init_method=None,
                 output_layer_init_method=None, layer_number=None,
                 kv_channels=None, self_attn_mask_type="causal",
                 window_size=None, bottom_right_diagonal=None,
                 enc_dec_attn_mask_type="no_mask",
                 enc_dec_bottom_right_diagonal=None, enc_dec_window_size=None,
                 tp_group=None, tp_size=1, params_dtype=None,
                 get_rng_state_tracker=None, fuse_wgrad_accumulation=False,
                 seq_length=None, micro_batch_size=None,
                 sequence_parallel=False,
                 apply_residual_connection_post_layernorm=False,
                 output_layernorm=False, parallel_attention_mlp=False,
                 layer_type="encoder", drop_path_rate=0.0,
                 set_parallel_mode=False, fuse_qkv_params=False,
                 rotary_pos_interleaved=False, zero_centered_gamma=False,
                 qkv_weight_interleaved=True, ub_tp_comm_overlap=False,
                 ub_overlap_ag=True, ub_overlap_rs=True,
                 ub_overlap_rs_dgrad=False, ub_bulk_dgrad=True,
                 ub_bulk_wgrad=True, bias=True, activation="gelu",
                 activation_params=None, normalization="LayerNorm",
                 device="cuda", attn_input_format="sbhd", name=None,
                 qk_norm_type=None, qk_norm_eps=1e-06,
                 qk_norm_before_rope=False, softmax_type="vanilla"):
        super().__init__()
        if hidden_dropout or attention_dropout:
            raise ValueError("dropout is not comparable")
        if parallel_attention_mlp and layer_type == "decoder":
            raise ValueError("parallel_attention_mlp of a decoder")
        given = locals()
        causal = self_attn_mask_type.startswith("causal")
        if window_size[1] != (0 if causal else -1):
            raise ValueError(f"window_size {window_size}")
        self.options = {**{key: given[key] for key in OPTIONS},
                        "num_gqa_groups": num_gqa_groups,
                        "qk_norm_type": qk_norm_type or "none",
                        "window_left": window_size[0], "recipe": "none"}
        places = {"params_dtype": params_dtype, "device": device}
        shared = {"kv_channels": hidden_size // num_attention_heads,
                  "attention_dropout": 0.0, "num_gqa_groups": num_gqa_groups,
                  "fuse_qkv_params": fuse_qkv_params, "bias": bias,
                  "qk_norm_type": qk_norm_type, **places,
                  "normalization": normalization}
        self.self_attention = MultiheadAttention(
            hidden_size, num_attention_heads,
            input_layernorm=not output_layernorm, **shared)
        if layer_type == "decoder":
            self.inter_attention = MultiheadAttention(
                hidden_size, num_attention_heads, input_layernorm=True,
                attention_type="cross", **shared)
        self.layernorm_mlp = LayerNormMLP(
            hidden_size, ffn_hidden_size, activation=activation, bias=bias,
            normalization=normalization, **places)
        if output_layernorm:
            kind = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}[normalization]
            self.layernorm = kind(hidden_size, **places)

    def forward(self, hidden_states, attention_mask=None,
                self_attn_mask_type=None, window_size=None,
                bottom_right_diagonal=None, encoder_output=None,
                enc_dec_attn_mask=None, enc_dec_attn_mask_type=None,
                enc_dec_window_size=None, enc_dec_bottom_right_diagonal=None,
                is_first_microbatch=None, checkpoint_core_attention=False,
                inference_params=None, rotary_pos_emb=None,
                core_attention_bias_type="no_bias", core_attention_bias=None,
                alibi_slopes=None, cu_seqlens_q=None, cu_seqlens_kv=None,
                cu_seqlens_q_padded=None, cu_seqlens_kv_padded=None,
                max_seqlen_q=None, max_seqlen_kv=None, fast_zero_fill=True,
                pad_between_seqs=None):
        if Regions.recipe() is not None:
            raise NotImplementedError("recipes")
        leaves = {"x": hidden_states}
        if encoder_output is not None:
            leaves["encoder_output"] = encoder_output
        leaves.update(self.named_parameters())
        return provided(
            composite.run, {
                **self.options, "rotary": rotary_pos_emb is not None,
                "dtype": str(hidden_states.dtype).removeprefix("torch.")},
            leaves, {}, {"y": "dy"}, {"dy": torch.zeros_like(hidden_states)})
