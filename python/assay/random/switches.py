"""Switches of deterministic algorithms, set and put back."""

from __future__ import annotations

import os
import sys
from typing import Any

# Read once, when the library named starts. Sources: cuBLAS, "Results
# reproducibility"; NCCL and HCCL, "Environment variables"; Ascend, "Fixing
# randomness" (LCCL_, CLOSE_MATMUL_); TransformerEngine, "Environment
# variables". NCCL_ALGO: any fixed choice will do, NVLS apart.
ENVIRONMENT = {
    "CUBLAS_WORKSPACE_CONFIG": (":4096:8", ":16:8"),
    "NCCL_ALGO": ("Ring", "Tree", "CollnetDirect", "CollnetChain"),
    "HCCL_DETERMINISTIC": ("true", "strict"),
    "LCCL_DETERMINISTIC": ("1",),
    "CLOSE_MATMUL_K_SHIFT": ("1",),
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO": ("0",),
}
# What a backend's own libraries read; other variables are for every backend.
_OF_BACKEND = {"CUBLAS_WORKSPACE_CONFIG": "cuda", "NCCL_ALGO": "cuda",
               "HCCL_DETERMINISTIC": "npu", "LCCL_DETERMINISTIC": "npu",
               "CLOSE_MATMUL_K_SHIFT": "npu"}


def set_environment(report: Any, name: str, value: str) -> None:
    before = os.environ.get(name)

    def undo() -> None:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before

    os.environ[name] = value
    report.undo_by(undo)


def make_deterministic(report: Any) -> None:
    for name, good in ENVIRONMENT.items():
        _fix(report, name, good)
    torch = sys.modules.get("torch")
    if torch is not None:
        _switch_torch(report, torch)


def _fix(report: Any, name: str, good: tuple[str, ...]) -> None:
    found = os.environ.get(name)
    if found is None:
        set_environment(report, name, good[0])
        report.done.append(f"{name}={good[0]}")
        if _started(_OF_BACKEND.get(name)):
            report.not_done.append(
                f"{name} came after torch.{_OF_BACKEND[name]} had started, "
                "whose libraries may have read it already")
    elif found.lower() in (value.lower() for value in good):
        report.done.append(f"{name}={found}, as it was")
    else:
        report.not_done.append(f"{name} is {found!r} and was kept, expected "
                               f"{' or '.join(good)}")


def _started(backend: str | None) -> bool:
    module = getattr(sys.modules.get("torch"), backend or "", None)
    return bool(getattr(module, "is_initialized", bool)())


def _switch_torch(report: Any, torch: Any) -> None:
    before = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    report.undo_by(lambda: torch.use_deterministic_algorithms(
        before, warn_only=warn))
    report.done.append("torch.use_deterministic_algorithms(True)")
    for name, value in (("deterministic", True), ("benchmark", False)):
        cudnn = torch.backends.cudnn
        old = getattr(cudnn, name)
        setattr(cudnn, name, value)
        report.undo_by(lambda name=name, old=old: setattr(cudnn, name, old))
        report.done.append(f"torch.backends.cudnn.{name} = {value}")


# What multiplies in less than float32 where it is on.
_REDUCED = ("backends.cuda.matmul.allow_tf32", "backends.cudnn.allow_tf32",
            "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
            "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
            "npu.matmul.allow_hf32", "npu.conv.allow_hf32",
            "backends.mudnn.allow_tf32")


def note_reduced_precision(report: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for path in _REDUCED:
        value: Any = torch
        try:
            for part in path.split("."):
                value = getattr(value, part)
        except Exception:  # absent, or refused by torch's newer setting
            continue
        report.noted.append(f"torch.{path} = {value}")
    precision = getattr(torch, "get_float32_matmul_precision", None)
    if precision is not None:
        report.noted.append(f"float32 matmul precision {precision()}")
