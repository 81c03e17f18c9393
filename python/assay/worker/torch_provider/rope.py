"""rope: angles of rotary position embeddings, and rotations by them in fp32.

    out = t cos + rot(t) sin,  rot(t) = (-t2, t1) of halves, or of neighbours

Gradients are those of this formula where the two angles of a pair differ, too.
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result

ADAPTER = 1


def table(call: Call) -> torch.Tensor:
    """What RotaryPositionEmbedding gives: [length, 1, 1, rotated]."""
    rotated = int(call.head_dim * call.rotary_percent)
    places = torch.arange(0, rotated, 2, dtype=torch.float32,
                          device=call.device)
    inverse = 1.0 / call.rotary_base**(places / rotated)
    positions = torch.arange(call.max_seq_len, dtype=torch.float32,
                             device=call.device) + call.offset
    factor = call.seq_len_interpolation_factor
    trained = call.pretrained_max_position_embeddings
    if factor and trained:
        beyond = call.max_seq_len > trained * factor
        positions = positions * (1.0 / (call.max_seq_len / trained)
                                 if beyond else 1.0 / factor)
    angles = torch.outer(positions, inverse)
    both = (torch.stack((angles, angles), -1) if call.interleaved
            else torch.cat((angles, angles), -1))
    return both.reshape(call.max_seq_len, 1, 1, rotated)


def own_places(length: int, call: Call) -> torch.Tensor:
    """Of this rank's `length` tokens of one sequence: chunks r and
    2 n - 1 - r of the 2 n chunks."""
    places = torch.arange(length, device=call.device)
    if call.cp_size == 1:
        return places
    half = length // 2
    return torch.cat((
        places[:half] + call.cp_rank * half,
        places[:half] + (2 * call.cp_size - 1 - call.cp_rank) * half))


def positions(call: Call, length: int, batch: int) -> torch.Tensor:
    """The row of the table of each token: [length, batch]; -1 for tokens that
    belong to no sequence."""
    start = call.inputs.get("start_positions")
    start = (torch.zeros(batch, dtype=torch.long, device=call.device)
             if start is None else start.long())
    if call.tensor_format != "thd":
        return own_places(length, call)[:, None] + start[None, :]
    rows = torch.full((length,), -1, device=call.device)
    ends = call.inputs["cu_seqlens"].long() // call.cp_size
    for i, (begin, end) in enumerate(zip(ends[:-1].tolist(),
                                         ends[1:].tolist())):
        rows[begin:end] = own_places(end - begin, call)
        if start.numel() > i:
            rows[begin:end] += start[i]
    return rows[:, None]


def half_turn(t: torch.Tensor, interleaved: bool) -> torch.Tensor:
    if interleaved:
        pairs = t.unflatten(-1, (-1, 2))
        return torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2)
    first, second = t.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotate(t: torch.Tensor, angles: torch.Tensor,
           interleaved: bool) -> torch.Tensor:
    """t [s, b, h, d] by angles [s, b, 1, d2]; dimensions from d2 on stay."""
    d2 = angles.shape[-1]
    turned, kept = t[..., :d2], t[..., d2:]
    turned = (turned * torch.cos(angles)
              + half_turn(turned, interleaved) * torch.sin(angles))
    return torch.cat((turned, kept), -1)


def turn_back(d: torch.Tensor, angles: torch.Tensor,
              interleaved: bool) -> torch.Tensor:
    """The transpose: rot is antisymmetric."""
    d2 = angles.shape[-1]
    turned, kept = d[..., :d2], d[..., d2:]
    turned = (turned * torch.cos(angles)
              - half_turn(turned * torch.sin(angles), interleaved))
    return torch.cat((turned, kept), -1)


class Rotation:
    """Of tensors [s, b, h, d], [b, s, h, d] or [t, 1, h, d] by the rows of a
    table that their tokens use."""

    def __init__(self, call: Call, shape: torch.Size):
        self.call = call
        self.turned = call.tensor_format == "bshd"
        s, b = (shape[1], shape[0]) if self.turned else (shape[0], shape[1])
        self.rows = positions(call, s, b)

    def angles(self, freqs: torch.Tensor) -> torch.Tensor:
        beyond = self.rows[self.rows >= freqs.shape[0]]
        if beyond.numel():
            raise Refused(f"position {int(beyond[0])}, the table has "
                          f"{freqs.shape[0]} rows")
        return freqs[self.rows.clamp(min=0), 0]

    def apply(self, how, t: torch.Tensor,
              freqs: torch.Tensor) -> torch.Tensor:
        t32 = t.float().transpose(0, 1) if self.turned else t.float()
        out = how(t32, self.angles(freqs), self.call.interleaved)
        inside = (self.rows >= 0)[..., None, None]
        out = torch.where(inside, out, torch.zeros_like(out)).to(t.dtype)
        return out.transpose(0, 1) if self.turned else out


def run_one(call: Call, result: Result) -> None:
    t, freqs = call.inputs["t"], call.inputs["freqs"]
    rotation = Rotation(call, t.shape)
    result.outputs["y"] = rotation.apply(rotate, t, freqs)
    result.outputs["grad.t"] = rotation.apply(turn_back, call.inputs["dy"],
                                              freqs)


def run_qkv(call: Call, result: Result) -> None:
    """[s, b, groups, q k v], with several heads of q in a group."""
    qkv, dim = call.inputs["qkv"], call.head_dim
    freqs = {"q": call.inputs["freqs"], "k": call.inputs["k_freqs"]}
    rotation = Rotation(call, qkv.shape)
    q, k, v = qkv.split((call.q_per_group * dim, dim, dim), -1)
    q = q.reshape(*q.shape[:2], q.shape[2] * call.q_per_group, dim)
    result.outputs["q"] = rotation.apply(rotate, q, freqs["q"])
    result.outputs["k"] = rotation.apply(rotate, k, freqs["k"])
    result.outputs["v"] = v
    dq = rotation.apply(turn_back, call.inputs["dq"], freqs["q"])
    dk = rotation.apply(turn_back, call.inputs["dk"], freqs["k"])
    dq = dq.reshape(*k.shape[:3], call.q_per_group * dim)
    result.outputs["grad.qkv"] = torch.cat((dq, dk, call.inputs["dv"]), -1)


def run(call: Call) -> Result:
    if int(call.head_dim * call.rotary_percent) % 2:
        raise Refused(f"head_dim {call.head_dim}: an odd number is rotated")
    if call.tensor_format not in ("sbhd", "bshd", "thd"):
        raise Refused(f"tensor_format {call.tensor_format}")
    if not 0 <= call.cp_rank < call.cp_size:
        raise Refused(f"cp_rank {call.cp_rank} of {call.cp_size}")
    result = Result()
    result.outputs["freqs"] = table(call)
    (run_qkv if call.fused_qkv else run_one)(call, result)
    result.contract["defaults"] = {
        "rotary_percent": 1.0,
        "seq_len_interpolation_factor": None,
        "pretrained_max_position_embeddings": None,
        "rotary_base": 10000.0,
        "interleaved": False,
    }
    return result
