"""api_call: a call of a framework's function, as a trace recorded it."""

from __future__ import annotations

from assay.worker.api_call import run

__all__ = ["ADAPTER", "run"]

ADAPTER = 1
