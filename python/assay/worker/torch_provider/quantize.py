"""What every recipe makes of a tensor: codes and scales, bit by bit.

Written from the rules of docs/numerics.md; nothing of the engine is used. A
`Quantized` is one direction of the M x K matrix that a tensor is (M the product
of the leading dimensions): row-wise for products that sum over K, column-wise
for those that sum over M. Column-wise codes are those of the transposed
matrix, but for MXFP8, whose codes keep their place.
"""

from __future__ import annotations

import dataclasses

import torch

from assay.worker.call import Refused
from assay.worker.torch_provider import formats
from assay.worker.torch_provider.formats import FLOAT_MAX, Format


@dataclasses.dataclass
class Quantized:
    """Codes and scales of one direction."""

    mode: str  # "tensor", "block", "mxfp8", "nvfp4"
    format: Format
    columnwise: bool
    codes: torch.Tensor  # uint8, one code an element
    scale_inv: torch.Tensor  # fp32; uint8 codes of e8m0 or e4m3
    scale: torch.Tensor  # fp32, broadcasts over codes: decoding's multiplier
    amax: torch.Tensor | None = None

    def values(self) -> torch.Tensor:
        """code * scale in fp32, laid out as the codes are."""
        return formats.decode(self.codes, self.format) * self.scale

    def matrix(self) -> torch.Tensor:
        """The same as the M x K matrix that was quantised."""
        turned = self.columnwise and self.mode != "mxfp8"
        return self.values().T if turned else self.values()

    def packed(self) -> torch.Tensor:
        """Two 4-bit codes a byte, the even column in the low nibble."""
        return self.codes[:, 0::2] | (self.codes[:, 1::2] << 4)


def matrix_of(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1]) if x.dim() != 2 else x


def _directed(x: torch.Tensor, columnwise: bool) -> torch.Tensor:
    matrix = matrix_of(x)
    return matrix.T if columnwise else matrix


def compute_scale(amax: torch.Tensor, largest: float, pow2: bool = False,
                  epsilon: float = 0.0,
                  value_for_inf: float = FLOAT_MAX) -> torch.Tensor:
    """docs/numerics.md, "The common scale rule", element by element."""
    amax = torch.where(amax < epsilon, torch.full_like(amax, epsilon), amax)
    scale = formats.divide(largest, amax)
    scale = torch.where(torch.isinf(scale),
                        torch.full_like(scale, value_for_inf), scale)
    if pow2:
        scale = formats.float_from_bits(formats.bits_of(scale) & 0x7F800000)
    usable = torch.isfinite(amax) & (amax > 0)
    return torch.where(usable, scale, torch.ones_like(scale))


def per_tensor(x: torch.Tensor, scale: torch.Tensor, target: Format,
               columnwise: bool = False) -> Quantized:
    """One given scale: delayed scaling. `amax` is that of x."""
    codes = formats.encode(_directed(x, columnwise).float() * scale, target)
    scale_inv = formats.divide(1.0, scale.float())
    return Quantized("tensor", target, columnwise, codes, scale_inv, scale_inv,
                     formats.amax(x))


def current(x: torch.Tensor, target: Format, columnwise: bool = False,
            pow2: bool = False, epsilon: float = 0.0,
            amax: torch.Tensor | None = None) -> Quantized:
    """The scale from the tensor itself, or from an amax that a group of
    processes agreed on."""
    amax = formats.amax(x) if amax is None else amax
    scale = compute_scale(amax, target.largest, pow2, epsilon)
    result = per_tensor(x, scale, target, columnwise)
    result.amax = amax
    return result


def padded_tiles(matrix: torch.Tensor, rows: int, columns: int,
                 ) -> torch.Tensor:
    """[row tile, row, column tile, column] of a matrix with zeros below and
    on its right."""
    m, k = matrix.shape
    down, right = -(-m // rows), -(-k // columns)
    padded = torch.nn.functional.pad(
        matrix, (0, right * columns - k, 0, down * rows - m))
    return padded.reshape(down, rows, right, columns)


def tile_amax(matrix: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The amax of every tile; edges have tiles of their own."""
    tiles = padded_tiles(matrix.float(), rows, columns)
    return formats.amax(tiles, (1, 3))[:, 0, :, 0]


def spread(scales: torch.Tensor, rows: int, columns: int,
           like: torch.Tensor) -> torch.Tensor:
    """The scale of each element's tile, in the matrix's shape."""
    wide = scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    return wide[:like.shape[0], :like.shape[1]]


def block128(x: torch.Tensor, target: Format, dim: int,
             columnwise: bool = False, pow2: bool = True,
             epsilon: float = 0.0) -> Quantized:
    """1 x 128 blocks along the direction of the sum, or 128 x 128 tiles. An
    infinite quotient becomes the input dtype's largest value (trap T6)."""
    if dim not in (1, 2):
        raise Refused(f"block_scaling_dim: {dim}, expected 1 or 2")
    matrix = _directed(x, columnwise).float()
    rows = 128 if dim == 2 else 1
    amax = tile_amax(matrix, rows, 128)
    scale = compute_scale(amax, target.largest, pow2, epsilon,
                          float(torch.finfo(x.dtype).max))
    codes = formats.encode(matrix * spread(scale, rows, 128, matrix), target)
    scale_inv = formats.divide(1.0, scale)
    return Quantized("block", target, columnwise, codes, scale_inv,
                     spread(scale_inv, rows, 128, matrix))


def mxfp8(x: torch.Tensor, target: Format, columnwise: bool = False,
          two_d: bool = False) -> Quantized:
    """Blocks of 32 under a power of two, rounded up. A NaN makes its whole
    block NaN (field log F04)."""
    matrix = matrix_of(x).float()
    if matrix.shape[0] % 32 or matrix.shape[1] % 32:
        raise Refused(f"mxfp8: {list(matrix.shape)}, expected multiples of 32")
    rows = 32 if two_d or columnwise else 1
    columns = 32 if two_d or not columnwise else 1
    amax = tile_amax(matrix, rows, columns)
    inverse = formats.divide(1.0, torch.full_like(amax, target.largest))
    exponent = formats.encode_e8m0_up(amax * inverse)
    nan = tile_has_nan(matrix, rows, columns)
    exponent = torch.where(nan, torch.full_like(exponent, 0xFF), exponent)
    factor = spread(formats.inverse_e8m0(exponent), rows, columns, matrix)
    codes = formats.encode(matrix * factor, target)
    decoding = spread(formats.decode_e8m0(exponent), rows, columns, matrix)
    if two_d:  # one exponent a tile, written for each block of the direction
        along = 0 if not columnwise else 1
        exponent = exponent.repeat_interleave(32, along)
    return Quantized("mxfp8", target, columnwise, codes, exponent, decoding)


def tile_has_nan(matrix: torch.Tensor, rows: int,
                 columns: int) -> torch.Tensor:
    tiles = padded_tiles(matrix, rows, columns)
    return torch.isnan(tiles).any(3).any(1)
