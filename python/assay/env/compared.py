"""Two snapshots, what usually breaks alignment first: assay.env.diff."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Union

from assay.results import Comparison
from assay.traces import reported

Snapshot = Union[str, "os.PathLike[str]", "Mapping[str, Any]"]


def diff(golden: Snapshot, target: Snapshot, *,
         sections: Union[str, Sequence[str]] = (),
         ignore: Union[str, Sequence[str]] = (),
         flags: Sequence[str] = ()) -> Comparison:
    """`assay env diff` of two snapshots (docs/environment.md).

    golden, target: files, or what assay.env.snapshot and assay.record_init
    return. sections: only these ("switches"). ignore: globs of keys
    ("libraries.*"). A row is a key, in the order in which it is worth to be
    looked at.
    """
    command = ["env", "diff"]
    for flag, values in (("--section", sections), ("--ignore", ignore)):
        for value in [values] if isinstance(values, str) else values:
            command += [flag, value]
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        return reported([*command, *map(str, flags)],
                        _file(golden, pathlib.Path(folder, "golden.json")),
                        _file(target, pathlib.Path(folder, "target.json")))


def _file(side: Snapshot, path: pathlib.Path) -> "str | os.PathLike[str]":
    if not isinstance(side, Mapping):
        return side
    path.write_text(json.dumps(side), encoding="utf-8")
    return path
