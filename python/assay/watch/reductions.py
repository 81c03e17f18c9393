"""Numbers of many tensors: at once by the library where they are in this
host's memory, else on their device, which is waited for once a step."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Hashable

import torch

from assay import _core
from assay.tensors import Unreadable, host_view

NAN = float("nan")


@dataclasses.dataclass
class Numbers:
    """Of one tensor: a norm that is NaN or infinite where an element is; of
    a tensor on the host the rest is of its finite elements."""

    norm: float = NAN
    nan: int = 0
    inf: int = 0
    min: float = NAN
    max: float = NAN
    mean: float = NAN

    @property
    def nonfinite(self) -> int:
        return self.nan + self.inf


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a distributed tensor that is here, without its graph."""
    tensor = tensor.detach()
    to_local = getattr(tensor, "to_local", None)
    return to_local() if to_local is not None else tensor


def on_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu"


class Reductions:
    """Add tensors, then ask for results(), once."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, Numbers] = {}
        # By device: keys, scalars there, and the tensors behind the keys.
        self._pending: dict[Any, list[tuple[Hashable, str, torch.Tensor]]] = {}
        self._sources: dict[Hashable, torch.Tensor] = {}

    def add(self, key: Hashable, tensor: torch.Tensor,
            whole: bool = False) -> None:
        """`whole`: minimum, maximum and mean besides the norm."""
        tensor = local(tensor)
        if tensor.is_sparse:
            tensor = tensor.coalesce().values()
        if tensor.numel() == 0:
            self._numbers[key] = Numbers(norm=0.0)
        elif on_host(tensor):
            self._numbers[key] = _on_host(tensor)
        else:
            self._later(key, tensor, whole)

    def scalar(self, key: Hashable, value: Any) -> None:
        """A number as it is; results() has it as the norm."""
        if not isinstance(value, torch.Tensor):
            self._numbers[key] = Numbers(norm=float(value))
            return
        value = local(value).reshape(())
        if on_host(value):
            self._numbers[key] = Numbers(norm=value.item())
        else:
            self._wait(key, "norm", value.clone())

    def results(self) -> dict[Hashable, Numbers]:
        """Waits for every device, once."""
        for pending in self._pending.values():
            stacked = torch.stack([value.float() for _, _, value in pending])
            for (key, name, _), value in zip(pending, stacked.tolist()):
                setattr(self._numbers[key], name,
                        int(value) if name in ("nan", "inf") else value)
        for key, tensor in self._sources.items():
            if not math.isfinite(self._numbers[key].norm):
                self._count(key, tensor)
        return self._numbers

    def _later(self, key: Hashable, tensor: torch.Tensor,
               whole: bool) -> None:
        if not tensor.is_floating_point():
            tensor = tensor.float()
        # No device but the host is sure to have fp64.
        norm = torch.linalg.vector_norm(tensor, dtype=torch.float32)
        self._wait(key, "norm", norm)
        if not whole:  # is there at the end of the step
            self._sources[key] = tensor
            return
        low, high = torch.aminmax(tensor.float())
        for name, value in (("min", low), ("max", high),
                            ("mean", tensor.mean(dtype=torch.float32)),
                            ("nan", torch.isnan(tensor).sum()),
                            ("inf", torch.isinf(tensor).sum())):
            self._wait(key, name, value)

    def _wait(self, key: Hashable, name: str, value: torch.Tensor) -> None:
        self._numbers.setdefault(key, Numbers())
        self._pending.setdefault(value.device, []).append((key, name, value))

    def _count(self, key: Hashable, tensor: torch.Tensor) -> None:
        """Rare, so it may wait again: what makes a norm no number."""
        numbers = self._numbers[key]
        numbers.nan = int(torch.isnan(tensor).sum())
        numbers.inf = int(torch.isinf(tensor).sum())


def _on_host(tensor: torch.Tensor) -> Numbers:
    try:
        summary = _core.summarise(*host_view(tensor))
    except Unreadable:
        return Numbers()
    infinite = summary.positive_inf + summary.negative_inf
    norm = (NAN if summary.nan else math.inf if infinite else summary.norm)
    return Numbers(
        norm=norm, nan=summary.nan, inf=infinite, min=summary.min, max=summary.max, mean=summary.mean)


def joined(norms: list[float]) -> float:
    """The norm of all from those of the parts."""
    return math.sqrt(math.fsum(norm * norm for norm in norms))
