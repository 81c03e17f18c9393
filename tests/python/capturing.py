"""What the tests of assay.capture share: a trace's rows, and runs held to
the same without a capture."""

from __future__ import annotations

import json
import subprocess
import warnings
from typing import Any, Callable

import torch

import assay
from paths import ASSAY


def small() -> torch.nn.Module:
    """A module within a module."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.GELU(),
        torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()),
        torch.nn.Linear(8, 2))


def batch() -> torch.Tensor:
    """An input of small()."""
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def rows(trace) -> dict[str, str]:
    """Rows of a trace as `assay inspect` prints them, and the rest of the
    line: dtype and shape, or why there is nothing to read."""
    done = subprocess.run([ASSAY, "inspect", "--all", trace],
                          capture_output=True, text=True)
    assert done.returncode in (0, 4), done.stderr
    found = {}
    for line in done.stdout.splitlines()[2:]:
        name, _, rest = line.strip().partition(" ")
        if name:
            found[name] = rest.strip()
    return found


def lines(directory) -> list[dict]:
    """The lines of a trace's file; one that breaks off is left out."""
    found = []
    for line in (directory / "trace.jsonl").read_text().split("\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def compared(a, b) -> int:
    """The exit code of `assay compare`."""
    return subprocess.run([ASSAY, "compare", a, b, "--quiet"],
                          capture_output=True).returncode


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [t.detach().clone() for t in
            torch.utils._pytree.tree_leaves(value)
            if isinstance(t, torch.Tensor)]


def unchanged(tmp_path, run: Callable[[], Any], model=None, quiet=True,
              **options) -> dict[str, str]:
    """Runs with and without a capture: the same bits and no warning. Returns
    the trace's rows."""
    expected = tensors_of(run())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with assay.capture(tmp_path / "trace", model, **options) as capture:
            found = tensors_of(run())
    if quiet:
        mine = [str(w.message) for w in said if "assay" in str(w.message)]
        assert mine == [], mine
    assert capture.faults == [], capture.faults
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype and torch.equal(
            a.view(torch.uint8) if a.dim() and a.is_contiguous() and
            not a.is_complex() else a,
            b.view(torch.uint8) if b.dim() and b.is_contiguous() and
            not b.is_complex() else b)
    return rows(tmp_path / "trace")
