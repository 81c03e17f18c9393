"""What delayed scaling remembers of earlier steps (docs/numerics.md, "Delayed
scaling")."""

from __future__ import annotations

import torch

from assay.worker.torch_provider import formats, quantize
from assay.worker.torch_provider.formats import FLOAT_MAX, Format
from assay.worker.torch_provider.quantize import Quantized


class DelayedState:
    """Scales of `slots` tensors and the maxima of `length` steps; row 0 of
    the history is where a step leaves its own."""

    def __init__(self, length: int, slots: int, largest: float,
                 margin: int = 0, algorithm: str = "max",
                 device: torch.device | str = "cpu"):
        self.history = torch.zeros(length, slots, device=device)
        self.scale = torch.ones(slots, device=device)
        self.largest = largest
        self.margin = margin
        self.algorithm = algorithm

    def quantize(self, x: torch.Tensor, slot: int, target: Format,
                 columnwise: bool = False) -> Quantized:
        """With the slot's scale; leaves max |x| behind. A slot that is used
        twice in a step keeps the larger."""
        result = quantize.per_tensor(x, self.scale[slot:slot + 1], target,
                                     columnwise)
        self.history[0, slot] = torch.maximum(self.history[0, slot],
                                              result.amax[0])
        return result

    def update(self, reduced: torch.Tensor | None = None) -> None:
        """NVTE's fused kernel: a slot whose last amax is 0 stays as it is."""
        last = self.history[0].clone()
        if reduced is not None:
            last = torch.where(reduced != 0, reduced, last)
        moved = self._moved(last)
        amax = last if self.algorithm == "most_recent" else formats.amax(
            moved, 0)[0]
        moved[0] = 0
        used = last != 0
        self.history = torch.where(used, moved, self.history)
        scaled_max = self.largest * 2.0**-self.margin
        self._rescale(torch.where(used, amax, torch.zeros_like(amax)),
                      lambda a: formats.divide(scaled_max, a))

    def update_unfused(self) -> None:
        """NVTE's Python form: the history always moves, a NaN wins the
        maximum, and torch divides a number by a tensor with a reciprocal."""
        last = self.history[0].clone()
        amax = (last if self.algorithm == "most_recent"
                else self.history.amax(0))  # torch's maximum keeps a NaN
        self.history = self._moved(last)
        self.history[0] = 0
        self._rescale(amax, lambda a: (torch.reciprocal(a) * self.largest)
                      / 2.0**self.margin)

    def _moved(self, last: torch.Tensor) -> torch.Tensor:
        moved = torch.roll(self.history, -1, 0)
        moved[-1] = last
        return moved

    def _rescale(self, amax: torch.Tensor, rule) -> None:
        scale = rule(amax)
        scale = torch.where(torch.isinf(scale),
                            torch.full_like(scale, FLOAT_MAX), scale)
        usable = torch.isfinite(amax) & (amax > 0)
        self.scale = torch.where(usable, scale, self.scale)
