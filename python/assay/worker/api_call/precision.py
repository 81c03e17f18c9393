"""What a call is computed in: as recorded, or in the widest dtypes."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

import torch

from assay.worker.call import Unsupported


@dataclasses.dataclass(frozen=True)
class Precision:
    """`real`: what floating-point dtypes of fewer bits become; None: all stay
    as they are."""

    name: str
    real: Optional[torch.dtype] = None
    complex: Optional[torch.dtype] = None

    def dtype(self, dtype: torch.dtype) -> torch.dtype:
        wide = self.complex if dtype.is_complex else self.real
        if wide is None or not (dtype.is_complex or dtype.is_floating_point):
            return dtype
        return wide if dtype.itemsize < wide.itemsize else dtype

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Each of its values exactly, in self.dtype()."""
        wide = self.dtype(tensor.dtype)
        if wide == tensor.dtype:
            return tensor
        try:
            return tensor.to(wide)
        except (RuntimeError, NotImplementedError):
            raise Unsupported(f"this torch cannot make {wide} of "
                              f"{tensor.dtype}") from None

    def value(self, value: Any) -> Any:
        return self.dtype(value) if isinstance(value, torch.dtype) else value

    def function(self, name: str) -> str:
        """The cast to take instead of one that is a method's name."""
        cast = _CASTS.get(name)
        if cast is None or self.real is None:
            return name
        return _CAST_TO[self.dtype(cast)]


GIVEN = Precision("given")
FLOAT64 = Precision("float64", torch.float64, torch.complex128)
# Of the operators that a CPU has not got for float64.
FLOAT32 = Precision("float32", torch.float32, torch.complex64)

_CASTS = {
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "double": torch.float64,
    "chalf": torch.complex32,
    "cfloat": torch.complex64,
    "cdouble": torch.complex128,
}
_CAST_TO = {dtype: name for name, dtype in _CASTS.items()}

# Where the dtype decides about the result: the bits of an element, its
# neighbour, the largest number.
_OF_THE_DTYPE = frozenset(("nextafter", "nextafter_", "_fused_sdp_choice"))


def asked(precision: str, name: str, names_dtype: bool) -> Precision:
    """What to compute a function in; `names_dtype`: a dtype is among its
    arguments."""
    if precision == "given" or name in _OF_THE_DTYPE or (
            name == "view" and names_dtype):
        return GIVEN
    return FLOAT64
