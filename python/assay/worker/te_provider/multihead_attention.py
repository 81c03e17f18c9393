"""multihead_attention: te.MultiheadAttention forward and backward."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require
from assay.worker.te_provider.attention_arguments import (mask_arguments,
                                                          sequences, shaped)
from assay.worker.torch_provider.multihead_attention import DEFAULTS

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
API = [_PATH + "MultiheadAttention",
       _PATH + "attention.MultiheadAttention",
       _PATH + "attention.multi_head_attention.MultiheadAttention"]
OPTIONS = ("num_attention_heads", "num_gqa_groups", "kv_channels",
           "attention_type", "input_layernorm", "return_layernorm_output",
           "normalization", "zero_centered_gamma", "fuse_qkv_params",
           "qkv_weight_interleaved", "bias", "rotary_pos_interleaved",
           "qk_norm_before_rope", "softmax_type", "qkv_format")


def build(call: Call):
    arguments = {"hidden_size": call.hidden_size, "attention_dropout": 0.0,
                 **mask_arguments(call),
                 **{name: call.parameters[name] for name in OPTIONS}}
    if call.qk_norm_type != "none":
        arguments["qk_norm_type"] = call.qk_norm_type
    return modules.build(call, require(*API), arguments, DEFAULTS)


def table(call: Call, lengths: list[int]) -> torch.Tensor:
    """Angles of the pairs as RotaryPositionEmbedding lays them out."""
    angles = call.inputs["angles"][:max(lengths)]
    both = (angles.repeat_interleave(2, -1) if call.rotary_pos_interleaved
            else torch.cat((angles, angles), -1))
    return both[:, None, None, :].contiguous()


def forward_arguments(call: Call) -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = {
        **sequences(call),
        "checkpoint_core_attention": call.checkpoint_core_attention,
        "core_attention_bias_type": call.core_attention_bias_type}
    if call.rotary != "none":
        found["rotary_pos_emb"] = (table(call, call.q_lengths),
                                   table(call, call.kv_lengths))
    return found


class Attention(modules.Training):
    """Tokens come flat, one after the other."""

    def given(self, name, step):
        tensor = super().given(name, step)
        if name == "bias":
            return tensor
        lengths = (self.call.kv_lengths if name == "encoder_output"
                   else self.call.q_lengths)
        return shaped(self.call, tensor, lengths)


def run(call: Call) -> Result:
    arguments = forward_arguments(call)
    inputs = ["x"] + [name for name in ("encoder_output", "bias")
                      if name in call.inputs
                      and (name != "encoder_output"
                           or call.attention_type == "cross")]
    places = {"x": "hidden_states", "encoder_output": "encoder_output",
              "bias": "core_attention_bias"}

    def forward(module, leaves, options):
        given = {places[name]: leaf for name, leaf in leaves.items()}
        answer = call_named(module.forward, {**given, **arguments},
                            {"checkpoint_core_attention": False,
                             "core_attention_bias_type": "no_bias"})
        return modules.tuple_of(answer, *modules.returned(call, "y"))

    gradients = {"y": "dy"}
    if call.return_layernorm_output:
        gradients["layernorm_output"] = "d_layernorm_output"
    result = Attention(call, build(call), forward, inputs, gradients,
                       scaled=False).run()
    result.contract["defaults"] = modules.defaults_contract(require(*API),
                                                            DEFAULTS)
    return result
