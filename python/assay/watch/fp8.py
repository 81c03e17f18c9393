"""Scales and amaxes of TransformerEngine's modules, where there are any.

Nothing of TransformerEngine is imported: what a module has is looked at.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch

_PASSES = ("scaling_fwd", "scaling_bwd")


def _tensor(value: Any) -> torch.Tensor | None:
    return value if isinstance(value, torch.Tensor) and value.numel() else None


def _delayed(meta: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Of a recipe.DelayedScaling: the newest row of the history."""
    history = _tensor(getattr(meta, "amax_history", None))
    if history is not None:
        yield "amax", history[0].max()
    scale = _tensor(getattr(meta, "scale", None))
    if scale is not None:
        yield "scale_min", scale.min()
        yield "scale_max", scale.max()


def _current(quantizers: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Of a list of quantizers with figures of their own."""
    for name, attribute in (("amax", "amax"), ("scale_min", "scale"),
                            ("scale_max", "scale")):
        found = [_tensor(getattr(q, attribute, None))
                 for q in quantizers or ()]
        values = [t.detach().float().reshape(-1) for t in found
                  if t is not None]
        if values:
            joined = torch.cat(values)
            yield name, joined.min() if name == "scale_min" else joined.max()


def figures(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """("scaling_fwd.amax", a scalar on its device), ..."""
    meta = getattr(module, "fp8_meta", None)
    quantizers = getattr(module, "quantizers", None)
    for name in _PASSES:
        part = meta.get(name) if isinstance(meta, dict) else None
        found = list(_delayed(part)) if part is not None else []
        if not found and isinstance(quantizers, dict):
            found = list(_current(quantizers.get(name)))
        for figure, value in found:
            yield f"{name}.{figure}", value
