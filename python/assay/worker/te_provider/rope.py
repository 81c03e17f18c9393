"""rope: RotaryPositionEmbedding, apply_rotary_pos_emb on one tensor and on
packed q, k and v, by the fused kernels."""

from __future__ import annotations

import typing

import torch

from assay.worker.call import Call, Result
from assay.worker.te_provider import modules
from assay.worker.te_provider.api import call_named, require

ADAPTER = 1
_PATH = "transformer_engine.pytorch.attention."
_TEX = "transformer_engine_torch."
API = ["transformer_engine.pytorch.RotaryPositionEmbedding",
       _PATH + "RotaryPositionEmbedding",
       _PATH + "rope.RotaryPositionEmbedding",
       _PATH + "rope.apply_rotary_pos_emb",
       _PATH + "rope.apply_fused_qkv_rotary_pos_emb",
       _TEX + "fused_rope_forward", _TEX + "fused_rope_backward",
       _TEX + "fused_qkv_rope_forward", _TEX + "fused_qkv_rope_backward"]
DEFAULTS = ("rotary_percent", "seq_len_interpolation_factor",
            "pretrained_max_position_embeddings", "rotary_base",
            "interleaved")


def run(call: Call) -> Result:
    kind = require(*API[:3])
    result = Result()
    result.outputs["freqs"] = table(call, kind)
    (packed if call.fused_qkv else single)(call, result)
    result.contract["defaults"] = modules.defaults_contract(kind, DEFAULTS)
    return result


def table(call: Call, kind: typing.Any) -> torch.Tensor:
    embedding = call_named(kind, {
        "dim": call.head_dim, "rotary_percent": call.rotary_percent,
        "seq_len_interpolation_factor":
            call.seq_len_interpolation_factor or None,
        "pretrained_max_position_embeddings":
            call.pretrained_max_position_embeddings or None,
        "rotary_base": call.rotary_base, "interleaved": call.interleaved},
        {"rotary_base": 10000.0, "interleaved": False})
    return embedding.to(call.device)(call.max_seq_len, offset=call.offset)


def arguments(call: Call) -> dict[str, typing.Any]:
    found = {"tensor_format": call.tensor_format}
    if "start_positions" in call.inputs:
        found["start_positions"] = call.inputs["start_positions"]
    found["interleaved"] = call.interleaved
    return found


def group(call: Call) -> dict[str, typing.Any]:
    found: dict[str, typing.Any] = {}
    if call.tensor_format == "thd":
        found["cu_seqlens"] = call.inputs["cu_seqlens"]
    return {**found, "cp_size": call.cp_size, "cp_rank": call.cp_rank}


NEUTRAL = {"interleaved": False, "cp_size": 1, "cp_rank": 0}


def single(call: Call, result: Result) -> None:
    """Packed sequences have no batch dimension in NVTE."""
    thd = call.tensor_format == "thd"
    t = call.inputs["t"].detach().requires_grad_()
    y = call_named(require(API[3], _PATH + "apply_rotary_pos_emb"), {
        "t": t.squeeze(1) if thd else t, "freqs": call.inputs["freqs"],
        **arguments(call), "fused": True, **group(call)}, NEUTRAL)
    y = y.unsqueeze(1) if thd else y
    y.backward(call.inputs["dy"])
    result.outputs.update({"y": y, "grad.t": t.grad})


def packed(call: Call, result: Result) -> None:
    qkv = call.inputs["qkv"].detach().requires_grad_()
    dim = call.head_dim
    q, k, v = call_named(require(API[4]), {
        "qkv": qkv, "q_freqs": call.inputs["freqs"],
        "k_freqs": call.inputs["k_freqs"],
        "qkv_split_arg_list": [call.q_per_group * dim, dim, dim],
        **arguments(call), **group(call)}, NEUTRAL)
    given = [call.inputs[name] for name in ("dq", "dk", "dv")]
    torch.autograd.backward(
        [q, k, v], [d.reshape(t.shape) for t, d in zip((q, k, v), given)])
    for name, t, d in zip("qkv", (q, k, v), given):
        result.outputs[name] = t.reshape(d.shape)
    result.outputs["grad.qkv"] = qkv.grad
