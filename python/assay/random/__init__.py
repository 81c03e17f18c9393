"""Randomness under control: seeds of everything, and numbers of the host.

`seed_all` seeds what a process draws from; `host_random` makes torch draw on
the host, the same numbers for tensors of any device. docs/determinism.md.
"""

from __future__ import annotations

from assay.random.seeds import Seeded, seed_all

__all__ = ["HostRandomError", "Seeded", "host_random", "seed_all"]


def __getattr__(name: str):
    # What needs torch, which seed_all does without where it is not installed.
    if name in ("HostRandomError", "host_random"):
        from assay.random import host
        return getattr(host, name)
    raise AttributeError(f"module 'assay.random' has no attribute {name!r}")
