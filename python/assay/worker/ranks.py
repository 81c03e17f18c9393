"""Several ranks on one machine: this process starts the others itself, all
meet through a file, and rank 0 speaks for them."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import typing

import torch.distributed

from assay.worker.serve import Server, failure


def backend_of(device: str) -> str:
    """The collectives that a device type brings; gloo where it has none."""
    kind = device.split(":")[0]
    wanted = {"cuda": "nccl", "npu": "hccl", "musa": "mccl"}.get(kind, "gloo")
    known = {name.lower() for name in torch.distributed.Backend.backend_list}
    return wanted if wanted in known else "gloo"


class RankZero:
    """Starts ranks 1 ... N-1 and tells them every request."""

    def __init__(self, ranks: int, device: str, timeout: float):
        self._folder = tempfile.TemporaryDirectory(prefix="assay-ranks-")
        store = os.path.join(self._folder.name, "store")
        self._children = []
        for rank in range(1, ranks):
            command = [sys.executable, "-m", "assay.worker", *sys.argv[1:],
                       "--rank", str(rank), "--store", store]
            self._children.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL))
        join(store, 0, ranks, device, timeout)

    def close(self) -> None:
        torch.distributed.destroy_process_group()
        for child in self._children:
            child.wait(timeout=30)
        self._folder.cleanup()


def join(store: str, rank: int, ranks: int, device: str,
         timeout: float) -> None:
    torch.distributed.init_process_group(
        backend_of(device), init_method=f"file://{store}", rank=rank,
        world_size=ranks, timeout=datetime.timedelta(seconds=timeout))


class RankedServer(Server):
    """Every rank computes its part; the first that failed speaks."""

    def run(self, request: dict[str, typing.Any]) -> dict[str, typing.Any]:
        torch.distributed.broadcast_object_list([request], src=0)
        return self._together(request)

    def follow(self) -> None:
        """What ranks other than 0 do until the end."""
        while True:
            box: list[typing.Any] = [None]
            torch.distributed.broadcast_object_list(box, src=0)
            if box[0] is None:
                return
            self._together(box[0])

    def stop_others(self) -> None:
        torch.distributed.broadcast_object_list([None], src=0)

    def _together(self,
                  request: dict[str, typing.Any]) -> dict[str, typing.Any]:
        own = super().run(request)
        answers: list[typing.Any] = [None] * self.ranks
        torch.distributed.all_gather_object(answers, own)
        for rank, answer in enumerate(answers):
            if answer["status"] != "ok":
                return failure(request, answer["status"], answer["error"],
                               f"rank {rank}: {answer['message']}")
        return own
