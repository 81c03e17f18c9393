"""What only Python knows of an environment, as a snapshot's sections."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import re
import sys
from typing import Any

from assay.env import torch_facts

FORMAT, VERSION = "assay-env", 1


def collected(import_torch: bool = False) -> dict[str, Any]:
    """A document with the sections libraries, switches, device and system.

    import_torch: whether torch is imported where the process has not yet; its
    switches are then what a process starts with.
    """
    sections: dict[str, Any] = {
        "libraries": {"collected": True, "values": libraries()},
        "system": {"collected": True, "values": _python()},
    }
    torch = sys.modules.get("torch")
    why = "torch was not imported in this process"
    if torch is None and import_torch:
        torch, why = _imported_torch()
    if torch is None:
        sections["switches"] = {"collected": False, "missing": [why]}
    else:
        sections["switches"] = {"collected": True,
                                "values": torch_facts.switches(torch)}
        sections["device"] = {"collected": True,
                              "values": torch_facts.devices(torch)}
    return {"format": FORMAT, "version": VERSION, "sections": sections}


def _imported_torch() -> tuple[Any, str]:
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return None, "torch is not installed"
        return None, f"torch does not start: {error}"
    except Exception as error:  # a library that does not load
        first = (str(error).splitlines() or [""])[0]
        return None, f"torch does not start: {type(error).__name__}: {first}"
    for name in ("torch_npu", "torch_musa"):
        try:  # what gives torch the backend whose switches are asked for
            importlib.import_module(name)
        except Exception:  # not installed, or no driver
            pass
    return torch, ""


def libraries() -> dict[str, str]:
    """Every installed distribution under its normalised name (PEP 503)."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except Exception:  # a folder that is no whole distribution
            continue
        if not name or not version:
            continue
        # The first one on the path is what is imported.
        found.setdefault(re.sub(r"[-_.]+", "-", str(name)).lower(),
                         str(version))
    return found


def _python() -> dict[str, str]:
    return {
        "python.version": platform.python_version(),
        "python.implementation": platform.python_implementation(),
        "python.executable": sys.executable or "unknown",
    }
