"""The fused softmax; releases 1.x have it in pytorch.softmax alone."""

from transformer_engine import variant
from transformer_engine.pytorch import _softmax

if variant.LEGACY:
    raise ImportError("pytorch.softmax of 1.x")
FusedScaleMaskSoftmax = _softmax.FusedScaleMaskSoftmax
ScaledSoftmax = _softmax.ScaledSoftmax
ScaledMaskedSoftmax = _softmax.ScaledMaskedSoftmax
ScaledUpperTriangMaskedSoftmax = _softmax.ScaledUpperTriangMaskedSoftmax
ScaledAlignedCausalMaskedSoftmax = _softmax.ScaledAlignedCausalMaskedSoftmax
