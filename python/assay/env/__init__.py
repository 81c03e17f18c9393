"""What a training runs with: snapshots that `assay env diff` compares.

    assay.record_init(model, loader, optimizer=optimizer, path="init.json")
    assay.env.snapshot("env.json", args=args)
    with assay.env.record_random("random.json"): train()
    for batch in assay.env.watch_data(loader, "data.json"): ...
    assay.env.diff("cuda.json", "npu.json")     # a Comparison

Each but the last writes a snapshot with the sections that it knows, and the switches,
variables and versions of the process. docs/environment.md.
"""

from __future__ import annotations

import importlib

# Where each name is; torch and assay._core are imported by those that need
# them, for `python -m assay.env` runs where neither is.
_HOMES = {
    "diff": "assay.env.compared",
    "record_init": "assay.env.init",
    "record_random": "assay.env.draws",
    "snapshot": "assay.env.document",
    "watch_data": "assay.env.batches",
}

__all__ = list(_HOMES)


def __getattr__(name: str):
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'assay.env' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
