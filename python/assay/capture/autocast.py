"""The autocast region around the caller, in whatever torch calls it."""

from __future__ import annotations

import torch


def autocast() -> str:
    """The dtype of the autocast region around the caller; "" outside."""
    for kind in _AUTOCAST_DEVICES:
        if torch.is_autocast_enabled(kind):
            return str(torch.get_autocast_dtype(kind)).replace("torch.", "")
    return ""


def _autocast_before_2_4() -> str:
    if torch.is_autocast_enabled():
        return str(torch.get_autocast_gpu_dtype()).replace("torch.", "")
    if torch.is_autocast_cpu_enabled():
        return str(torch.get_autocast_cpu_dtype()).replace("torch.", "")
    return ""


def _autocast_devices() -> list[str]:
    found = ["cpu"]
    for kind in ("cuda", "npu", "musa", "xpu", "mps"):
        backend = getattr(torch, kind, None)
        try:
            if backend is not None and backend.is_available():
                found.append(kind)
        except Exception:  # a backend that is half installed
            continue
    return found


if hasattr(torch, "get_autocast_dtype"):
    _AUTOCAST_DEVICES = _autocast_devices()
else:
    autocast = _autocast_before_2_4  # noqa: F811
