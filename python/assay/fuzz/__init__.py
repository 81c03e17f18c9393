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

__all__ = ["Fuzz", "fuzz"]


def __getattr__(name: str):
    # Where there is no torch, script.py is to say so.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.fuzz import check
    return getattr(check, name)
