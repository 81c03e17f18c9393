"""Fingerprints of tensors, as a snapshot has them."""

from __future__ import annotations

from typing import Any

from assay import _core
from assay.tensors import Unreadable, described, host_view


def print_of(name: str, role: str, value: Any,
             rows: bool = False) -> dict[str, Any]:
    """What identifies a tensor; why it has no hash where it cannot be read.

    rows: also of every sample, along the first dimension.
    """
    made: dict[str, Any] = {"name": name, "role": role}
    try:
        view, dtype = host_view(value)
        found = _core.fingerprint(view, dtype, rows)
    except (Unreadable, _core.Error) as error:
        dtype, shape = described(value)
        made.update(dtype=dtype, shape=shape, hash="",
                    unreadable=(str(error).splitlines() or [""])[0])
        return made
    made.update(dtype=found.dtype, shape=list(found.shape), hash=found.hash,
                statistics=dict(found.statistics))
    made["as"] = dict(found.forms)
    return made
