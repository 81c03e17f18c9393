"""The fused softmax."""

from __future__ import annotations

import torch

from assay.worker.torch_provider import softmax
from transformer_engine.pytorch.provided import provided


def apply(mask_type, x, scale, mask=None):
    return provided(softmax.run, {"mask_type": mask_type, "scale": scale},
                    {"x": x}, {} if mask is None else {"mask": mask},
                    {"y": "dy"}, {"dy": torch.zeros_like(x)})


class ScaledSoftmax:

    @staticmethod
    def apply(inputs, scale):
        return apply("none", inputs, scale)


class ScaledMaskedSoftmax:

    @staticmethod
    def apply(inputs, mask, scale):
        return apply("padding", inputs, scale, mask)


class ScaledUpperTriangMaskedSoftmax:

    @staticmethod
    def apply(inputs, scale):
        if inputs.dim() != 3:
            raise ValueError("upper_triangular: expected three dimensions")
        return apply("upper_triangular", inputs[None], scale)[0]


class ScaledAlignedCausalMaskedSoftmax:

    @staticmethod
    def apply(inputs, scale):
        return apply("aligned_causal", inputs, scale)


class FusedScaleMaskSoftmax(torch.nn.Module):

    def __init__(self, mask_func, softmax_in_fp32=True):
        super().__init__()
        del mask_func, softmax_in_fp32

    def is_kernel_available(self, mask, b, np, sq, sk):
        """As NVTE 2.x decides."""
        if not self.input_in_float16 or not 16 < sk < 16384 or sk % 8:
            return False
        if sq == 1:
            return False
        if self.attn_mask_type == "causal" and sq != sk:
            return False
        return (sq % 4 == 0 and b * np % 4 == 0
                and sq % softmax.batch_per_block(sk) == 0)
