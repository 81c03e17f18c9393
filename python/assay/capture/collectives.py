"""Communication between ranks: collectives, sends and receives.

torch.distributed, DistributedDataParallel, FSDP and functional collectives
all end in operators of the dispatcher (c10d::allreduce_, ...). While a capture
runs each has a kernel that looks at the call and passes it on. The kernel has
the dispatch key BackendSelect, through which every call goes (below autograd
and in inference mode too) and which c10d has no use for. So calls are seen by
whatever name they were imported, from Python and C++, in every thread, and
operators that do not communicate pay nothing.

Results are read when they have arrived, which is known when Work.wait()
returns; that method alone is replaced while a capture runs. What is waited
for in C++ (DistributedDataParallel does so) is found complete later, before
the next operator is recorded.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import torch

from assay import _core
from assay.capture.c10d import (KINDS, POINT_TO_POINT, Caller, Group, Kind,
                                first_tensor, tensors_at)
from assay.capture.guards import THREAD
from assay.capture.recorder import Recorder

Tensor = torch.Tensor


class Collectives:
    """Records the communication of this process until remove()."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        _tap.add(self)

    def remove(self) -> None:
        """Reads what has arrived, and sees no more calls."""
        if _tap.discard(self):
            with self.recorder.guarded("communication"):
                if self.recorder.in_flight.calls:
                    # Waits for what the device does up to here.
                    self.recorder.drain()
                self.recorder.in_flight.end()

    def begin(self, kind: Kind, arguments: dict) -> Optional["_Exchange"]:
        """A call starts; None where it is none of the user's tensors."""
        caller = Caller()
        if caller.of_objects:
            return None
        exchange = _Exchange(self.recorder, kind, arguments, caller)
        exchange.begin()
        return exchange


class _Exchange:
    """One call."""

    def __init__(self, recorder: Recorder, kind: Kind, arguments: dict,
                 caller: Caller) -> None:
        self.recorder, self.kind = recorder, kind
        self.arguments = arguments
        self.api = f"i{kind.api}" if caller.immediate(kind.api) else kind.api
        self.caller = caller
        self.group = Group(arguments.get("process_group"), caller)
        self.op = -1
        self.stem = f"Distributed.{self.api}"
        self._results: list[tuple[str, Tensor]] = []

    def begin(self) -> None:
        """Records what this rank contributes."""
        recorder, kind = self.recorder, self.kind
        root = (self.group.global_rank(self.arguments.get(kind.root[0]))
                if kind.root else None)
        number = recorder.next_call(f"Distributed.{self.api}")
        self.op = recorder.begin(
            f"Distributed.{self.api}.{number}.forward", self.api,
            "Distributed", number, "forward", parent=recorder.enclosing_op(),
            recompute=recorder.recomputing(),
            collective=_core.Group(
                self.group.id, self.group.ranks,
                root if kind.api in POINT_TO_POINT else None))
        if self.op < 0:
            return
        if kind.gives:
            argument, place = kind.gives
            recorder.leaves(self.op, "input", tensors_at(
                kind, self.arguments, argument, f"input.{place}"))
        reduction = self.caller.reduction
        if reduction and "reduce_op" in self.arguments:
            self._value("op", "torch.distributed.ReduceOp", reduction)
        if root is not None:
            self._value(kind.root[1], "int", str(root))
        for name in kind.values:
            recorder.leaves(self.op, "input", [
                (f"input.{name}.{i}", size) for i, size
                in enumerate(self.arguments.get(name) or ())])
        self._results = self._expected(root)

    def _value(self, name: str, kind: str, text: str) -> None:
        self.recorder.value(self.op, "input", f"input.{name}", kind, text)

    def _expected(self, root: Optional[int]) -> list[tuple[str, Tensor]]:
        """Where results arrive. At ranks that are no destination nothing
        does: torch does not define what the tensor holds there."""
        kind = self.kind
        if kind.gets is None or (kind.root and kind.root[1] == "dst"
                                 and root is not None
                                 and root != torch.distributed.get_rank()):
            return []
        return tensors_at(kind, self.arguments, kind.gets, "output.0")

    def issued(self, result: Any) -> None:
        """The call returned; its results may take longer."""
        boxed = result[-1] if isinstance(result, (tuple, list)) else result
        unbox = getattr(torch.distributed.Work, "unbox", None)
        in_flight = self.recorder.in_flight
        if unbox is not None:
            in_flight.add(unbox(boxed), self.arrived)
        elif self.caller.waits:
            in_flight.add_next(self.arrived)
        else:
            self.arrived("this torch does not tell when it is complete", None)

    def raised(self, error: BaseException) -> None:
        """The call failed."""
        if self.op >= 0:
            self.recorder.leaves(self.op, "output", [
                ("output.raised", f"{type(error).__name__}: {error}")])

    def arrived(self, why_not: str, work: Any) -> None:
        """Records the results, or why there are none."""
        recorder = self.recorder
        if not recorder.alive:
            return
        with recorder.guarded(self):
            self._written()
            if self.op >= 0 and not why_not:
                self._source(work)
            for path, tensor in self._results:
                if why_not:
                    recorder.unreadable(self.op, "output", path, tensor,
                                        why_not)
                else:
                    recorder.tensor(self.op, "output", path, tensor)

    def _source(self, work: Any) -> None:
        """Of a receive from anybody: who sent."""
        if self.kind.api == "recv" and self.kind.root is None:
            source = self.group.global_rank(work._source_rank())
            if source is not None:
                self._value("src", "int", str(source))

    def _written(self) -> None:
        """c10d writes without counting the tensors' versions."""
        if self.kind.gets is not None:
            for _, tensor in tensors_at(self.kind, self.arguments,
                                        self.kind.gets, ""):
                self.recorder.identities.written(tensor)


