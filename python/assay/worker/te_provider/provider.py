"""Runs the modules of this folder that the installed release has."""

from __future__ import annotations

import importlib
import pathlib
import platform
import typing

import torch

from assay.worker.call import Call, Result, Unsupported
from assay.worker.te_provider.api import resolve

class TeProvider:
    launcher = "self"

    def __init__(self, device: str):
        del device
        package = importlib.import_module("transformer_engine")
        importlib.import_module("transformer_engine.pytorch")
        self.version = str(getattr(package, "__version__", "unknown"))
        self.implementation = "transformer_engine"
        self._modules = {}
        for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
            module = importlib.import_module(f"{__package__}.{path.stem}")
            if hasattr(module, "ADAPTER"):  # else it is what modules share
                self._modules[path.stem] = module

    def modules(self) -> dict[str, dict[str, typing.Any]]:
        """`api` holds the names that the installed release really has."""
        return {name: {"adapter": module.ADAPTER,
                       "api": [path for path in module.API
                               if resolve(path) is not None]}
                for name, module in self._modules.items()}

    def environment(self) -> dict[str, typing.Any]:
        return {"torch": torch.__version__,
                "python": platform.python_version(),
                "device": device_name()}

    def run(self, call: Call) -> Result:
        module = self._modules.get(call.module)
        if module is None:
            raise Unsupported(f"no module {call.module}")
        try:
            return module.run(call)
        except NotImplementedError as error:
            raise Unsupported(str(error) or "not implemented") from error


def device_name() -> str:
    for kind in ("cuda", "npu", "musa"):
        backend = getattr(torch, kind, None)
        if backend is not None and backend.is_available():
            return str(backend.get_device_name())
    return platform.processor() or platform.machine()
