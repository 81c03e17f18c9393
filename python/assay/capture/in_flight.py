"""Communication calls whose results have not arrived yet."""

from __future__ import annotations

import threading
from typing import Any, Callable

from assay.capture.leaves import leaves, tensors_in

Arrived = Callable[[str, Any], None]


class InFlight:
    """Hands on the results of calls once they are complete: when the program
    has waited for a call, or when the call says so.

    `calls` is to be looked at before poll(), which costs more.
    """

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Any, Arrived]] = {}
        self._next = threading.local()
        self._lock = threading.RLock()

    def add(self, work: Any, arrived: Arrived) -> None:
        """arrived("", work): results can be read; else why they cannot."""
        with self._lock:
            self.calls[id(work)] = work, arrived

    def add_next(self, arrived: Arrived) -> None:
        """The same of the call that this thread waits for next."""
        self._next.arrived = arrived

    def waited(self, work: Any) -> None:
        """The program has waited for a call, perhaps for one of ours."""
        with self._lock:
            found = self.calls.pop(id(work), None)
        arrived = getattr(self._next, "arrived", None)
        if found is not None:
            found[1]("", work)
        elif arrived is not None:
            self._next.arrived = None
            arrived("", work)

    def poll(self) -> None:
        """Hands on what is complete by now."""
        with self._lock:
            ready = [key for key, (work, _) in self.calls.items()
                     if is_complete(work)]
            found = [self.calls.pop(key) for key in ready]
        for work, arrived in found:
            arrived("", work)

    def end(self) -> None:
        """The step is over; what is not complete stays unknown."""
        self.poll()
        with self._lock:
            found, self.calls = list(self.calls.values()), {}
        for work, arrived in found:
            arrived("the call was not complete when the capture ended", work)


def is_complete(work: Any) -> bool:
    """Whether a call's results can be read by the host.

    What waits for a call's future (DistributedDataParallel) goes on a little
    before the call itself says that it is complete. The future of a call on a
    device is done when the device has been told of it, so it does not count.
    """
    if work.is_completed():
        return True
    try:
        future = work.get_future()
        found = tensors_in(leaves(future.value(), "")) if future.done() else []
        return bool(found) and all(tensor.is_cpu for _, tensor in found)
    except Exception:  # sends and receives have no future
        return False
