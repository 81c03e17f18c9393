"""Recipes with NVTE's fields."""

from __future__ import annotations

import dataclasses
import enum
import typing

from transformer_engine import variant


class _FormatHelper(typing.NamedTuple):
    max_fwd: float
    max_bwd: float


class Format(enum.Enum):
    E2M1 = _FormatHelper(6, 6)
    E4M3 = _FormatHelper(448, 448)
    E5M2 = _FormatHelper(57344, 57344)
    HYBRID = _FormatHelper(448, 57344)


class Recipe:
    name = ""
    backward_override: str | None = None


@dataclasses.dataclass
class DelayedScaling(Recipe):
    name = "delayed"
    margin: int = 0
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1024
    amax_compute_algo: str = "max"
    scaling_factor_compute_algo: typing.Any = None
    reduce_amax: bool = True
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = None


@dataclasses.dataclass
class Float8CurrentScaling(Recipe):
    name = "current"
    use_power_2_scales: bool = False
    fp8_format: Format = Format.HYBRID
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = None


@dataclasses.dataclass
class MXFP8BlockScaling(Recipe):
    name = "mxfp8"
    margin: int = 0
    fp8_format: Format = Format.E4M3
    fp8_dpa: bool = False
    fp8_mha: bool = False
    backward_override: str | None = None


if not variant.OLD:

    @dataclasses.dataclass
    class Float8BlockScaling(Recipe):
        name = "block"
        use_f32_scales: bool = False
        fp8_format: Format = Format.E4M3
        x_block_scaling_dim: int = 1
        w_block_scaling_dim: int = 2
        grad_block_scaling_dim: int = 1
        fp8_dpa: bool = False
        fp8_mha: bool = False
        backward_override: str | None = None

    @dataclasses.dataclass
    class NVFP4BlockScaling(Recipe):
        name = "nvfp4"
        disable_rht: bool = False
        disable_stochastic_rounding: bool = False
        disable_2d_quantization: bool = False
        fp4_format: Format = Format.E2M1
        fp8_format: Format = Format.E4M3
        fp8_dpa: bool = False
        fp8_mha: bool = False
        backward_override: str | None = None
