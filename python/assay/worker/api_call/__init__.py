"""Replays the calls of a trace: the module `api_call` of workers.

docs/worker-protocol.md, "API calls", is the contract. replay.py is the way
through; what a call names comes from a file that nobody vouches for:
functions.py reaches operators alone, arguments.py makes plain values alone.
"""

from __future__ import annotations

from assay.worker.api_call.replay import run

__all__ = ["run"]
