"""What backward() is called on: the loss, without a line in the user's loop."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

# Called with the root tensors of every backward pass, in this order.
_listeners: list[Callable[[list[torch.Tensor]], None]] = []
_plain: Any = None


def _roots(tensors: Any) -> list[torch.Tensor]:
    if isinstance(tensors, torch.Tensor):
        return [tensors]
    try:
        return [t for t in tensors if isinstance(t, torch.Tensor)]
    except TypeError:
        return []


def listen(listener: Callable[[list[torch.Tensor]], None]) -> None:
    """Calls `listener` before every backward pass, until ignore().

    torch has no hook for this. Tensor.backward() looks torch.autograd.backward
    up when it runs, so one function in its place sees both.
    """
    global _plain
    if not _listeners:
        plain = _plain = torch.autograd.backward

        @functools.wraps(plain)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            roots = _roots(tensors) if _listeners else []
            for one in list(_listeners):
                one(roots)
            return plain(tensors, *args, **kwargs)

        torch.autograd.backward = backward
        listen.wrapper = backward
    _listeners.append(listener)


def ignore(listener: Callable[[list[torch.Tensor]], None]) -> None:
    """Ends what listen() began; the last one puts torch's function back,
    unless somebody has wrapped ours meanwhile."""
    global _plain
    if listener in _listeners:
        _listeners.remove(listener)
    if not _listeners and _plain is not None:
        if torch.autograd.backward is listen.wrapper:
            torch.autograd.backward = _plain
        _plain = None
