"""What a seed may be, and where seeds go."""

from __future__ import annotations

import operator
from typing import Any

# Backends of torch that may be there: CUDA and ROCm, Ascend, Moore Threads,
# Intel, Apple, Cambricon, Habana.
BACKENDS = ("cuda", "npu", "musa", "xpu", "mps", "mlu", "hpu")

MOST = 2**32 - 1  # numpy's limit, and PYTHONHASHSEED's


def checked_seed(caller: str, seed: Any) -> int:
    """`seed` as an int; any kind of integer but bool, 0 to 2^32 - 1."""
    try:
        if isinstance(seed, bool):
            raise TypeError
        value = operator.index(seed)
    except TypeError:
        raise TypeError(f"{caller}: seed is {seed!r}, expected an integer, "
                        f"0 to {MOST}") from None
    if not 0 <= value <= MOST:
        raise ValueError(f"{caller}: seed is {value}, expected 0 to {MOST}")
    return value
