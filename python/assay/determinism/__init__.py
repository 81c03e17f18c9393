"""Whether a program computes the same twice, and the first operator that
does not.

`assay determinism train.py` runs a script as it is (script.py);
`assay.check_determinism` calls a function. docs/determinism.md is the guide.
"""

from __future__ import annotations

__all__ = ["Determinism", "Parting", "check_determinism"]


def __getattr__(name: str):
    # Where there is no torch, script.py is to say so.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from assay.determinism import check
    return getattr(check, name)
