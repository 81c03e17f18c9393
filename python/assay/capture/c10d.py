"""What each communication operator of torch (c10d::*) takes and gives, under
the names of torch.distributed."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Optional

import torch

from assay.capture.leaves import leaves

Tensor = torch.Tensor


@dataclasses.dataclass(frozen=True)
class Kind:
    """An operator of c10d.

    `gives` is what this rank contributes (argument of the schema, place among
    the arguments of the Python function); `gets` where results arrive. What
    is only handed over to be written to is not read: it is undefined until
    the call is complete. `bare`: arguments that torch.distributed wraps into
    a list of one. `root`: the argument that names a rank, and how
    torch.distributed calls it; results arrive at a "dst" alone.
    """

    api: str
    gives: tuple[str, int] | None
    gets: str | None
    bare: tuple[str, ...] = ()
    root: tuple[str, str] | None = None
    values: tuple[str, ...] = ()


KINDS = {
    "allreduce_": Kind("all_reduce", ("tensors", 0), "tensors",
                       bare=("tensors",)),
    "allreduce_coalesced_": Kind("all_reduce_coalesced", ("tensors", 0),
                                 "tensors"),
    "broadcast_": Kind("broadcast", ("tensors", 0), "tensors",
                       bare=("tensors",), root=("root_rank", "src")),
    "reduce_": Kind("reduce", ("tensors", 0), "tensors", bare=("tensors",),
                    root=("root_rank", "dst")),
    "allgather_": Kind("all_gather", ("input_tensors", 1), "output_tensors",
                       bare=("input_tensors", "output_tensors")),
    "allgather_coalesced_": Kind("all_gather_coalesced", ("input_list", 1),
                                 "output_lists"),
    "_allgather_base_": Kind("all_gather_into_tensor", ("input_tensor", 1),
                             "output_tensor"),
    "allgather_into_tensor_coalesced_": Kind(
        "all_gather_into_tensor_coalesced", ("inputs", 1), "outputs"),
    "reduce_scatter_": Kind("reduce_scatter", ("input_tensors", 1),
                            "output_tensors",
                            bare=("input_tensors", "output_tensors")),
    "_reduce_scatter_base_": Kind("reduce_scatter_tensor",
                                  ("input_tensor", 1), "output_tensor"),
    "reduce_scatter_tensor_coalesced_": Kind(
        "reduce_scatter_tensor_coalesced", ("inputs", 1), "outputs"),
    "gather_": Kind("gather", ("input_tensors", 0), "output_tensors",
                    bare=("input_tensors", "output_tensors"),
                    root=("root_rank", "dst")),
    "scatter_": Kind("scatter", ("input_tensors", 1), "output_tensors",
                     bare=("input_tensors", "output_tensors"),
                     root=("root_rank", "src")),
    "alltoall_": Kind("all_to_all", ("input_tensors", 1), "output_tensors"),
    "alltoall_base_": Kind("all_to_all_single", ("input", 1), "output",
                           values=("output_split_sizes",
                                   "input_split_sizes")),
    "send": Kind("send", ("tensors", 0), None, bare=("tensors",),
                 root=("dst", "dst")),
    "recv_": Kind("recv", None, "tensors", bare=("tensors",),
                  root=("src", "src")),
    "recv_any_source_": Kind("recv", None, "tensors", bare=("tensors",)),
}
POINT_TO_POINT = ("send", "recv")


def tensors_at(kind: Kind, arguments: dict, name: str,
               path: str) -> list[tuple[str, Tensor]]:
    """The tensors of one argument, each under its path."""
    value = arguments.get(name)
    if name in kind.bare and isinstance(value, (list, tuple)) and (
            len(value) == 1):
        value = value[0]
    return [(leaf, tensor) for leaf, tensor in leaves(value, path)
            if isinstance(tensor, Tensor)]


def first_tensor(arguments: dict) -> Optional[Tensor]:
    """A tensor of the call: all of them are on one device."""
    for value in arguments.values():
        for _, leaf in leaves(value, ""):
            if isinstance(leaf, Tensor):
                return leaf
    return None


class Caller:
    """The functions of torch.distributed that a call came through.

    None where C++ made the call, as DistributedDataParallel does.
    """

    def __init__(self) -> None:
        self.names: list[str] = []  # innermost first
        self.reduction: Optional[str] = None
        self.group: Any = None
        self._asynchronous: Optional[bool] = None
        frame = sys._getframe(1)
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if module in _PYTHON:
                self.names.append(frame.f_code.co_name)
                self._look_at(frame.f_locals)
            elif not module.startswith(("torch.", "assay.")):
                return
            frame = frame.f_back

    def _look_at(self, variables: dict) -> None:
        """What c10d's operators do not tell Python in this torch: of the
        reduction none does, of the group those before 2.2 or so do not."""
        if self.reduction is None:
            self.reduction = _reduction(variables)
        if self.group is None:
            found = variables.get("group")
            if isinstance(found, torch.distributed.ProcessGroup):
                self.group = found
        if self._asynchronous is None:
            self._asynchronous = variables.get("async_op")

    @property
    def waits(self) -> bool:
        """Whether the call is waited for before torch.distributed returns."""
        return self._asynchronous is False or any(
            name in POINT_TO_POINT for name in self.names)

    @property
    def of_objects(self) -> bool:
        """Whether pickles are sent (all_gather_object and the like)."""
        return any("object" in name for name in self.names)

    def immediate(self, api: str) -> bool:
        """Whether this is isend, irecv, for "send", "recv"."""
        return f"i{api}" in self.names and api not in self.names


_PYTHON = ("torch.distributed.distributed_c10d",
           "torch.distributed._functional_collectives")


def _reduction(variables: dict) -> Optional[str]:
    """The reduction that a function was asked for: c10d's operators take it
    as an object that Python cannot look into."""
    found = variables.get("op", variables.get("reduceOp"))
    if isinstance(found, str):
        return f"RedOpType.{found.upper()}"
    distributed = torch.distributed
    if isinstance(found, distributed.ReduceOp):
        return str(getattr(found, "op", found))
    if isinstance(found, getattr(distributed.ReduceOp, "RedOpType", ())):
        return str(found)
    return None


class Group:
    """A process group, by the numbers that its ranks have in the job."""

    def __init__(self, boxed: Any, caller: Caller) -> None:
        """boxed: the group as c10d operators take it."""
        self.id, self.ranks = "", []
        distributed = torch.distributed
        unbox = getattr(distributed.ProcessGroup, "unbox", None)
        if unbox is not None:
            group = unbox(boxed)
        elif caller.names:
            group = caller.group or distributed.group.WORLD
        else:  # C++ made the call, and this torch does not say with whom
            return
        self.id = str(getattr(group, "group_name", ""))
        try:
            self.ranks = list(distributed.get_process_group_ranks(group))
        except Exception:  # a group that torch.distributed did not make
            self.ranks = []

    def global_rank(self, rank: Any) -> Optional[int]:
        """The number in the job of a number in the group."""
        if isinstance(rank, int) and 0 <= rank < len(self.ranks):
            return self.ranks[rank]
        return None
