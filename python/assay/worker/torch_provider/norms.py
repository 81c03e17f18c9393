"""LayerNorm and RMSNorm in fp32 as parts of larger modules: results are not
rounded here, for who comes next decides."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass
class Saved:
    normed: torch.Tensor  # (x - mean) rsigma, or x rsigma
    rsigma: torch.Tensor
    gamma: torch.Tensor  # fp32, 1 added where that is asked for


class Norm:
    """Over the last dimension; `kind` LayerNorm or RMSNorm."""

    def __init__(self, kind: str, eps: float, zero_centered_gamma: bool):
        if kind not in ("LayerNorm", "RMSNorm"):
            raise ValueError(f"normalization: {kind}")
        self.centres = kind == "LayerNorm"
        self.eps = eps
        self.shift = 1.0 if zero_centered_gamma else 0.0

    def forward(self, x: torch.Tensor, weight: torch.Tensor,
                bias: torch.Tensor | None) -> tuple[torch.Tensor, Saved]:
        """fp32; the variance is a second pass over x - mean."""
        x = x.float()
        if self.centres:
            x = x - x.mean(-1, keepdim=True)
        rsigma = torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)
        saved = Saved(x * rsigma, rsigma, weight.float() + self.shift)
        z = saved.normed * saved.gamma
        return (z if bias is None else z + bias.float()), saved

    def backward(self, dz: torch.Tensor, saved: Saved, weight: torch.Tensor,
                 bias: torch.Tensor | None) -> tuple[
                     torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """dx in fp32, dgamma, dbeta in the dtypes of the parameters."""
        dz = dz.float()
        t = dz * saved.gamma
        inner = (t * saved.normed).mean(-1, keepdim=True) * saved.normed
        if self.centres:
            inner = inner + t.mean(-1, keepdim=True)
        rows = tuple(range(dz.dim() - 1))
        dgamma = (dz * saved.normed).sum(rows).to(weight.dtype)
        dbeta = None if bias is None else dz.sum(rows).to(bias.dtype)
        return saved.rsigma * (t - inner), dgamma, dbeta
