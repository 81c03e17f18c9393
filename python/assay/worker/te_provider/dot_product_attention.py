"""dot_product_attention: te.DotProductAttention forward and backward, by the
backend that the package chooses."""

from __future__ import annotations

import typing

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require, resolve
from assay.worker.te_provider.attention_arguments import (mask_arguments,
                                                          sequences, shaped,
                                                          slopes)
from assay.worker.torch_provider.dot_product_attention import DEFAULTS, ENUMS

ADAPTER = 1
_PATH = "transformer_engine.pytorch."
API = [_PATH + "DotProductAttention",
       _PATH + "attention.DotProductAttention",
       _PATH + "attention.dot_product_attention.DotProductAttention",
       _PATH + "attention.dot_product_attention.dot_product_attention."
       "DotProductAttention"]
# Where the package keeps what it accepts.
TABLES = {
    "qkv_format": ["cpp_extensions.fused_attn.QKVFormat"],
    "attn_mask_type": ["constants.AttnMaskTypes"],
    "softmax_type": ["cpp_extensions.fused_attn.SoftmaxType"],
    "core_attention_bias_type": ["constants.AttnBiasTypes",
                                 "cpp_extensions.fused_attn.AttnBiasType"],
}


def build(call: Call):
    kind = require(*API)
    channels = call.channels
    if call.v_channels != channels:
        channels = (channels, call.v_channels)
    arguments = {
        "num_attention_heads": call.num_attention_heads,
        "kv_channels": channels, "num_gqa_groups": call.num_gqa_groups,
        "qkv_format": call.qkv_format, **mask_arguments(call),
        "attention_type": "self" if call.q_lengths == call.kv_lengths
        else "cross",
        "softmax_scale": None if call.softmax_scale == "default"
        else call.softmax_scale,
        "softmax_type": call.softmax_type,
        "return_max_logit": call.return_max_logit}
    module = call_named(kind, arguments, DEFAULTS).to(call.device)
    modules.fill(call, module)
    return module


def forward_arguments(call: Call) -> dict[str, typing.Any]:
    found = {**sequences(call), **slopes(call),
             "checkpoint_core_attention": call.checkpoint_core_attention,
             "core_attention_bias_type": call.core_attention_bias_type}
    if "mask" in call.inputs:
        found["attention_mask"] = call.inputs["mask"]
    return found


class Attention(modules.Training):
    """Queries, keys and values come flat, one token after the other."""

    def given(self, name, step):
        tensor = super().given(name, step)
        if name in ("k", "v"):
            return shaped(self.call, tensor, self.call.kv_lengths)
        if name == "q":
            return shaped(self.call, tensor, self.call.q_lengths)
        return tensor


def run(call: Call) -> Result:
    arguments = forward_arguments(call)
    has_bias = "bias" in call.inputs

    def forward(module, leaves, options):
        bias = {"core_attention_bias": leaves["bias"]} if has_bias else {}
        answer = call_named(module.forward, {
            "query_layer": leaves["q"], "key_layer": leaves["k"],
            "value_layer": leaves["v"], **arguments, **bias},
            {"checkpoint_core_attention": False,
             "core_attention_bias_type": "no_bias"})
        names = ("out", "max_logit") if call.return_max_logit else ("out",)
        return modules.tuple_of(answer, *names)

    result = Attention(call, build(call), forward,
                       ("q", "k", "v", "bias") if has_bias else
                       ("q", "k", "v"), {"out": "d_out"},
                       scaled=False).run(**recipe_options(call))
    result.contract["defaults"] = modules.defaults_contract(require(*API),
                                                            DEFAULTS)
    result.contract["enums"] = enums()
    return result


def recipe_options(call: Call) -> dict[str, typing.Any]:
    """fp8_dpa: the recipe quantises attention itself."""
    return {} if call.recipe == "none" else {"fp8_dpa": True}


def enums() -> dict[str, list[str]]:
    """Accepted values, in the spec's order, then others; a table that is not
    there is absent, so that the comparison names it."""
    found = {}
    for name, paths in TABLES.items():
        table = next((t for t in map(resolve, (_PATH + p for p in paths))
                      if t is not None), None)
        if table is None:
            continue
        # "bshd_2bshd" and the like are layouts inside of the kernels.
        members = {str(member) for member in table if "_2" not in str(member)}
        found[name] = [m for m in ENUMS[name] if m in members] + sorted(
            members - set(ENUMS[name]))
    return found
