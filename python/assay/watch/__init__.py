"""Watches a training without changing its loop: one JSON line a watched step.

    with assay.watch(model, optimizer, every=10, path="run.jsonl"):
        for batch in batches: ...

`assay compare-runs` holds such logs against each other.
"""

from __future__ import annotations

from assay.watch.loop import Watch

__all__ = ["Watch", "watch"]


def watch(model, optimizer, **options) -> Watch:
    """A Watch, which is at work at once; its arguments are Watch's."""
    return Watch(model, optimizer, **options)
