"""softmax: of scale * x over the last dimension, under a mask, in fp32.

Masked logits are -10000, and a row whose maximum is -10000 is zeros with zero
gradients: NVTE's fused kernels. Columns that a causal mask excludes take no
part, whatever they hold. The gradient is formed from the rounded y.
"""

from __future__ import annotations

import torch

from assay.worker.call import Call, Refused, Result

ADAPTER = 1
MASKED = -10000.0


def causal(mask: str, sq: int, sk: int,
           device: torch.device) -> torch.Tensor | None:
    """True where a query may not see a key."""
    if mask in ("none", "padding"):
        return None
    if mask not in ("upper_triangular", "aligned_causal"):
        raise Refused(f"mask_type {mask}")
    if mask == "upper_triangular" and sq != sk:
        raise Refused(f"upper_triangular: {sq} x {sk}, expected sq == sk")
    shift = sk - sq if mask == "aligned_causal" else 0
    ones = torch.ones(sq, sk, dtype=torch.bool, device=device)
    return torch.triu(ones, diagonal=shift + 1)


def forward(logits: torch.Tensor,
            excluded: torch.Tensor | None) -> torch.Tensor:
    if excluded is not None:
        logits = logits.masked_fill(excluded, -torch.inf)
    top = logits.amax(-1, keepdim=True)
    e = torch.exp(logits - top)
    if excluded is not None:
        e = e.masked_fill(excluded, 0.0)
    y = e / e.sum(-1, keepdim=True)
    if excluded is not None:  # zeros beside a NaN, too
        y = y.masked_fill(excluded, 0.0)
    # No key at all: the maximum is -inf by the mask alone.
    none = (excluded.all(-1, keepdim=True) if excluded is not None
            else torch.zeros_like(top, dtype=torch.bool))
    return torch.where((top == MASKED) | none, torch.zeros_like(y), y)


def batch_per_block(sk: int) -> int:
    pow2 = 1 << (sk - 1).bit_length()
    return 128 // min(pow2, 32) * (2 if pow2 <= 128 else 1)


def fused_kernel(mask: str, x: torch.Tensor) -> bool:
    """Where FusedScaleMaskSoftmax runs its kernel (NVTE's conditions)."""
    batch, heads, sq, sk = x.shape
    return (x.dtype in (torch.float16, torch.bfloat16) and 16 < sk < 16384
            and sk % 8 == 0 and sq != 1 and sq % 4 == 0
            and batch * heads % 4 == 0 and sq % batch_per_block(sk) == 0
            and (mask != "upper_triangular" or sq == sk))


def run(call: Call) -> Result:
    x = call.inputs["x"]
    logits = x.float() * call.scale
    masked = call.inputs.get("mask")
    if masked is not None:
        logits = logits.masked_fill(masked != 0, MASKED)
    excluded = causal(call.mask_type, x.shape[-2], x.shape[-1], x.device)
    y = forward(logits, excluded).to(x.dtype)
    dy, p = call.inputs["dy"].float(), y.float()
    if excluded is not None:
        dy = dy.masked_fill(excluded, 0.0)
    dx = call.scale * p * (dy - (dy * p).sum(-1, keepdim=True))
    if excluded is not None:
        dx = dx.masked_fill(excluded, 0.0)
    result = Result()
    result.outputs = {"y": y, "grad.x": dx.to(x.dtype)}
    result.contract["fused_kernel"] = fused_kernel(call.mask_type, x)
    return result
