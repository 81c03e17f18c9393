"""One call, of a module or a function: what goes in, what comes out, and the
gradients that pass through it later."""

from __future__ import annotations

import functools
from typing import Any, Optional

import torch

from assay.capture.gradients import CallGradients, input_edges, newest_of
from assay.capture.leaves import arguments, results, tensors_in
from assay.capture.recorder import Recorder, in_backward

Tensor = torch.Tensor


class Call:
    """A call in progress, and its backward pass after it.

    `stem`: the operator's name up to the direction, `suffix` what follows it:
    ("Functional.linear.0", ""), ("Module.mlp.Linear", ".0").
    """

    __slots__ = ("recorder", "stem", "suffix", "api", "prefix", "number", "op",
                 "enclosing", "edges", "backward_op", "recompute", "frames",
                 "handled")

    def __init__(self, recorder: Recorder, prefix: str, api: str, stem: str,
                 suffix: str, number: int) -> None:
        self.recorder = recorder
        self.prefix, self.api = prefix, api
        self.stem, self.suffix, self.number = stem, suffix, number
        self.op = self.backward_op = -1
        self.enclosing: Optional[Call] = None
        self.edges: dict = {}
        self.recompute = False
        # Of a module's call: where it runs, while it runs, and the error that
        # was being handled when it began.
        self.frames: tuple = ()
        self.handled: Optional[BaseException] = None

    def name(self, direction: str) -> str:
        return f"{self.stem}.{direction}{self.suffix}"

    def begin(self, args: tuple, kwargs: dict,
              collective: Any = None) -> None:
        """Records the arguments as they are before the call."""
        recorder = self.recorder
        calls = recorder.state.calls
        self.enclosing = calls[-1] if calls else None
        self.recompute = in_backward()
        self.op = recorder.begin(
            self.name("forward"), self.api, self.prefix, self.number,
            "forward", parent=self._parent("op"), recompute=self.recompute,
            collective=collective)
        if not recorder.watches_gradients and self.op < 0:
            return
        found = list(arguments(args, kwargs))
        if recorder.watches_gradients:
            self.edges = input_edges(tensors_in(found))
        if self.op >= 0:
            recorder.leaves(self.op, "input", found)

    def end(self, result: Any) -> None:
        """Records the results and watches for their gradients."""
        recorder = self.recorder
        found = list(results(result))
        if self.op >= 0:
            recorder.leaves(self.op, "output", found)
        if recorder.watches_gradients and torch.is_grad_enabled():
            CallGradients(functools.partial(recorder.guarded, self),
                          self._begin_backward, self._gradient,
                          self._end_backward, recorder.passes).watch(
                tensors_in(found), self.edges, newest_of(self.edges))
        self.edges = {}
        recorder.checkpoint(self.op)

    def raised(self, error: Optional[BaseException]) -> None:
        """Records that there are no results, and why."""
        self.edges = {}  # nodes that hold this call: never collected
        why = ("the call was left" if error is None else
               f"{type(error).__name__}: {error}")
        if self.op >= 0:
            self.recorder.leaves(self.op, "output", [("output.raised", why)])

    def _parent(self, which: str) -> int:
        call = self.enclosing
        while call is not None and getattr(call, which) < 0:
            call = call.enclosing
        return -1 if call is None else getattr(call, which)

    def _begin_backward(self) -> None:
        if self.recorder.alive:
            self.backward_op = self.recorder.begin(
                self.name("backward"), self.api, self.prefix, self.number,
                "backward", parent=self._parent("backward_op"), stack=False)

    def _gradient(self, role: str, path: str, gradient: Tensor) -> None:
        if self.backward_op >= 0 and self.recorder.alive:
            self.recorder.tensor(self.backward_op, role, path, gradient)

    def _end_backward(self) -> None:
        self.recorder.checkpoint(self.backward_op)
