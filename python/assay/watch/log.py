"""The file of a watch: JSON lines, each in one write, whatever ends the run."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

FORMAT, VERSION = "assay-watch", 1


def of_rank(path: str | os.PathLike, rank: int, world: int) -> pathlib.Path:
    """run.jsonl, or run.rank3.jsonl where several ranks train together."""
    path = pathlib.Path(path)
    if world <= 1:
        return path
    return path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


def step_of(line: bytes) -> int | None:
    """The step of a line; None for a heading and for what is no whole line."""
    try:
        step = json.loads(line).get("step")
    except (ValueError, AttributeError):
        return None
    return step if isinstance(step, int) else None


def last_step(path: pathlib.Path) -> int:
    """The last step that the file at `path` holds, 0 without one."""
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        steps = [step_of(line) for line in file]
    return max((step for step in steps if step is not None), default=0)


class Log:
    """Appends lines. A line is one write() and nothing is buffered, so a
    process that is killed leaves whole lines."""

    def __init__(self, path: pathlib.Path, heading: dict[str, Any],
                 steps_done: int) -> None:
        """Goes on with the file of a run that has done `steps_done` steps:
        later ones, which a run that was killed logged behind its last
        checkpoint, will be done again and are cut off, and so is a line that
        is not whole. A file of another run, when none is done yet, is moved
        aside."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and steps_done == 0 and last_step(path) > 0:
            path.rename(_free_name(path))
        elif path.exists():
            _cut(path, steps_done)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT,
                             0o644)
        self.write({"format": FORMAT, "version": VERSION, **heading})

    def write(self, members: dict[str, Any]) -> None:
        text = json.dumps(members, separators=(",", ":")) + "\n"
        data = memoryview(text.encode())
        while data:  # a full disk raises; a signal may leave a part
            data = data[os.write(self._file, data):]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _free_name(path: pathlib.Path) -> pathlib.Path:
    number = 1
    while True:
        name = path.with_name(f"{path.stem}.{number}{path.suffix}")
        if not name.exists():
            return name
        number += 1


def _cut(path: pathlib.Path, steps_done: int) -> None:
    """Leaves the whole lines up to the first later step."""
    length = 0
    with open(path, "rb") as file:
        for line in file:
            step = step_of(line)
            if not line.endswith(b"\n") or (step or 0) > steps_done:
                break
            length += len(line)
    os.truncate(path, length)
