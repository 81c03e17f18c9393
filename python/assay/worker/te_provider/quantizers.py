"""Quantizers of the package, and the codes and scales of what they make.

Scales come in buffers that kernels like, padded and, of blocks of 128, turned:
here they are cut and turned to one scale for each block.
"""

from __future__ import annotations

import dataclasses
import typing

import torch

from assay.worker.call import Unsupported
from assay.worker.te_provider.api import call_named, require

_PATH = "transformer_engine.pytorch."
_TENSOR = _PATH + "tensor."
_TEX = "transformer_engine_torch."
PLACES = {"Float8Quantizer": "float8_tensor",
          "Float8CurrentScalingQuantizer": "float8_tensor",
          "Float8BlockQuantizer": "float8_blockwise_tensor",
          "MXFP8Quantizer": "mxfp8_tensor",
          "NVFP4Quantizer": "nvfp4_tensor"}
# Values that ask for nothing, where a release is older than the option.
NEUTRAL = {"force_pow_2_scales": False, "amax_epsilon": 0.0,
           "with_2d_quantization": False, "with_rht": False,
           "with_post_rht_amax": False, "stochastic_rounding": False,
           "row_scaled_nvfp4": False, "nvfp4_use_4over6": False,
           "nvfp4_e4m3_max": 448, "nvfp4_4over6_err_mode": "MAE",
           "with_random_sign_mask": True}


def kind_of(name: str) -> typing.Any:
    return require(_PATH + name, f"{_TENSOR}{PLACES[name]}.{name}")


def te_format(name: str) -> typing.Any:
    """E4M3, E5M2 or E2M1 as the package's DType."""
    types = require(_PATH + "DType", _TEX + "DType")
    return getattr(types, {"E2M1": "kFloat4E2M1"}.get(name, f"kFloat8{name}"))


def make(name: str, arguments: dict[str, typing.Any],
         columnwise: bool) -> typing.Any:
    """For one direction alone."""
    return call_named(kind_of(name), {**arguments, "rowwise": not columnwise,
                                      "columnwise": columnwise}, NEUTRAL)


def first_of(tensor: typing.Any, *names: str) -> torch.Tensor:
    for name in names:
        found = getattr(tensor, name, None)
        if found is not None:
            return found
    raise Unsupported(f"{type(tensor).__name__} has no {' or '.join(names)}")


@dataclasses.dataclass
class Codes:
    """Of one direction of a quantised matrix [rows, columns]."""

    tensor: typing.Any
    kind: str
    columnwise: bool
    rows: int
    columns: int
    block_dim: int = 1

    def data(self) -> torch.Tensor:
        if self.columnwise:
            data = first_of(self.tensor, "_columnwise_data", "_transpose")
        else:
            data = first_of(self.tensor, "_rowwise_data", "_data")
        data = data.view(torch.uint8)
        return data.reshape(-1, data.shape[-1]) if data.dim() > 1 else data

    def _buffer(self) -> str:
        return ("_columnwise_scale_inv" if self.columnwise
                else "_rowwise_scale_inv")

    def scale_inv(self) -> torch.Tensor:
        if self.kind.startswith("Float8") and "Block" not in self.kind:
            return first_of(self.tensor, "_scale_inv").reshape(1)
        scales = first_of(self.tensor, self._buffer())
        if self.kind == "Float8BlockQuantizer" and self.block_dim == 1:
            scales = scales.T
        down, right = self._blocks()
        return scales[:down, :right].contiguous()

    def _blocks(self) -> tuple[int, int]:
        """Codes but for MXFP8's are those of the transposed matrix."""
        m, k = self.rows, self.columns
        if self.kind == "MXFP8Quantizer":
            return (-(-m // 32), k) if self.columnwise else (m, -(-k // 32))
        if self.columnwise:
            m, k = k, m
        if self.kind == "NVFP4Quantizer":
            return m, -(-k // 16)
        down = -(-m // 128) if self.block_dim == 2 else m
        return down, -(-k // 128)

    def amax(self) -> torch.Tensor:
        return first_of(self.tensor, "_amax_columnwise" if self.columnwise
                        else "_amax_rowwise").reshape(-1)

    def swizzled(self) -> torch.Tensor:
        """The scales as GEMMs read them; turned over in place."""
        require(_TEX + "swizzle_scales_for_gemm_")(self.tensor)
        return first_of(self.tensor, self._buffer()).view(torch.uint8)


class Delayed:
    """A history and scales, updated by the package."""

    def __init__(self, length: int, slots: int, fmt: str, device: torch.device,
                 margin: int = 0, algorithm: str = "max"):
        self.history = torch.zeros(length, slots, device=device)
        self.scale = torch.ones(slots, device=device)
        self.fmt, self.margin, self.algorithm = fmt, margin, algorithm

    def quantizer(self, columnwise: bool) -> typing.Any:
        """Of slot 0, whose maximum it leaves in the history."""
        return make("Float8Quantizer", {
            "scale": self.scale[:1], "amax": self.history[0, :1],
            "fp8_dtype": te_format(self.fmt)}, columnwise)

    def update(self) -> None:
        call_named(require(
            _TEX + "fused_amax_and_scale_update_after_reduction"), {
                "amax_reduction_buffer": self.history[0].clone(),
                "amax_histories": [self.history], "scales": [self.scale],
                "amax_compute_algo": self.algorithm,
                "fp8_dtype": te_format(self.fmt),
                "margin": float(self.margin)})

    def update_unfused(self, recipe: typing.Any, largest: float) -> None:
        call_named(require(
            _PATH + "quantization._amax_and_scale_update",
            _PATH + "fp8._amax_and_scale_update"), {
                "amax_history": self.history, "scale": self.scale,
                "fp8_max": largest, "recipe": recipe})
