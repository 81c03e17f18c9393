"""Tensors on their way from a device to the host, without waiting for each."""

from __future__ import annotations

import collections
from typing import Any, Callable

import torch

from assay.tensors import host_view


class DeviceCopies:
    """Copies are queued on the device's stream; drain() waits and hands on.

    Where the backend has events and pinned memory the training loop goes on
    meanwhile. At most `limit` bytes are in flight; more wait for the first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._waiting: collections.deque = collections.deque()

    def push(self, tensor: torch.Tensor,
             write: Callable[[Any, str], None]) -> None:
        """Starts a copy of the tensor as the stream has it now."""
        copy, event = _start(tensor.detach())
        size = copy.numel() * copy.element_size()
        self._waiting.append((copy, event, size, write))
        self._bytes += size
        while self._bytes > self._limit and self._waiting:
            self._finish_first()

    def drain(self) -> None:
        """Waits for every copy, in their order."""
        while self._waiting:
            self._finish_first()

    def _finish_first(self) -> None:
        copy, event, size, write = self._waiting.popleft()
        self._bytes -= size
        if event is not None:
            event.synchronize()
        write(*host_view(copy))


def _start(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
    backend = getattr(torch, tensor.device.type, None)
    if not hasattr(backend, "Event"):
        return tensor.cpu(), None
    try:
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu",
                           pin_memory=True)
    except RuntimeError:  # no pinned memory for this backend
        return tensor.cpu(), None
    copy.copy_(tensor, non_blocking=True)
    event = backend.Event()
    event.record()
    return copy, event
