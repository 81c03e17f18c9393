"""npu_fusion_attention: softmax(mask(scale (q k^T + pse))) v."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch

from assay.worker.api_call.fused.checks import only
from assay.worker.call import Unsupported

Tensor = torch.Tensor
_NAME = "npu_fusion_attention"
_COPIES = 8  # of each maximum and sum, as the operator stores them


def npu_fusion_attention(
        query: Tensor, key: Tensor, value: Tensor, head_num: int,
        input_layout: str, pse: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        atten_mask: Optional[Tensor] = None, scale: float = 1.0,
        keep_prob: float = 1.0, pre_tockens: int = 2147483647,
        next_tockens: int = 2147483647, inner_precise: int = 0,
        prefix: Optional[Sequence[int]] = None,
        actual_seq_qlen: Optional[Sequence[int]] = None,
        actual_seq_kvlen: Optional[Sequence[int]] = None,
        sparse_mode: int = 0, gen_mask_parallel: bool = True,
        sync: bool = False, softmax_layout: str = "",
        sink: Optional[Tensor] = None) -> tuple[Any, ...]:
    """The output; maximum and sum of the softmax; an empty tensor; seed,
    offset and size of a dropout mask that is not drawn."""
    only(_NAME, padding_mask=padding_mask, prefix=prefix, sink=sink)
    if keep_prob != 1.0:
        raise Unsupported(f"{_NAME}: no golden with keep_prob: it draws its "
                          "mask itself")
    band = (pre_tockens, next_tockens) if sparse_mode == 4 else None

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        hidden = _hidden(atten_mask, sparse_mode, band, q, k)
        return _attention(q, k, v, scale, pse, hidden)

    if input_layout == "TND":
        only(_NAME, pse=pse)
        if actual_seq_qlen is None or actual_seq_kvlen is None:
            raise ValueError("TND: expected actual_seq_qlen, actual_seq_kvlen")
        y, peak, total, size = _of_lengths(
            attend, query, key, value, actual_seq_qlen, actual_seq_kvlen)
        if softmax_layout != "TND":  # heads outermost in memory
            peak, total = (_heads_outermost(each) for each in (peak, total))
    else:
        q, k, v = (_heads_first(each, input_layout, head_num, query)
                   for each in (query, key, value))
        y, peak, total = attend(q, k, v)
        size = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
        y = _as_given(y, input_layout)
    peak, total = (each.unsqueeze(-1).expand(*each.shape, _COPIES)
                   for each in (peak, total))
    return y, peak, total, torch.empty(0, device=y.device), 0, 0, size


def _heads_first(x: Tensor, layout: str, heads: int,
                 query: Tensor) -> Tensor:
    """(batch, head, sequence, element)."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout not in ("BSH", "SBH"):
        raise ValueError(f"input_layout: {layout!r}, expected BSH, SBH, BSND, "
                         "BNSD or TND")
    x = x if layout == "BSH" else x.transpose(0, 1)
    size = query.shape[-1] // heads  # of one head; keys may have fewer
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def _as_given(y: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return y
    y = y.transpose(1, 2)
    if layout == "BSND":
        return y
    y = y.flatten(-2)
    return y if layout == "BSH" else y.transpose(0, 1)


def _hidden(mask: Optional[Tensor], mode: int,
            band: Optional[tuple[int, int]], q: Tensor,
            k: Tensor) -> Optional[Tensor]:
    """Scores that do not count. Without a mask all do, whatever the mode;
    masks of the modes 2 to 4 are cut from one picture of a triangle."""
    if mask is None:
        return None
    if mode in (0, 1):
        return mask.bool()
    rows = torch.arange(q.shape[-2], device=q.device).unsqueeze(1)
    columns = torch.arange(k.shape[-2], device=q.device)
    distance = columns - rows
    if mode == 2:
        return distance > 0
    distance = distance - (k.shape[-2] - q.shape[-2])
    if mode == 3:
        return distance > 0
    if mode == 4 and band is not None:
        return (distance > band[1]) | (distance < -band[0])
    raise Unsupported(f"{_NAME}: no golden with sparse_mode {mode}")


def _attention(q: Tensor, k: Tensor, v: Tensor, scale: float,
               pse: Optional[Tensor],
               hidden: Optional[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Of (..., head, sequence, element); a row without scores gives zero."""
    groups = q.shape[-3] // k.shape[-3]
    k, v = (each.repeat_interleave(groups, -3) for each in (k, v))
    scores = q @ k.transpose(-1, -2)
    scores = (scores if pse is None else scores + pse) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    peak = scores.amax(-1).detach()
    finite = peak.masked_fill(peak == float("-inf"), 0.0).unsqueeze(-1)
    weights = torch.exp(scores - finite)
    total = weights.sum(-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0, 1.0)
    return weights @ v, peak, total.squeeze(-1).detach()


def _of_lengths(attend: Any, q: Tensor, k: Tensor, v: Tensor,
                q_ends: Sequence[int],
                k_ends: Sequence[int]) -> tuple[Tensor, Tensor, Tensor, int]:
    """Sequences one after another in the first dimension; what follows the
    last one is left as zero."""
    parts, size, q_from, k_from = [], 0, 0, 0
    for q_to, k_to in zip(q_ends, k_ends):
        if q_to < q_from or k_to < k_from:  # trailing zeros: not computed
            break
        one = attend(*(x[a:b].transpose(0, 1) for x, a, b in
                       ((q, q_from, q_to), (k, k_from, k_to),
                        (v, k_from, k_to))))
        parts.append([each.transpose(0, 1) for each in one])
        size += q.shape[1] * (q_to - q_from) * (k_to - k_from)
        q_from, k_from = q_to, k_to
    rest = q.shape[0] - q_from
    padded = []
    for i, pieces in enumerate(zip(*parts)):
        whole = torch.cat(pieces)
        padding = whole.new_zeros(rest, *whole.shape[1:])
        padded.append(torch.cat([whole, padding]) if rest else whole)
    return padded[0], padded[1], padded[2], size


def _heads_outermost(x: Tensor) -> Tensor:
    """(token, head) by shape, (head, token) in memory."""
    return x.t().reshape(x.shape)


OPERATORS = {"npu_fusion_attention": npu_fusion_attention}
