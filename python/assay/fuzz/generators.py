"""Generators of random numbers that a call may draw from."""

from __future__ import annotations

import random
import sys
from typing import Any, Callable, Iterable

import torch

Tensor = torch.Tensor


class Generators:
    """Their states before a call, so that it can draw the same again.

    tensors: of the call; generators of their devices are kept, and those that
    it is given. foreign: it is no operator of torch, and may draw from
    Python's and numpy's too.
    """

    def __init__(self, tensors: Iterable[Tensor], given: Iterable[Any],
                 foreign: bool) -> None:
        self._each: list[tuple[Callable, Callable]] = [
            (torch.get_rng_state, torch.set_rng_state)]
        for device in {t.device for t in tensors if t.device.type != "cpu"}:
            self._add_device(device)
        for one in given:
            if isinstance(one, torch.Generator):
                self._each.append((one.get_state, one.set_state))
        if foreign:
            self._each.append((random.getstate, random.setstate))
            numpy = sys.modules.get("numpy")
            if numpy is not None:
                self._each.append((numpy.random.get_state,
                                   numpy.random.set_state))
        self.start = self.now()

    def _add_device(self, device: torch.device) -> None:
        backend = getattr(torch, device.type, None)
        get = getattr(backend, "get_rng_state", None)
        put = getattr(backend, "set_rng_state", None)
        if get is not None and put is not None:
            self._each.append((lambda: get(device),
                               lambda state: put(state, device)))

    def now(self) -> list[Any]:
        return [get() for get, _ in self._each]

    def put(self, states: list[Any]) -> None:
        for (_, put), state in zip(self._each, states):
            put(state)


def same(a: Any, b: Any) -> bool:
    """Whether two states are one."""
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a.tobytes() == b.tobytes() if hasattr(a, "tobytes") else a == b
