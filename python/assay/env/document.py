"""Snapshots from inside of a training process."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Optional, Union

from assay import _core
from assay.env.collect import collected
from assay.env.torch_facts import plain

Path = Union[str, "os.PathLike[str]"]


def snapshot(path: Optional[Path] = None, args: Any = None,
             config: Any = None, all_variables: bool = False) -> dict:
    """What this process runs with; written to `path` where that is given.

    args, config: hyperparameters, as an argparse.Namespace, a dataclass, a
    mapping, or an object with attributes; nested ones get dotted keys, and
    those of `config` win. Switches are as they are now: call this once the
    training has set its own. Of environment variables, those that may matter,
    unless all_variables. Secrets are replaced by a mark.
    """
    return write(path, document(args, config), all_variables)


def document(args: Any = None, config: Any = None) -> dict[str, Any]:
    """What a snapshot is made of, for those that have more to say."""
    made = collected()
    values: dict[str, Any] = {}
    for source in (args, config):
        if source is not None:
            values.update(hyperparameters(source))
    if args is not None or config is not None:
        made["sections"]["hyperparameters"] = {"collected": True,
                                               "values": values}
    return made


def write(path: Optional[Path], made: dict[str, Any],
          all_variables: bool = False) -> dict:
    """Completes a document, writes it at once or not at all."""
    import datetime
    made["taken"] = datetime.datetime.now(
        datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = _core.finish_snapshot(json.dumps(made), all_variables)
    if path is not None:
        target = pathlib.Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, target)
    return json.loads(text)


_DEPTH = 16  # of nested settings: an object may hold itself


def hyperparameters(source: Any) -> dict[str, Any]:
    """Flat, keys as command lines and YAML files have them in a snapshot."""
    found: dict[str, Any] = {}
    _flatten("", source, found, _DEPTH)
    return found


def _members(source: Any) -> Optional[Mapping]:
    if isinstance(source, Mapping):
        return source
    if dataclasses.is_dataclass(source) and not isinstance(source, type):
        return {field.name: getattr(source, field.name, None)
                for field in dataclasses.fields(source)}
    if type(source).__name__ == "Namespace" or hasattr(source, "to_dict"):
        try:
            return source.to_dict() if hasattr(source, "to_dict") else vars(
                source)
        except Exception:  # a to_dict() that wants arguments
            return None
    return None


def _flatten(key: str, value: Any, found: dict[str, Any],
             depth: int) -> None:
    members = _members(value) if depth > 0 else None
    if members is None and not key:
        members = dict(vars(value)) if hasattr(value, "__dict__") else None
        if members is None:
            raise TypeError(f"hyperparameters: a {type(value).__name__}, "
                            "expected a Namespace, a dataclass or a mapping")
    if members is not None:
        for name, item in members.items():
            name = str(name).lstrip("-").replace("-", "_").lower()
            if key or not name.startswith("_"):
                _flatten(f"{key}.{name}" if key else name, item, found,
                         depth - 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        _flatten_list(key, sorted(value, key=repr) if isinstance(
            value, (set, frozenset)) else list(value), found, depth)
    else:
        found[key] = _scalar(value)


def _flatten_list(key: str, items: list, found: dict[str, Any],
                  depth: int) -> None:
    """Scalars together, as an option with several values; others numbered."""
    scalars = []
    for i, item in enumerate(items):
        if _members(item) is not None or isinstance(item, (list, tuple)):
            _flatten(f"{key}.{i}", item, found, depth - 1)
        else:
            value = _scalar(item)
            scalars.append(json.dumps(value) if isinstance(
                value, (bool, int, float)) or value is None else value)
    if scalars or not items:
        found[key] = " ".join(scalars) if items else "[]"


def _scalar(value: Any) -> Any:
    """Text without addresses, which differ between processes that are the
    same."""
    value = plain(value) if not callable(value) else value
    if callable(value) or (isinstance(value, str) and " at 0x" in value):
        module = getattr(value, "__module__", "")
        name = getattr(value, "__qualname__", type(value).__name__)
        return f"<{module}.{name}>" if module else f"<{name}>"
    return value
