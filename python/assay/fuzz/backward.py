"""The backward pass of a call, checked with the gradients that arrived."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from assay.capture.gradients import CallGradients, Edge, newest_of
from assay.capture.leaves import arguments, results, tensors_in
from assay.fuzz import modes
from assay.fuzz.casts import Casts
from assay.fuzz.trial import SPREAD_RUNS, Leaves, NotPossible, Trial

Tensor = torch.Tensor


class BackwardCall:
    """Waits for a call's gradients and computes them again from the same
    inputs.

    judge(trial, run): called once they are complete; run(judged) computes
    them again and hands them to the probes.
    """

    def __init__(self, trial: Trial,
                 judge: Callable[["BackwardCall"], None]) -> None:
        self.trial, self._judge = trial, judge
        self._inputs: dict[str, Tensor] = {}
        self._casts: dict[str, list[str]] = {}
        self._reset()

    def _reset(self) -> None:
        self.arrived: Leaves = {}  # gradients of outputs
        self.leaves: Leaves = {}  # gradients of inputs, as autograd has them

    def watch(self, op: str, guard: Callable[[], Any],
              edges: dict[Edge, str], passes: Any, casts: Casts) -> bool:
        """False where no gradient will come."""
        trial = self.trial
        outputs = list(tensors_in(results(trial.result)))
        if trial.regions.on:
            self._casts = casts.join(
                op, dict(tensors_in(arguments(trial.args, trial.kwargs))),
                [t.grad_fn for _, t in outputs if t.grad_fn is not None],
                edges)
        trial.leave_graph()
        self._inputs = dict(tensors_in(arguments(trial.args, trial.kwargs)))
        gradients = CallGradients(guard, self._reset, self._gradient,
                                  self._end, passes)
        return gradients.watch(outputs, edges, newest_of(edges))

    def _gradient(self, role: str, path: str, gradient: Tensor) -> None:
        if role == "input":
            self.arrived[path.replace("input", "output", 1)] = gradient
        else:
            self.leaves[path] = gradient

    def _end(self) -> None:
        if self.leaves:
            self._judge(self)
        self._reset()

    def _again(self, wide: bool, moved: Any = None) -> Leaves:
        wanted = {path: self._inputs[path.replace("output", "input", 1)]
                  for path in self.leaves}
        return self.trial.gradients(self.arrived, wanted, wide, moved)

    def _leave_out_shared(self, judged: modes.Judged) -> None:
        for path, calls in self._casts.items():
            if len(calls) > 1:
                judged.probe(path).incomplete(
                    "shared_cast", f"{len(calls)} calls use one cast of it, "
                    "which autocast keeps: the sum of their gradients comes")
                judged.leaves.pop(path, None)

    def repeat(self, judged: modes.Judged) -> None:
        self._demand_inputs()
        self._leave_out_shared(judged)
        for probe, _, found, again in judged.pairs(self._again(False)):
            probe.repeated(modes.host(found), modes.host(again))

    def improve_precision(self, judged: modes.Judged) -> None:
        trial = self.trial
        self._demand_inputs()
        if trial.drew:
            raise NotPossible("it draws random numbers: mode 'repeat' checks "
                              "it")
        trial.demand_wider()
        self._leave_out_shared(judged)
        base = self._again(True)
        spread = functools.lru_cache(None)(lambda: [
            self._again(True, trial.mover(run)) for run in range(SPREAD_RUNS)])
        for probe, path, found, wide in judged.pairs(base):
            # Autocast casts inputs, and so rounds their gradients.
            if trial.narrow is not None and found.dtype is torch.float32:
                found = found.to(trial.narrow)
            golden = wide.to(found.dtype)
            if not probe.against(modes.host(golden), modes.host(found)):
                modes.excuse(probe, path, golden, found, lambda: base,
                             trial, spread)

    def _demand_inputs(self) -> None:
        if self.trial.writes:
            raise NotPossible("it writes to its inputs: they are gone when "
                              "its gradients come", "incomplete")
        if self.trial.outdated():
            raise NotPossible("an input was written to before its gradients "
                              "came", "incomplete")
