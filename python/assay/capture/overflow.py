"""Stops a run at the operator that makes NaN or infinity of finite inputs.

A trace with statistics is written as ever. What the writer says of each tensor
anyway, whether it is finite, points at calls that may be to blame; only then
the trace is flushed and searched, by the search of `assay overflow`. So both
name the same operator, by the same rules for masks, memory that nobody has
written, and operators inside modules.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, Optional

import torch

from assay import _core
from assay.capture.guards import Stop
from assay.capture.options import Options
from assay.capture.recorder import Recorder

Tensor = torch.Tensor

# As the writer says it: finite, -inf alone (a mask?), NaN or +inf.
FINITE, MINUS_INFINITY, NOT_FINITE = 0, 1, 2
# Innocent calls of one API in a step after which it is not asked about again.
MAX_INNOCENT = 8


# torch.tensor(float("inf")), masked_fill(mask, float("-inf")): no accidents.
_ASKED = ("nan", "inf", "-inf")


class OverflowStop(Stop):
    """Raised through the model's forward or backward pass.

    operator: its name; leaf: the first result that is not finite ("output.0",
    of a backward pass the gradient of an argument); birth: which one of the
    run it is, from 1; step, rank; trace: where everything up to here is.
    finding: all that `assay overflow --json` says of it.
    """

    def __init__(self, message: str, finding: dict, birth: int,
                 trace: str) -> None:
        super().__init__(message)
        self.finding = finding
        self.operator: str = finding["name"]
        self.leaf: str = finding["leaf"]["leaf"]
        self.step: int = finding["step"]
        self.rank: int = finding["rank"]
        self.birth = birth
        self.trace = trace


class OverflowRecorder(Recorder):
    """A recorder that raises OverflowStop at the birth that was asked for.

    before: how many births earlier steps of the run had.
    """

    def __init__(self, directory: str, options: Options, step: int, rank: int,
                 world_size: int, device: str, before: int = 0) -> None:
        super().__init__(directory, options, step, rank, world_size, device)
        self._step, self._rank = step, rank
        self._before = before
        self._found: list[dict] = []
        self._innocent: dict[str, int] = {}
        self._calls_seen = _Calls(self.writer)
        self.writer = self._calls_seen

    @property
    def births(self) -> int:
        """Of the run, up to now."""
        return self._before + len(self._found)

    def _tensor(self, op: int, role: str, path: str, tensor: Tensor,
                kind: str, of: str = "") -> None:
        super()._tensor(op, role, path, tensor, kind, of)
        if not of and tensor.device.type not in ("cpu", "meta"):
            self._calls_seen.on_device(op, role, path, tensor)

    def checkpoint(self, op: int) -> None:
        """A call is over: is it to blame?"""
        with self.lock:
            call = self._calls_seen.over(op)
            if call is None or self._innocent.get(
                    call.api, 0) >= MAX_INNOCENT:
                return
            known = len(self._found)
            self._search()
            if len(self._found) == known:
                self._innocent[call.api] = self._innocent.get(call.api, 0) + 1
            if self.births >= self.options.stop_after:
                self._stop()

    def _search(self) -> None:
        """Births in the trace as it is now, in the order in which they were
        found: what is known stays known."""
        self.drain()
        self.writer.flush()
        known = {birth["name"] for birth in self._found}
        report = json.loads(_core.find_overflow(self.directory))
        for finding in report["found"]:
            if (finding["kind"] == "born" and finding["name"] not in known
                    and not _asked_for(finding)):
                finding.update(step=self._step, rank=self._rank)
                self._found.append(finding)

    def _stop(self) -> None:
        birth = self.options.stop_after
        finding = self._found[birth - self._before - 1]
        message = _message(finding, birth, self.directory)
        self.close()
        raise OverflowStop(message, finding, birth, self.directory)


class _Call:
    """What is known of a call in progress."""

    __slots__ = ("api", "parent", "direction", "inputs", "outputs", "inner",
                 "asked", "devices")

    def __init__(self, api: str, parent: int, direction: str) -> None:
        self.api, self.parent, self.direction = api, parent, direction
        self.inputs = self.outputs = FINITE
        self.inner = FINITE   # what calls inside it put out
        self.asked = False    # it was given such a number as an argument
        self.devices: list[tuple[bool, Tensor, Tensor]] = []


class _Calls:
    """A writer that remembers of each call how finite it is."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._open: dict[int, _Call] = {}
        self._carried = False  # a gradient that came in was not finite
        for name in ("stack", "forget", "opaque", "unreadable", "flush",
                     "close"):
            setattr(self, name, getattr(writer, name))

    @property
    def counts(self) -> Any:
        return self._writer.counts

    @property
    def problem(self) -> str:
        return self._writer.problem

    def op(self, name: str, api: str, prefix: str, call: int, direction: str,
           parent: int = -1, *rest: Any) -> int:
        number = self._writer.op(name, api, prefix, call, direction, parent,
                                 *rest)
        self._open[number] = _Call(api, parent, direction)
        return number

    def value(self, op: int, role: str, leaf: str, kind: str,
              text: str) -> None:
        self._writer.value(op, role, leaf, kind, text)
        if text in _ASKED and op in self._open:
            self._open[op].asked = True

    def tensor(self, op: int, role: str, leaf: str, array: Any, kind: str,
               grad: bool, dtype: str = "", owned: bool = False,
               number: int = 0) -> None:
        state = self._writer.tensor(op, role, leaf, array, kind, grad, dtype,
                                    owned, number)
        if state > FINITE:
            self._seen(op, role, leaf, state)

    def _seen(self, op: int, role: str, leaf: str, state: int) -> None:
        call = self._open.get(op)
        if call is None:
            return
        if role not in ("input", "parameter"):
            call.outputs = max(call.outputs, state)
        elif not _is_overwritten(call.api, leaf):
            call.inputs = max(call.inputs, state)
            if call.direction == "backward":
                self._carried = True

    def on_device(self, op: int, role: str, leaf: str,
                  tensor: Tensor) -> None:
        """Asks the device, and does not wait for the answer."""
        call = self._open.get(op)
        takes = role in ("input", "parameter")
        if (call is None or not (tensor.is_floating_point()
                                 or tensor.is_complex())
                or takes and _is_overwritten(call.api, leaf)):
            return
        try:
            finite = torch.isfinite(tensor.detach()).all()
        except (RuntimeError, NotImplementedError):  # FP8 on most devices
            return
        call.devices.append((takes, finite, tensor.detach()))

    def over(self, op: int) -> Optional[_Call]:
        """The call, where it puts out what is not finite and neither its
        inputs nor a call inside it explain that."""
        call = self._open.pop(op, None)
        if call is None:
            return None
        if call.devices:
            _ask(call)
        if call.direction == "parameters_grad":
            # Goes on with the next parameter of the module.
            self._open[op] = _Call(call.api, call.parent, call.direction)
            return call if call.outputs and not self._carried else None
        parent = self._open.get(call.parent)
        if parent is not None:
            parent.inner = max(parent.inner, call.outputs, call.inner)
        if call.outputs <= call.inner or call.outputs == FINITE:
            return None
        if call.outputs == MINUS_INFINITY:
            explained = call.inputs > FINITE
        else:
            explained = call.inputs == NOT_FINITE
        return None if explained or call.asked else call


