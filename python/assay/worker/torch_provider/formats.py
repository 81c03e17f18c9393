"""Codes of 4 and 8 bit floats, by integer arithmetic on fp32 bits.

Written from the tables of OCP OFP8 1.0 and OCP MX 1.0 (docs/numerics.md,
"Element formats") instead of with a framework's casts: those differ in what
they do with overflow and NaN, and not every device has them. Codes are uint8
tensors, one code an element.
"""

from __future__ import annotations

import dataclasses
import functools

import torch

FLOAT_MAX = float(torch.finfo(torch.float32).max)


@dataclasses.dataclass(frozen=True)
class Format:
    """A float of sign, exponent and mantissa bits."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: float
    nan_code: int  # what the saturating conversion gives for any NaN
    negative_zero: bool = True
    infinity: bool = False  # an all-ones exponent with mantissa 0
    nan_codes: tuple[int, ...] = ()

    @property
    def sign_code(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def least_exponent(self) -> int:
        """Of normal numbers, and of the spacing of subnormal ones."""
        return 1 - self.bias


E4M3 = Format("e4m3", 4, 3, 7, 448.0, 0x7F, nan_codes=(0x7F, 0xFF))
E5M2 = Format("e5m2", 5, 2, 15, 57344.0, 0x7F, infinity=True,
              nan_codes=(0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF))
E4M3_FNUZ = Format("e4m3fnuz", 4, 3, 8, 240.0, 0x80, negative_zero=False,
                   nan_codes=(0x80,))
E5M2_FNUZ = Format("e5m2fnuz", 5, 2, 16, 57344.0, 0x80, negative_zero=False,
                   nan_codes=(0x80,))
# No NaN: one becomes +6.
E2M1 = Format("e2m1", 2, 1, 1, 6.0, 0x07)

FORMATS = {f.name: f for f in (E4M3, E5M2, E4M3_FNUZ, E5M2_FNUZ, E2M1)}


def float_from_bits(bits: torch.Tensor) -> torch.Tensor:
    return bits.to(torch.int32).contiguous().view(torch.float32)


def bits_of(values: torch.Tensor) -> torch.Tensor:
    return values.float().contiguous().view(torch.int32)


def power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """2^exponent for -126 ... 127, made of bits: exp2 may be an ulp off."""
    return float_from_bits((exponent + 127) << 23)


def encode(values: torch.Tensor, target: Format) -> torch.Tensor:
    """Nearest code, ties to even; saturates finite overflow and infinities."""
    bits = bits_of(values)
    is_nan = torch.isnan(values)
    magnitude = float_from_bits(bits & 0x7FFFFFFF).clamp(max=target.largest)
    magnitude = torch.where(is_nan, torch.zeros_like(magnitude), magnitude)
    exponent = (bits_of(magnitude) >> 23) - 127
    exponent = exponent.clamp(min=target.least_exponent)
    # In units of the spacing at this exponent: a power of two, so exact. The
    # rounded count may reach the next exponent, where the code goes on.
    units = magnitude * power_of_two(target.mantissa_bits - exponent)
    code = torch.round(units).to(torch.int32)
    code = code + ((exponent - target.least_exponent) << target.mantissa_bits)
    negative = bits < 0
    if not target.negative_zero:
        negative = negative & (code != 0)
    code = torch.where(negative, code | target.sign_code, code)
    code = torch.where(is_nan, torch.full_like(code, target.nan_code), code)
    return code.to(torch.uint8)


@functools.lru_cache(maxsize=None)
def _value_table(source: Format) -> list[float]:
    values = []
    for code in range(2 * source.sign_code):
        sign = -1.0 if code & source.sign_code else 1.0
        field = (code & (source.sign_code - 1)) >> source.mantissa_bits
        mantissa = code & ((1 << source.mantissa_bits) - 1)
        exponent = max(field, 1) - source.bias - source.mantissa_bits
        if field:
            mantissa += 1 << source.mantissa_bits
        value = sign * mantissa * 2.0**exponent
        if code in source.nan_codes:
            value = float("nan")
        elif source.infinity and field == (1 << source.exponent_bits) - 1:
            value = sign * float("inf")
        values.append(value)
    return values


def decode(codes: torch.Tensor, source: Format) -> torch.Tensor:
    """The value of each code, in fp32."""
    table = torch.tensor(_value_table(source), dtype=torch.float32,
                         device=codes.device)
    return table[codes.long()]


def encode_e8m0_up(values: torch.Tensor) -> torch.Tensor:
    """The exponent code of the next power of two at or above a value >= 0:
    0 to 00, infinity to fe, NaN to ff. 2^-127 is code 0 and fp32's 0x400000.
    """
    bits = bits_of(values)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    up = torch.where(exponent > 0, mantissa != 0, mantissa > 0x400000)
    code = (exponent + up.to(torch.int32)).clamp(max=0xFE)
    code = torch.where(torch.isnan(values), torch.full_like(code, 0xFF), code)
    return code.to(torch.uint8)


def decode_e8m0(codes: torch.Tensor) -> torch.Tensor:
    """2^(code - 127); code 0 is the subnormal 2^-127, ff is NaN."""
    wide = codes.to(torch.int32)
    bits = torch.where(wide > 0, wide << 23, torch.full_like(wide, 0x400000))
    bits = torch.where(wide == 0xFF, torch.full_like(wide, 0x7FC00000), bits)
    return float_from_bits(bits)


def inverse_e8m0(codes: torch.Tensor) -> torch.Tensor:
    """2^(127 - code), what elements are multiplied by; NaN for ff."""
    wide = codes.to(torch.int32)
    mirrored = torch.where(wide == 0xFF, wide, 254 - wide)
    return decode_e8m0(mirrored.to(torch.uint8))


def amax(values: torch.Tensor, dim: int | tuple[int, ...] | None = None,
         ) -> torch.Tensor:
    """max |x| in fp32 with a NaN passed over, as C's fmax does; 0 of nothing.
    Dimensions that are reduced are kept with size 1; all of them where `dim`
    is None, to one element.
    """
    magnitude = values.float().abs()
    magnitude = torch.where(torch.isnan(magnitude),
                            torch.zeros_like(magnitude), magnitude)
    if dim is None:
        if magnitude.numel() == 0:
            return torch.zeros(1, device=values.device)
        return magnitude.max().reshape(1)
    return magnitude.amax(dim=dim, keepdim=True)


def divide(numerator: float, denominator: torch.Tensor) -> torch.Tensor:
    """One rounded fp32 division: torch computes number / tensor as
    reciprocal * number, which is an ulp off in a quarter of cases."""
    return torch.full_like(denominator, numerator) / denominator
