"""Attention over one sequence, from its formula: what dot_product_attention
and multihead_attention share.

    x = scale q k^T (+ bias); excluded pairs take no part
    p = exp(x - lse), lse = log(sum exp x (+ exp sink))
    out = p v
    dv = p^T g; dx = p (g v^T - delta), delta = the sum of g out over channels
    dq = scale dx k; dk = scale dx^T q; dbias = dx; dsink = -sum p_sink delta
"""

from __future__ import annotations

import dataclasses
import math

import torch


@dataclasses.dataclass
class Mask:
    """Which keys a query of a sequence sees."""

    kind: str = "no_mask"
    left: int = -1
    right: int = -1
    bottom_right: bool | str = "default"

    def offset(self, sq: int, skv: int) -> int:
        """Key that stands under query 0 on the diagonal."""
        return skv - sq if self.hangs_bottom_right() else 0

    def hangs_bottom_right(self) -> bool:
        if self.kind in ("causal", "padding_causal"):
            return False
        if self.bottom_right == "default" or "bottom_right" in self.kind:
            return True
        return bool(self.bottom_right)

    def seen(self, sq: int, skv: int, device: torch.device) -> torch.Tensor:
        """bool [sq, skv]: the pairs that take part."""
        i = torch.arange(sq, device=device)[:, None] + self.offset(sq, skv)
        j = torch.arange(skv, device=device)[None, :]
        seen = torch.ones(sq, skv, dtype=torch.bool, device=device)
        right = 0 if "causal" in self.kind else self.right
        if self.left >= 0:
            seen &= j >= i - self.left
        if right >= 0:
            seen &= j <= i + right
        return seen


def alibi_slopes(heads: int) -> list[float]:
    """Press et al., 2022: powers of 2^(-8/n), n the power of two below; the
    rest takes every other one of 2n."""
    n = 2**math.floor(math.log2(heads))
    slopes = [2**(-8 * k / n) for k in range(1, n + 1)]
    return slopes + [2**(-4 * k / n) for k in range(1, 2 *
                                                    (heads - n) + 1, 2)]


@dataclasses.dataclass
class Pass:
    """What the forward of one sequence leaves; all float32, heads first."""

    out: torch.Tensor  # [h, sq, v], as rounded to the dtype of the inputs
    logits: torch.Tensor  # [h, sq, skv], -inf where a pair takes no part
    p: torch.Tensor
    p_sink: torch.Tensor  # [h, sq, 1]
    operands: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    scale: float


def spread(t: torch.Tensor, heads: int) -> torch.Tensor:
    """Heads of keys, each as often as queries share it: query head h has the
    keys of group h // (heads / groups)."""
    return t.repeat_interleave(heads // t.shape[0], 0)


def of_group(t: torch.Tensor, groups: int) -> torch.Tensor:
    """The same way back: gradients of all who share a head."""
    return t.unflatten(0, (groups, -1)).sum(1)


def excluded_as_zero(p: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """p v where a p of exactly 0 takes no part, whatever v holds."""
    if torch.isfinite(v).all():
        return p @ v
    return torch.where(p[..., None] == 0, 0.0,
                       p[..., None] * v[..., None, :, :]).sum(-2)


def softmax(logits: torch.Tensor, seen: torch.Tensor,
            sink: torch.Tensor | None,
            ) -> tuple[torch.Tensor, torch.Tensor]:
    """p, and the share [h, sq, 1] of the sink; 0 where nothing is seen."""
    top = logits.amax(-1, keepdim=True) if logits.shape[-1] else (
        logits.new_full((*logits.shape[:2], 1), -math.inf))
    if sink is not None:
        sink = sink[:, None, None].float().expand_as(top)
        top = torch.maximum(top, sink)
    base = torch.where(torch.isneginf(top), 0.0, top)
    weights = torch.where(seen, torch.exp(logits - base), 0.0)
    rest = torch.zeros_like(base) if sink is None else torch.exp(sink - base)
    total = weights.sum(-1, keepdim=True) + rest
    safe = torch.where(total == 0, 1.0, total)
    return weights / safe, rest / safe


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float,
            seen: torch.Tensor, bias: torch.Tensor | None,
            sink: torch.Tensor | None, dtype: torch.dtype) -> Pass:
    """q [h, sq, d], k [g, skv, d], v [g, skv, dv]; seen [1 or h, sq, skv]."""
    k, v = spread(k, q.shape[0]), spread(v, q.shape[0])
    logits = scale * (q @ k.transpose(1, 2))
    if bias is not None:
        logits = logits + bias
    logits = torch.where(seen, logits, -math.inf)
    p, p_sink = softmax(logits, seen, sink)
    out = excluded_as_zero(p, v).to(dtype).float()
    return Pass(out, logits, p, p_sink, (q, k, v), scale)


@dataclasses.dataclass
class Gradients:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    logits: torch.Tensor  # [h, sq, skv]
    sink: torch.Tensor  # [h]


def backward(g: torch.Tensor, done: Pass, groups: int) -> Gradients:
    """g [h, sq, dv]."""
    q, k, v = done.operands
    p = done.p
    dp = torch.where(p == 0, 0.0, g @ v.transpose(1, 2))
    delta = (g * done.out).sum(-1, keepdim=True)
    dx = torch.where(p == 0, 0.0, p * (dp - delta))

    return Gradients(done.scale * excluded_as_zero(dx, k),
                     of_group(done.scale * (dx.transpose(1, 2) @ q), groups),
                     of_group(p.transpose(1, 2) @ g, groups), dx,
                     -(done.p_sink * delta).sum((1, 2)))
