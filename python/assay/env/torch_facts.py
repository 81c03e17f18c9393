"""Switches of torch and its backends, and the devices that it sees.

Every switch is asked for by name and left out where this torch does not have
it: versions differ in what there is.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

# Attributes under torch.
_ATTRIBUTES = (
    "backends.cuda.matmul.allow_tf32",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_fp16_accumulation",
    "backends.cuda.matmul.fp32_precision",
    "backends.cudnn.allow_tf32",
    "backends.cudnn.benchmark",
    "backends.cudnn.deterministic",
    "backends.cudnn.enabled",
    "backends.cudnn.fp32_precision",
    "backends.fp32_precision",
    "backends.mkldnn.enabled",
    "backends.mkldnn.deterministic",
    "backends.mkldnn.allow_tf32",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.mudnn.allow_tf32",
    "npu.matmul.allow_hf32",
    "npu.conv.allow_hf32",
    "version.cuda",
    "version.hip",
    "version.git_version",
)
# Functions under torch that take nothing.
_FUNCTIONS = (
    "get_default_dtype",
    "get_float32_matmul_precision",
    "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "get_num_threads",
    "get_num_interop_threads",
    "is_inference_mode_enabled",
    "is_anomaly_enabled",
    "backends.cuda.flash_sdp_enabled",
    "backends.cuda.mem_efficient_sdp_enabled",
    "backends.cuda.math_sdp_enabled",
    "backends.cuda.cudnn_sdp_enabled",
    "backends.cuda.fp16_bf16_reduction_math_sdp_allowed",
    "backends.cuda.preferred_linalg_library",
    "backends.cuda.preferred_blas_library",
    "backends.cudnn.version",
    "npu.is_jit_compile_false",
)
# What CANN is asked by its own name.
_NPU_OPTIONS = ("ALLOW_MATMUL_HF32", "ALLOW_CONV_HF32", "jitCompile",
                "ACL_PRECISION_MODE", "ACL_OP_SELECT_IMPL_MODE",
                "ACL_OP_COMPILER_CACHE_MODE")

_BACKENDS = ("cuda", "npu", "musa", "xpu", "mlu", "hpu")


def switches(torch: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"torch.version": str(torch.__version__)}
    for name in _ATTRIBUTES:
        _put(found, name, lambda: _reached(torch, name))
    for name in _FUNCTIONS:
        _put(found, name, lambda: _reached(torch, name)())
    _put_autocast(found, torch)
    _put_npu(found, torch)
    build = _asked(lambda: torch.__config__.show())
    if isinstance(build, str):
        found["torch.build"] = " ".join(build.split())
    return found


def devices(torch: Any) -> dict[str, Any]:
    """The first backend that has devices: their names, together."""
    for name in _BACKENDS:
        backend = getattr(torch, name, None)
        if backend is None or not _asked(lambda: backend.is_available()):
            continue
        count = _asked(lambda: int(backend.device_count())) or 0
        names = [str(_asked(lambda: backend.get_device_name(i)))
                 for i in range(count)]
        if not names:
            continue
        hip = name == "cuda" and getattr(torch.version, "hip", None)
        alike = len(set(names)) == 1
        return {"vendor": "rocm" if hip else name,
                "devices": f"{count} x {names[0]}" if alike
                else ", ".join(names)}
    return {"vendor": "cpu"}


def _reached(root: Any, path: str) -> Any:
    for part in path.split("."):
        root = getattr(root, part)
    return root


def _asked(question: Callable[[], Any]) -> Optional[Any]:
    """None where this torch, or the driver under it, does not answer."""
    try:
        return question()
    except Exception:
        return None


def _put(found: dict[str, Any], name: str,
         question: Callable[[], Any]) -> None:
    try:
        value = question()
    except Exception:  # absent, or refused beside a newer setting
        return
    found[f"torch.{name}"] = plain(value)


def plain(value: Any) -> Any:
    """As JSON has it; text for what JSON has not."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return str(value)


def _put_autocast(found: dict[str, Any], torch: Any) -> None:
    for kind in ("cuda", "cpu", "npu", "musa"):
        if kind not in ("cuda", "cpu") and not hasattr(torch, kind):
            continue
        for what in ("is_autocast_enabled", "get_autocast_dtype"):
            if hasattr(torch, what):
                _put(found, f"autocast.{kind}.{what.split('_')[-1]}",
                     lambda: getattr(torch, what)(kind))


def _put_npu(found: dict[str, Any], torch: Any) -> None:
    ask = _asked(lambda: _reached(torch, "_C._npu_getOption"))
    if ask is None:
        module = _asked(lambda: __import__("torch_npu"))
        ask = _asked(lambda: _reached(module, "_C._npu_getOption"))
    if ask is None:
        return
    for name in _NPU_OPTIONS:
        value = _asked(lambda: ask(name))
        if value is not None:
            text = value.decode() if isinstance(value, bytes) else value
            found[f"torch.npu.option.{name}"] = plain(text)
