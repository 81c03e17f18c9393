"""Where releases 1.x had the fused softmax, now an alias of the module."""

from transformer_engine import variant
from transformer_engine.pytorch import _softmax

FusedScaleMaskSoftmax = _softmax.FusedScaleMaskSoftmax
if variant.LEGACY:
    ScaledSoftmax = _softmax.ScaledSoftmax
    ScaledMaskedSoftmax = _softmax.ScaledMaskedSoftmax
    ScaledUpperTriangMaskedSoftmax = _softmax.ScaledUpperTriangMaskedSoftmax
    ScaledAlignedCausalMaskedSoftmax = (
        _softmax.ScaledAlignedCausalMaskedSoftmax)
