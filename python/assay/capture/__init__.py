"""Writes what a training step computes to a trace that `assay` compares.

    with assay.capture("run", model, level="mix", mode="statistics") as c:
        for batch in loader:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            c.step()

docs/capture.md is the guide, docs/formats-traces.md has the format.
"""

from __future__ import annotations

from assay.capture.session import Capture, capture, save

__all__ = ["Capture", "capture", "save"]
