"""Goldens of fused operators: plain torch, written from their formulas.

For operators of accelerators' extensions, which a host has not got, and for
those of torch that have no float64. Signatures are those of torch_npu 2.1 to
2.7 (op-plugin's documentation); arguments that a formula does not have are
Unsupported, never passed over.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from assay.worker.api_call.fused import (activations, attention, matmul,
                                         movement, norms, optimizers, routing)

_NPU: dict[str, Callable[..., Any]] = {
    name: function
    for module in (activations, attention, movement, norms, optimizers,
                   routing)
    for name, function in module.OPERATORS.items()
}
_TORCH = matmul.OPERATORS


def golden(api: str) -> Optional[Callable[..., Any]]:
    """The formula of an API; None where torch's own operator is computed."""
    prefix, _, name = api.partition(".")
    if prefix in ("NPU", "npu"):
        return _NPU.get(name.partition(".")[0])
    if prefix == "Aten":
        return _TORCH.get(name.partition(".")[0])
    return _TORCH.get(name) if prefix in ("Torch", "Functional") else None
