"""Quantised tensors of TransformerEngine and of ports of it: what they hold.

Nothing of TransformerEngine is imported: a tensor (or the bare storage of one)
is known by dequantize() and by the names of its attributes, so that ports with
packages of other names are read too.
"""

from __future__ import annotations

import math
from typing import Any, Iterator, Optional

import torch

Tensor = torch.Tensor

# Attribute, the leaf's name: of each pair of spellings a class has one.
_CODES = (("_data", "rowwise_data"), ("_rowwise_data", "rowwise_data"),
          ("_transpose", "columnwise_data"),
          ("_columnwise_data", "columnwise_data"))
_SCALES = (("_rowwise_scale_inv", "rowwise_scale_inv"),
           ("_columnwise_scale_inv", "columnwise_scale_inv"))
_PLAIN = (("_scale_inv", "scale_inv"), ("_amax_rowwise", "amax_rowwise"),
          ("_amax_columnwise", "amax_columnwise"))
# Of the quantizer: delayed scaling keeps its state there.
_QUANTIZER = (("scale", "scale"), ("amax", "amax"))

_DTYPES = (("E4M3", "float8_e4m3fn"), ("E5M2", "float8_e5m2"),
           ("E2M1", "float4_e2m1fn"))


def is_storage(value: Any) -> bool:
    """Whether an object that is no tensor is a quantised one."""
    return (hasattr(type(value), "dequantize")
            and not isinstance(value, (Tensor, type))
            and any(hasattr(value, name) for name, _ in _CODES))


def parts(value: Any) -> Iterator[tuple[str, Tensor, str]]:
    """(leaf, tensor, dtype) of what a quantised tensor keeps; nothing for
    other tensors. dtype: that of which uint8 elements are the codes, else ""
    for their own."""
    dtype = _dtype(value)
    if dtype is None:
        return
    for attribute, leaf in _CODES:
        codes = getattr(value, attribute, None)
        stale = (attribute == "_transpose"
                 and getattr(value, "_transpose_invalid", False))
        if isinstance(codes, Tensor) and not stale:
            yield leaf, codes, dtype if codes.dtype is torch.uint8 else ""
    for attribute, leaf in _SCALES:
        scales = getattr(value, attribute, None)
        if isinstance(scales, Tensor):
            yield leaf, _unpadded(value, scales, leaf), _scale_dtype(
                scales, dtype)
    for owner, names in ((value, _PLAIN),
                         (getattr(value, "_quantizer", None), _QUANTIZER)):
        for attribute, leaf in names:
            found = getattr(owner, attribute, None)
            if isinstance(found, Tensor):
                yield leaf, found, ""


def _dtype(value: Any) -> Optional[str]:
    """The dtype of the codes; None where the object is not quantised."""
    if not any(isinstance(getattr(value, name, None), Tensor)
               for name, _ in _CODES):
        return None
    said = str(getattr(value, "_fp8_dtype", None)
               or getattr(value, "_fp4_dtype", None) or "").upper()
    for part, dtype in _DTYPES:
        if part in said:
            return dtype
    return ""


def _scale_dtype(scales: Tensor, codes: str) -> str:
    if scales.dtype is not torch.uint8:
        return ""
    return "float8_e4m3fn" if codes == "float4_e2m1fn" else "float8_e8m0fnu"


def _unpadded(value: Any, scales: Tensor, leaf: str) -> Tensor:
    """Scales without the padding that kernels want, which nothing writes.
    In the order of a GEMM's tiles padding is among them, and stays."""
    shape = getattr(value, "shape", None)
    if shape is None and hasattr(value, "size"):
        shape = value.size()
    if (not shape or scales.dim() != 2
            or getattr(value, "_with_gemm_swizzled_scales", False)):
        return scales
    rows, columns = math.prod(shape[:-1]), shape[-1]
    down, right = _blocks(value, rows, columns, leaf.startswith("column"))
    return scales[:down, :right]


def _blocks(value: Any, rows: int, columns: int,
            columnwise: bool) -> tuple[int, int]:
    """Scales of a matrix [rows, columns] as they lie in memory. Codes but for
    MXFP8's are those of the transposed matrix in the other direction."""
    if hasattr(value, "_is_2D_scaled"):
        if not value._is_2D_scaled:
            return ((_up(rows, 128), columns) if columnwise
                    else (_up(columns, 128), rows))
        found = _up(rows, 128), _up(columns, 128)
        return found[::-1] if columnwise else found
    if hasattr(value, "_fp4_dtype"):
        return ((columns, _up(rows, 16)) if columnwise
                else (rows, _up(columns, 16)))
    return ((_up(rows, 32), columns) if columnwise
            else (rows, _up(columns, 32)))


def _up(size: int, block: int) -> int:
    return -(-size // block)


def module_state(module: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Scales and histories of a module with delayed scaling."""
    meta = vars(module).get("fp8_meta")
    if not isinstance(meta, dict):
        return
    for key in ("scaling_fwd", "scaling_bwd"):
        for name in ("scale", "scale_inv", "amax_history"):
            found = getattr(meta.get(key), name, None)
            if isinstance(found, Tensor):
                yield f"fp8_meta.{key}.{name}", found
