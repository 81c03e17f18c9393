"""transformer_layer: te.TransformerLayer forward and backward, no dropout."""

from __future__ import annotations

import typing

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require
from assay.worker.torch_provider.transformer_layer import DEFAULTS

ADAPTER = 1
API = ["transformer_engine.pytorch.TransformerLayer",
       "transformer_engine.pytorch.transformer.TransformerLayer"]
OPTIONS = ("hidden_size", "ffn_hidden_size", "num_attention_heads",
           "num_gqa_groups", "layernorm_epsilon", "self_attn_mask_type",
           "apply_residual_connection_post_layernorm", "output_layernorm",
           "parallel_attention_mlp", "layer_type", "fuse_qkv_params",
           "rotary_pos_interleaved", "zero_centered_gamma",
           "qkv_weight_interleaved", "bias", "activation", "normalization",
           "attn_input_format", "qk_norm_before_rope")


def window(call: Call) -> tuple[int, int]:
    """Causal masks end at the diagonal, the others have no right end."""
    causal = call.self_attn_mask_type.startswith("causal")
    return call.window_left, 0 if causal else -1


def build(call: Call):
    arguments: dict[str, typing.Any] = {
        "hidden_dropout": 0.0, "attention_dropout": 0.0,
        "window_size": window(call),
        **{name: call.parameters[name] for name in OPTIONS}}
    if call.qk_norm_type != "none":
        arguments["qk_norm_type"] = call.qk_norm_type
    return modules.build(call, require(*API), arguments, DEFAULTS)


def angles(call: Call):
    """The package's own table, of base 10000 over all channels."""
    kind = require("transformer_engine.pytorch.attention."
                   "RotaryPositionEmbedding",
                   "transformer_engine.pytorch.attention.rope."
                   "RotaryPositionEmbedding",
                   "transformer_engine.pytorch.RotaryPositionEmbedding")
    embedding = call_named(kind, {
        "dim": call.hidden_size // call.num_attention_heads,
        "interleaved": call.rotary_pos_interleaved}, {"interleaved": False})
    return embedding.to(call.device)(call.sequence)


def run(call: Call) -> Result:
    module = build(call)
    inputs = ("x",) if call.layer_type == "encoder" else ("x",
                                                          "encoder_output")
    rotary = {"rotary_pos_emb": angles(call)} if call.rotary else {}

    def forward(module, leaves, options):
        encoder = {"encoder_output": leaves["encoder_output"]} if (
            "encoder_output" in leaves) else {}
        return modules.tuple_of(module(leaves["x"], **encoder, **rotary), "y")

    result = modules.Training(call, module, forward, inputs).run()
    result.contract["defaults"] = modules.defaults_contract(require(*API),
                                                            DEFAULTS)
    return result
