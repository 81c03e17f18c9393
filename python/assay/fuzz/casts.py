"""Casts of parameters that an autocast region keeps for its later calls."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from assay.capture.gradients import Edge, _senders, newest_of

Tensor = torch.Tensor
_caching = getattr(torch, "is_autocast_cache_enabled", lambda: True)


class Casts:
    """Which calls share one cast of a parameter.

    What autograd sends along the edge of such a parameter is the sum of these
    calls' gradients: of none of them alone it can be said to be right.
    """

    def __init__(self) -> None:
        self._groups: dict[int, tuple[Any, list[str]]] = {}

    def join(self, call: str, inputs: dict[str, Tensor], made: list[Any],
             edges: dict[Edge, str]) -> dict[str, list[str]]:
        """The calls, so far and later, that use the cast of an input, by its
        path in `edges`. made: nodes that made the call's outputs."""
        if not _caching():
            return {}
        senders: dict[str, list[str]] = {}
        for node, slots in _senders(made, edges, newest_of(edges)):
            for _, path in slots:
                senders.setdefault(path, []).append(node.name())
        found = {}
        for path in set(edges.values()):
            tensor = inputs.get(path.replace("output", "input", 1))
            if tensor is None or not (tensor.is_leaf
                                      and tensor.dtype is torch.float32):
                continue
            names = senders.get(path, [])
            # Without one, the cast was there before the call.
            if all(name.startswith("ToCopyBackward") for name in names):
                found[path] = self._joined(call, tensor, new=bool(names))
        return found

    def _joined(self, call: str, tensor: Tensor, new: bool) -> list[str]:
        known = self._groups.get(id(tensor))
        if new or known is None or known[0]() is not tensor:
            known = (weakref.ref(tensor), [])
            self._groups[id(tensor)] = known
        known[1].append(call)
        return known[1]
