"""What may be asked of a Fuzz."""

from __future__ import annotations

from typing import Optional, Union

from assay import _core

# Whose other run is better than the call, and which have a backward pass.
FIXES = ("improve_precision", "to_cpu")
BACKWARD = ("repeat", "improve_precision")


def check_options(mode: str, stage: str, sample: float, every: Optional[int],
                  fix: Union[bool, str], wide: Optional[str],
                  noise: Optional[float]) -> None:
    """ValueError names an argument that cannot be meant."""
    if mode not in _core.fuzz_modes():
        raise ValueError(f"mode: {mode!r}, expected one of "
                         f"{', '.join(_core.fuzz_modes())}")
    if stage not in ("forward", "backward"):
        raise ValueError(f"stage: {stage!r}, expected 'forward' or "
                         "'backward'")
    if stage == "backward" and mode not in BACKWARD:
        raise ValueError(f"mode: {mode!r}, but stage 'backward' has "
                         f"{' and '.join(BACKWARD)}")
    if fix not in (False, True, "all"):
        raise ValueError(f"fix: {fix!r}, expected False, True or 'all'")
    if fix and (mode not in FIXES or stage != "forward"):
        raise ValueError(f"fix: needs mode {' or '.join(FIXES)} and stage "
                         "'forward': other runs are no better than the call")
    if not 0 < sample <= 1:
        raise ValueError(f"sample: {sample}, expected more than 0, at most 1")
    if every is not None and (every < 1 or sample != 1.0):
        raise ValueError(f"every: {every}, expected 1 or more, and no sample")
    if wide not in (None, "float32", "float64"):
        raise ValueError(f"wide: {wide!r}, expected 'float32' or 'float64'")
    if noise is not None and (mode != "add_noise" or noise <= 0):
        raise ValueError(f"noise: {noise}, expected more than 0, and mode "
                         "'add_noise'")