class _Tap:
    """The kernels and Work.wait, there while somebody records."""

    def __init__(self) -> None:
        self.users: list[Collectives] = []
        self._library: Any = None
        self._wait: Any = None

    def add(self, user: Collectives) -> None:
        self.users.append(user)
        if len(self.users) == 1 and torch.distributed.is_available():
            if self._library is None:
                self._library = _kernels()
            self._replace_wait()

    def discard(self, user: Collectives) -> bool:
        """False where the user was none."""
        if user not in self.users:
            return False
        self.users.remove(user)
        if not self.users and self._library is not None:
            torch.distributed.Work.wait = self._wait
            destroy = getattr(self._library, "_destroy", None)
            if destroy is not None:  # else the kernels stay, and pass on
                destroy()
                self._library = None
        return True

    def _replace_wait(self) -> None:
        wait = self._wait = torch.distributed.Work.wait

        @functools.wraps(wait)
        def waited(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = wait(work, *args, **kwargs)
            for user in list(self.users):
                with user.recorder.guarded("communication"):
                    user.recorder.in_flight.waited(work)
            return result

        torch.distributed.Work.wait = waited


_tap = _Tap()


def _kernels() -> Any:
    library = torch.library.Library("c10d", "IMPL")
    for name, kind in KINDS.items():
        packet = getattr(torch.ops.c10d, name, None)
        if packet is not None:  # each version of torch has its own set
            library.impl(packet.default, _kernel(packet.default, kind),
                         "BackendSelect")
    return library


def _kernel(op: Any, kind: Kind) -> Callable:
    names = [argument.name for argument in op._schema.arguments]
    below = torch._C._dispatch_keyset_full_after(
        torch._C.DispatchKey.BackendSelect)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        arguments = {**dict(zip(names, args)), **kwargs}
        calls = [] if THREAD.busy else _begun(kind, arguments)
        tensor = first_tensor(arguments)
        try:
            result = op.redispatch(torch._C._dispatch_keys(tensor) & below,
                                   *args, **kwargs)
        except BaseException as error:
            for call in calls:
                with call.recorder.guarded(call):
                    call.raised(error)
            raise
        for call in calls:
            with call.recorder.guarded(call):
                call.issued(result)
        return result

    return kernel


def _begun(kind: Kind, arguments: dict) -> list[_Exchange]:
    calls = []
    for user in list(_tap.users):
        if user.recorder.alive:
            with user.recorder.guarded(kind.api):
                call = user.begin(kind, arguments)
                if call is not None:
                    calls.append(call)
    return calls
