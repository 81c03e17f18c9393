"""check_determinism: a function called twice from the same state."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import tempfile
from typing import Any, Callable, Optional, Union

import torch

from assay import _core
from assay.capture.session import Capture
from assay.determinism.state import Snapshot


@dataclasses.dataclass(frozen=True)
class Parting:
    """Where two calls first part.

    kind: "operator" (its inputs agree, an output does not), "random" (the
    same, and it draws random numbers), "calls" (other operators are called),
    "weights", "data", "argument" (what came in differs), "exchange" (another
    tensor is used) or "unknown".
    """

    kind: str
    op: str
    leaf: str
    run: int
    cause: str
    call_path: tuple[str, ...]
    stack: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Determinism:
    """What check_determinism found; str() is what `assay determinism` prints.

    verdict: "deterministic", "not deterministic", "another start" (what the
    calls were given differs) or "incomplete" (not all could be compared).
    """

    verdict: str
    first: Optional[Parting]
    counts: dict[str, int]
    text: str = dataclasses.field(repr=False)

    @property
    def deterministic(self) -> bool:
        return self.verdict == "deterministic"

    def __str__(self) -> str:
        return self.text


def check_determinism(step: Callable[[], Any], *state: Any, runs: int = 2,
                      level: str = "mix", mode: str = "hash",
                      path: Union[None, str, "os.PathLike[str]"] = None,
                      **options: Any) -> Determinism:
    """Calls `step` `runs` times from the same state and compares, bit for
    bit, everything that is computed.

        found = assay.check_determinism(lambda: train(batch), model, optimizer)
        assert found.deterministic, found

    state: modules, optimizers, generators and whatever has state_dict() and
    load_state_dict(). Before each call, and at the end, they, the gradients
    and the random generators of Python, numpy and torch are put back as they
    were. Modules among them name what is captured.
    level, mode, options: as assay.capture's; mode "tensor" gives figures.
    path: where the traces are left, in run1, run2 ...; None leaves none.

    What `step` changes elsewhere stays changed. An exception of its passes
    through, after the state was put back.
    """
    if runs < 2:
        raise ValueError(f"runs: {runs}, expected 2 or more")
    if mode not in ("hash", "tensor"):
        raise ValueError(f"mode: {mode!r}, expected 'hash' or 'tensor': "
                         "statistics do not tell bits apart")
    models = [one for one in state if isinstance(one, torch.nn.Module)]
    model = models[0] if len(models) == 1 else models or None
    if model is None and level == "mix":
        level = "api"  # which is the same, and not warned of
    snapshot = Snapshot(state)
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        places = [pathlib.Path(path or folder) / f"run{i}"
                  for i in range(1, runs + 1)]
        try:
            for place in places:
                snapshot.restore()
                with Capture(place, model, level=level, mode=mode, **options):
                    step()
        finally:
            snapshot.restore()
        document, text = _core.find_nondeterminism(
            [str(place) for place in places],
            getattr(step, "__qualname__", type(step).__name__))
    return _result(json.loads(document), text)


def _result(found: dict, text: str) -> Determinism:
    first = found["first"]
    if first is not None:
        first = Parting(
            first["kind"], first["op"], first["leaf"], first["run"],
            first["cause"], tuple(first["call_path"]), tuple(first["stack"]))
    return Determinism(found["verdict"], first, found["counts"], text)
