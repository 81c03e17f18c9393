"""What a comparison found, as objects that Python code and notebooks use.

They hold the document of docs/json-output.md: its keys are attributes.
"""

from __future__ import annotations

import dataclasses
import json
from types import MappingProxyType
from typing import Any, Iterator, Mapping

from assay import notebook

# Keys of a row that are attributes; None where it does not have them.
ROW_KEYS = (
    "target_name", "step", "rank", "op", "role", "evidence", "origin",
    "amplification", "cause", "count", "finite", "bitwise_equal", "max_abs",
    "mean_abs", "max_rel", "mean_rel", "rmse", "norm_l2", "sqnr", "cosine",
    "bias", "alpha", "index", "component", "flat_index", "golden_at_index",
    "target_at_index", "max_abs_int", "mismatches", "nonfinite_mismatches",
    "sign_flips", "zero_sign_flips", "judged_dtype", "golden_rounded",
    "ulp_max", "ulp_mean", "share_rel_over_1e3", "share_rel_over_5e3",
    "over_bound", "worst_excess")
# Keys whose values are text whatever they read like; elsewhere "inf" is a
# figure.
_TEXTS = {"name", "target_name", "op", "text", "value", "criterion", "digest",
          "file", "cause", "path", "reason", "input_note", "row_name", "again",
          "stack", "call_path", "warnings", "dtype"}
_NOT_FINITE = ("nan", "inf", "-inf")  # as the report spells them


def _figures(document: dict[str, Any]) -> dict[str, Any]:
    """An object whose figures that are not finite are floats."""
    for key, value in document.items():
        if value in _NOT_FINITE and key not in _TEXTS:
            document[key] = float(value)
    return document


def read(text: str) -> dict[str, Any]:
    """The JSON report, of which `of` makes objects."""
    return json.loads(text, object_hook=_figures)


class Judged:
    """Has a verdict: "match", "mismatch", "incomplete" or "empty"."""

    verdict: str

    @property
    def matched(self) -> bool:
        """Everything was compared, and agrees."""
        return self.verdict == "match"

    def __bool__(self) -> bool:
        raise TypeError(
            f"a {type(self).__name__} is no truth value: 'incomplete' and "
            "'empty' are neither a match nor a mismatch; ask "
            "`.verdict == \"match\"` or `.matched`")


@dataclasses.dataclass(frozen=True)
class Reason:
    """A criterion that decided, or, a note, that is worth to be told."""

    criterion: str
    text: str
    figure: float
    bound: float
    index: tuple[int, ...] | None = None
    note: bool = False

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reason:
        index = document.get("index")
        return cls(document["criterion"], document["text"],
                   document["figure"], document["bound"],
                   None if index is None else tuple(index), document["note"])

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Side:
    """One tensor of a row: dtype, shape, extremes of its finite values."""

    dtype: str
    shape: tuple[int, ...]
    min: float | None
    max: float | None
    mean: float | None
    norm: float | None
    value: str | None

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Side | None:
        if document is None:
            return None
        return cls(document.get("dtype", ""), tuple(document["shape"]),
                   *map(document.get, ("min", "max", "mean", "norm", "value")))


@dataclasses.dataclass(frozen=True, repr=False)
class Row(Judged):
    """One pair of tensors or values, compared.

    The figures of docs/json-output.md are attributes (.max_abs, .norm_l2,
    .ulp_max, .index ...), None where the row does not have them; .fields has
    all there is.
    """

    name: str
    verdict: str
    reasons: tuple[Reason, ...]  # deciding ones first
    golden: Side | None
    target: Side | None
    fields: Mapping[str, Any] = dataclasses.field(compare=False)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Row:
        """From an object of `rows` of the JSON report."""
        return cls(document["name"], document["verdict"],
                   tuple(map(Reason.of, document["reasons"])),
                   Side.of(document.get("golden")),
                   Side.of(document.get("target")),
                   MappingProxyType(document))

    def __reduce__(self):
        return Row.of, (dict(self.fields),)

    def __getattr__(self, key: str) -> Any:
        if key not in ROW_KEYS:
            raise AttributeError(f"a Row has no {key!r}")
        return self.fields.get(key)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *ROW_KEYS]

    @property
    def reason(self) -> str:
        """What decided, in one line."""
        return self.reasons[0].text if self.reasons else ""

    def __repr__(self) -> str:
        return notebook.row_text(self)

    def _repr_html_(self) -> str:
        return notebook.row_html(self)


@dataclasses.dataclass(frozen=True)
class Divergence:
    """The first operator of two traces whose output differs."""

    name: str
    kind: str
    reason: str
    cause: str
    input_note: str
    row: int
    step: int | None
    rank: int | None
    call_path: tuple[str, ...]
    stack: tuple[str, ...]
    again: str

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Divergence | None:
        if document is None:
            return None
        return cls(*map(document.get, (
            "name", "kind", "reason", "cause", "input_note", "row", "step",
            "rank")), tuple(document["call_path"]), tuple(document["stack"]),
            document["again"])


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison(Judged):
    """Many pairs, compared: iterates over its rows."""

    verdict: str
    first_divergence: Divergence | None  # of traces
    counts: Mapping[str, int]
    rows: tuple[Row, ...]
    standard: str
    warnings: tuple[str, ...]
    seconds: float = dataclasses.field(compare=False)
    text: str = dataclasses.field(compare=False)  # as the command prints
    # The csv of a pre-check's figures; None of other comparisons.
    details: str | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any], text: str = "") -> Comparison:
        """From the JSON report."""
        return cls(document["verdict"],
                   Divergence.of(document["first_divergence"]),
                   MappingProxyType(document["counts"]),
                   tuple(map(Row.of, document["rows"])),
                   document["standard"]["name"], tuple(document["warnings"]),
                   document["seconds"], text)

    def __reduce__(self):
        values = [getattr(self, field.name)
                  for field in dataclasses.fields(self)]
        values[2] = dict(self.counts)
        return _comparison, tuple(values)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, key: int | str) -> Row:
        """The row of a number, or the first of a name."""
        if not isinstance(key, str):
            return self.rows[key]
        for row in self.rows:
            if row.name == key:
                return row
        raise KeyError(key)

    def of_verdict(self, *verdicts: str) -> tuple[Row, ...]:
        """Rows of these verdicts: .of_verdict("mismatch", "incomplete")."""
        return tuple(row for row in self.rows if row.verdict in verdicts)

    def __repr__(self) -> str:
        return self.text.rstrip("\n")

    def _repr_html_(self) -> str:
        return notebook.comparison_html(self)


def _comparison(*values: Any) -> Comparison:
    values = list(values)
    values[2] = MappingProxyType(values[2])
    return Comparison(*values)
