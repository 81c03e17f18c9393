"""torch's side of the rotary rows: the usual composition, bf16 [s, b, h, d],
with cosines and sines made beforehand."""

import torch

SHAPE = (4096, 2, 16, 128)


def angles(interleaved):
    s, _, _, d = SHAPE
    inverse = 10000.0 ** (-torch.arange(0, d, 2).float() / d)
    freqs = torch.outer(torch.arange(s).float(), inverse)
    freqs = (freqs.repeat_interleave(2, -1) if interleaved
             else torch.cat((freqs, freqs), -1))
    return freqs[:, None, None, :]


def half(t):
    a, b = t.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def pairs(t):
    return torch.stack((-t[..., 1::2], t[..., ::2]), dim=-1).flatten(-2)


def forward(interleaved):
    t = torch.randn(SHAPE).bfloat16()
    freqs = angles(interleaved)
    cos, sin = freqs.cos().bfloat16(), freqs.sin().bfloat16()
    turn = pairs if interleaved else half
    return lambda: t * cos + turn(t) * sin


def backward():
    t = torch.randn(SHAPE).bfloat16()
    freqs = angles(False)
    cos, sin = freqs.cos().bfloat16(), freqs.sin().bfloat16()
    return lambda: t * cos - half(t * sin)


PEERS = {
    "rope_forward_bf16": lambda: forward(False),
    "rope_backward_bf16": backward,
    "rope_interleaved_bf16": lambda: forward(True),
}
