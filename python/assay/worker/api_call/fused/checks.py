"""What the formulas do not cover."""

from __future__ import annotations

from typing import Any

from assay.worker.call import Unsupported


def only(api: str, **arguments: Any) -> None:
    """Every argument has to be None, False, zero or "": its default."""
    for name, value in arguments.items():
        if value is not None and not (isinstance(value, (bool, int, float,
                                                         str)) and not value):
            raise Unsupported(f"{api}: no golden with {name}")
