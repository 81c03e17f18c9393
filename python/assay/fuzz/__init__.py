"""Which operators are unsteady, found without a reference: each call is run
again with a perturbation whose effect is known.

    check = assay.fuzz(model, mode="add_noise")
    with check:
        model(batch).sum().backward()
    check.report

docs/fuzz.md is the guide; what is judged, and how, is C++
(assay/compare/perturbation).
"""

from __future__ import annotations

from assay.fuzz.check import Fuzz, fuzz

__all__ = ["Fuzz", "fuzz"]
