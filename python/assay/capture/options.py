"""What a capture is told: which calls, which steps and ranks, how much."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from typing import Any, Iterable, Optional, Union

LEVELS = ("module", "api", "mix", "aten")
MODES = ("tensor", "statistics", "hash", "overflow")

Numbers = Union[None, int, str, Iterable[int], range]


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """`value`, or a ValueError that lists what is allowed."""
    if value in allowed:
        return value
    raise ValueError(f"{name}: {value!r}, expected one of "
                     + ", ".join(allowed))


def numbers(name: str, chosen: Numbers) -> Optional[frozenset[int]]:
    """Step or rank numbers: 3, [0, 2], "4-6,9"; None for all of them."""
    if chosen is None:
        return None
    if isinstance(chosen, int) and not isinstance(chosen, bool):
        chosen = [chosen]
    if isinstance(chosen, str):
        return frozenset(_parsed(name, chosen))
    found = list(chosen)
    for number in found:
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"{name}: {number!r} is no number")
    return frozenset(found)


def _parsed(name: str, text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match:
            raise ValueError(f"{name}: {part!r}, expected numbers like "
                             "'3' or '4-6'")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first > 1_000_000:
            raise ValueError(f"{name}: {part!r} is no range")
        found.extend(range(first, last + 1))
    return found


def patterns(name: str, chosen: Union[None, str, Iterable[str]]) -> list[str]:
    """Globs over operator names; one may be given alone."""
    found = [chosen] if isinstance(chosen, str) else list(chosen or [])
    for pattern in found:
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"{name}: {pattern!r} is no pattern")
    return found


def slices_of(chosen: Any) -> dict[int, slice]:
    """{dimension: slice}; "0:4" and (slice, ...) mean the first dimensions.

    A tensor that lacks a dimension is captured whole.
    """
    if chosen is None:
        return {}
    if isinstance(chosen, (slice, str)):
        chosen = (chosen,)
    items = chosen.items() if isinstance(chosen, dict) else enumerate(chosen)
    found = {}
    for dimension, part in items:
        if isinstance(part, str):
            part = _slice(part)
        if not isinstance(part, slice) or (part.step or 1) < 1:
            raise ValueError(f"slices: {part!r} is no slice with a "
                             "positive step")
        if part != slice(None):
            found[int(dimension)] = part
    return found


def _slice(text: str) -> slice:
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        raise ValueError(f"slices: {text!r}, expected 'begin:end'")
    try:
        return slice(*(int(p) if p.strip() else None for p in parts))
    except ValueError:
        raise ValueError(f"slices: {text!r}, expected 'begin:end'") from None


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of assay.capture(), checked."""

    level: str = "mix"
    mode: str = "statistics"
    ranks: Optional[frozenset[int]] = None
    steps: Optional[frozenset[int]] = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    slices: dict[int, slice] = dataclasses.field(default_factory=dict)
    stacks: bool = True
    backward: bool = True
    stop_after: int = 1
    queue_bytes: int = 256 << 20

    @classmethod
    def checked(cls, *, level: str = "mix", mode: str = "statistics",
                ranks: Numbers = None, steps: Numbers = None,
                include: Any = None, exclude: Any = None, slices: Any = None,
                stacks: bool = True, backward: bool = True,
                stop_after: int = 1,
                queue_bytes: int = 256 << 20, **unknown: Any) -> "Options":
        """Raises ValueError naming the argument that cannot be meant."""
        for name in unknown:
            raise TypeError(f"{name}: no such argument; there are first_step, "
                            + ", ".join(f.name for f in
                                        dataclasses.fields(cls)))
        if stop_after < 1:
            raise ValueError(f"stop_after: {stop_after}, expected 1 or more")
        if queue_bytes < 1:
            raise ValueError(f"queue_bytes: {queue_bytes}, expected 1 or more")
        return cls(level=one_of("level", level, LEVELS),
                   mode=one_of("mode", mode, MODES),
                   ranks=numbers("ranks", ranks),
                   steps=numbers("steps", steps),
                   include=tuple(patterns("include", include)),
                   exclude=tuple(patterns("exclude", exclude)),
                   slices=slices_of(slices), stacks=stacks,
                   backward=backward, stop_after=stop_after,
                   queue_bytes=queue_bytes)

    @property
    def modules(self) -> bool:
        """Whether modules are seen."""
        return self.level in ("module", "mix", "aten")

    @property
    def functions(self) -> bool:
        """Whether API calls are seen."""
        return self.level in ("api", "mix")

    def wanted(self, name: str) -> bool:
        """Whether the operator of this name is kept."""
        if self.include and not _any(self.include, name):
            return False
        return not _any(self.exclude, name)


def _any(globs: Iterable[str], name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
