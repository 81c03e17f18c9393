"""How results look: text at a prompt, tables in a notebook."""

from __future__ import annotations

import html
from typing import Any, Iterable

_COLOURS = {"match": "#1a7f37", "mismatch": "#cf222e", "incomplete": "#9a6700",
            "empty": "#6e7781"}
# Rows of a table; what differs comes first.
_SHOWN = 30
_ORDER = ("mismatch", "incomplete", "empty", "match")
_FIGURES = (("max abs", "max_abs"), ("max rel", "max_rel"),
            ("rel. L2", "norm_l2"), ("max ulp", "ulp_max"),
            ("cosine", "cosine"), ("alpha", "alpha"), ("bias", "bias"))


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def _side_text(side: Any) -> str:
    if side is None:
        return "missing"
    if side.dtype or side.value is None:
        return f"{side.dtype} {list(side.shape)}"
    return side.value


def _sides_text(row: Any) -> str:
    golden, target = _side_text(row.golden), _side_text(row.target)
    return golden if golden == target else f"{golden} / {target}"


def row_text(row: Any) -> str:
    """Some lines: the verdict, why, the figures, the likely cause."""
    lines = [f"{row.verdict}   {row.name}   {_sides_text(row)}"]
    lines += [reason.text for reason in row.reasons]
    if row.bitwise_equal is False:
        lines.append("   ".join(f"{label} {_number(getattr(row, key))}"
                                for label, key in _FIGURES))
    if row.index is not None:
        lines.append(f"max abs at {row.index}: golden "
                     f"{_number(row.golden_at_index)}, target "
                     f"{_number(row.target_at_index)}")
    if row.cause:
        lines.append(row.cause)
    return "\n  ".join(line.replace("\n", "\\n") for line in lines)


def _verdict(verdict: str, word: str = "") -> str:
    colour = _COLOURS.get(verdict, "inherit")
    return f'<b style="color:{colour}">{html.escape(word or verdict)}</b>'


def _origin(row: Any) -> str:
    """Of a mismatch in a trace where it comes from: "born", "inherited"."""
    return "" if row.origin in (None, "none") else row.origin


def _place(row: Any) -> str:
    return f"{row.step}/{row.rank}"


def _cells(tag: str, cells: Iterable[str]) -> str:
    style = "text-align:left;vertical-align:top"
    return "".join(f'<{tag} style="{style}">{cell}</{tag}>' for cell in cells)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows)
    return (f"<table><thead><tr>{_cells('th', map(html.escape, head))}</tr>"
            f"</thead><tbody>{body}</tbody></table>")


def row_html(row: Any) -> str:
    """The verdict and why, both sides, the figures."""
    parts = [f"<div>{_verdict(row.verdict)} &nbsp; "
             f"<code>{html.escape(row.name)}</code></div>"]
    parts += [f"<div>{html.escape(text)}</div>"
              for text in (*(reason.text for reason in row.reasons), row.cause)
              if text]
    sides = [(label, side) for label, side in (("golden", row.golden),
                                               ("target", row.target)) if side]
    parts.append(_table(
        ("", "dtype", "shape", "min", "max", "mean"),
        ([label, html.escape(side.dtype), html.escape(str(list(side.shape))),
          *map(_number, (side.min, side.max, side.mean))]
         for label, side in sides)))
    if row.bitwise_equal is False:
        parts.append(_table(
            (label for label, _ in _FIGURES),
            [[_number(getattr(row, key)) for _, key in _FIGURES]]))
    return "".join(parts)


def comparison_html(found: Any) -> str:
    """The verdict, the first divergence, counts, the rows that matter."""
    counts = " &nbsp; ".join(
        f"{word} {found.counts[word]:,}" for word in _COLOURS)
    parts = [f"<div>{_verdict(found.verdict)}{_first(found)}</div>",
             f"<div>{counts} &nbsp; standard "
             f"{html.escape(found.standard)}</div>"]
    rows = sorted(found.rows, key=lambda row: (
        _ORDER.index(row.verdict), row.origin == "inherited"))
    several = len({_place(row) for row in rows}) > 1
    parts.append(_table(
        ("verdict", *(["step/rank"] if several else []), "name", "tensors",
         "rel. L2", "max abs", "reason"),
        ([_verdict(row.verdict, _origin(row)),
          *([_place(row)] if several else []),
          f"<code>{html.escape(row.name)}</code>",
          html.escape(_sides_text(row)), _number(row.norm_l2),
          _number(row.max_abs), html.escape(_because(row))]
         for row in rows[:_SHOWN])))
    if len(rows) > _SHOWN:
        parts.append(f"<div>{len(rows) - _SHOWN:,} more in .rows</div>")
    return "".join(parts)


def _first(found: Any) -> str:
    first = found.first_divergence
    if first is None:
        return ""
    lines = [line for line in (first.reason, first.cause) if line]
    return (f" &nbsp; first divergence: <code>{html.escape(first.name)}"
            "</code>" + "".join(f"<br>{html.escape(line)}" for line in lines))


def _because(row: Any) -> str:
    return "; ".join(text for text in (row.reason, row.cause) if text)
