"""What a call gave, in a form that a safetensors file can hold."""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch

from assay.capture.leaves import Cut, described, results
from assay.worker.call import Unsupported

Tensor = torch.Tensor


def leaves_of(result: Any, args: list[Any]) -> Iterator[tuple[str, Any]]:
    """(name, leaf), as a capture names them: what returned nothing changed
    its first argument."""
    if result is None and args:
        result = args[0]
    for name, leaf in results(result):
        if isinstance(leaf, Cut):
            raise Unsupported(f"{name}: {leaf.why}")
        yield name, leaf


def portable(name: str, tensor: Tensor) -> tuple[Tensor, str]:
    """A copy in host memory that nothing else writes to, contiguous, and its
    dtype where the file has another: complex128 is stored as pairs."""
    kind = _unusual(tensor)
    if kind:
        raise Unsupported(f"{name} is a {kind} tensor, which no file of ours "
                          "holds")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    tensor = tensor.cpu().contiguous()
    copy = torch.empty_like(tensor)
    copy.copy_(tensor)
    if copy.dtype == torch.complex128:
        return torch.view_as_real(copy), "complex128"
    return copy, ""


def _unusual(tensor: Tensor) -> str:
    """What keeps a tensor from being written down; "" of plain ones."""
    if getattr(tensor, "is_nested", False):
        return "nested"
    if tensor.is_quantized:
        return "quantised"
    if tensor.layout != torch.strided:
        return str(tensor.layout).replace("torch.", "")
    if tensor.device.type == "meta":
        return "meta"
    return "complex32" if tensor.dtype == torch.complex32 else ""


class Answer:
    """Collects the tensors and the contract of a result."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.contract: dict[str, Any] = {}

    def put(self, name: str, tensor: Tensor) -> None:
        self.tensors[name], dtype = portable(name, tensor)
        if dtype:
            self.contract.setdefault("dtypes", {})[name] = dtype

    def put_value(self, name: str, value: Any) -> None:
        kind, text = described(value)
        self.contract.setdefault("values", {})[name] = {"type": kind,
                                                        "value": text}

    def add_runs(self, others: dict[str, Tensor]) -> None:
        """Tensors of another run, as again.<name>."""
        dtypes = self.contract.get("dtypes", {})
        for name, tensor in others.items():
            self.tensors[f"again.{name}"] = tensor
            if name in dtypes:
                dtypes[f"again.{name}"] = dtypes[name]

    def different(self, other: Answer,
                  same: Callable[[Tensor, Tensor], bool]) -> set[str]:
        """Names of tensors that are not the same in both."""
        return {name for name in {**self.tensors, **other.tensors}
                if name not in self.tensors or name not in other.tensors
                or not same(self.tensors[name], other.tensors[name])}