def _asked_for(finding: dict) -> bool:
    return any(leaf.get("value") in _ASKED for leaf in finding["inputs"])


def _is_overwritten(api: str, leaf: str) -> bool:
    """Whether what the leaf holds has no part in the result."""
    return leaf.startswith("input.out") or (api == "copy_"
                                            and leaf == "input.0")


def _ask(call: _Call) -> None:
    """Waits once for the answers of all outputs; for more only where one is
    not finite."""
    outputs = [(finite, tensor) for takes, finite, tensor in call.devices
               if not takes]
    if outputs and not bool(torch.stack([f for f, _ in outputs]).all()):
        call.outputs = max(call.outputs, *(_state(t) for _, t in outputs))
        call.inputs = max(call.inputs, FINITE, *(
            FINITE if bool(finite) else _state(tensor)
            for takes, finite, tensor in call.devices if takes))
    call.devices.clear()


def _state(tensor: Tensor) -> int:
    if bool(torch.isfinite(tensor).all()):
        return FINITE
    if tensor.is_complex():
        return NOT_FINITE
    masked = torch.isfinite(tensor) | (tensor == float("-inf"))
    return MINUS_INFINITY if bool(masked.all()) else NOT_FINITE


def _message(finding: dict, birth: int, trace: str) -> str:
    leaf = finding["leaf"]
    lines = [f"{finding['name']}: its inputs are finite, {leaf['leaf']} is "
             f"not: {_special(leaf)}"]
    if birth > 1:
        lines[0] += f" (birth {birth})"
    if finding.get("note"):
        lines.append(finding["note"])
    lines += [_leaf(one) for one in (*finding["inputs"], leaf)]
    if finding["stack"]:
        lines.append(finding["stack"][0])
    lines.append(f"step {finding['step']}, rank {finding['rank']}; everything "
                 f"up to here: assay overflow {shlex.quote(trace)}")
    return "\n  ".join(lines)


def _special(leaf: dict) -> str:
    """"3 NaN, 1 +inf of 24 elements"."""
    size = 1
    for extent in leaf["shape"]:
        size *= extent
    parts = [f"{leaf[key]:,} {name}" for key, name in (
        ("nan", "NaN"), ("pos_inf", "+inf"), ("neg_inf", "-inf"))
        if leaf.get(key)]
    return f"{', '.join(parts)} of {size:,} elements"


def _leaf(leaf: dict) -> str:
    if "shape" not in leaf:
        return f"{leaf['leaf']}  {leaf.get('value', '')}"
    text = f"{leaf['leaf']}  {leaf['dtype']} {leaf['shape']}"
    if any(leaf.get(key) for key in ("nan", "pos_inf", "neg_inf")):
        text += f"  {_special(leaf)}"
    for key in ("min", "max"):
        if key in leaf:
            text += f"  {key} {leaf[key]:.6g}"
    return text
