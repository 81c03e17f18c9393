"""Whether a program computes the same twice, and the first operator that
does not.

`assay determinism train.py` runs a script as it is (script.py);
`assay.check_determinism` calls a function. docs/determinism.md is the guide.
"""

from __future__ import annotations

from assay.determinism.check import (Determinism, Parting, check_determinism)

__all__ = ["Determinism", "Parting", "check_determinism"]
