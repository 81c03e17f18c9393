"""Finds the modules of this folder and runs them."""

from __future__ import annotations

import importlib
import pathlib
import platform
import typing

import torch

from assay.worker.call import Call, Result, Unsupported


class TorchProvider:
    implementation = "torch-composites"
    version = "1"
    launcher = "self"

    def __init__(self, device: str):
        self._modules = {}
        # First: api_call keeps the switches as it finds them.
        for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
            module = importlib.import_module(f"{__package__}.{path.stem}")
            if hasattr(module, "ADAPTER"):  # else it is what modules share
                self._modules[path.stem] = module
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.use_deterministic_algorithms(True, warn_only=True)
        # There is no fill for 4-bit floats, and nothing is read unwritten.
        torch.utils.deterministic.fill_uninitialized_memory = False

    def modules(self) -> dict[str, dict[str, typing.Any]]:
        return {name: {"adapter": module.ADAPTER}
                for name, module in self._modules.items()}

    def environment(self) -> dict[str, typing.Any]:
        return {"torch": torch.__version__,
                "python": platform.python_version(),
                "threads": torch.get_num_threads()}

    def run(self, call: Call) -> Result:
        module = self._modules.get(call.module)
        if module is None:
            raise Unsupported(f"no module {call.module}")
        return module.run(call)
