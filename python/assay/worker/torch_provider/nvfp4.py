"""NVFP4: e2m1 codes in blocks of 16 under e4m3 scales and one fp32 amax.

From docs/numerics.md, "NVFP4"; where NVTE's kernel and its references disagree
this is the kernel.
"""

from __future__ import annotations

import torch

from assay.worker.call import Refused
from assay.worker.torch_provider import formats
from assay.worker.torch_provider.formats import E2M1, E4M3, FLOAT_MAX
from assay.worker.torch_provider.quantize import (Quantized, matrix_of, spread,
                                                  tile_amax)

# The fixed signs of NVTE's recipe.
SIGNS = [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1]
ONE_SIXTH = 1.0 / 6.0


def f32(value: float, like: torch.Tensor) -> torch.Tensor:
    return torch.full((), value, dtype=torch.float32, device=like.device)


def hadamard(x: torch.Tensor, signs: list[int] | None = None) -> torch.Tensor:
    """Runs of 16 along the rows times diag(signs) H16 / 4, in fp32, rounded
    to bf16. `signs` None: NVTE's."""
    rotated = x.float().reshape(-1, 16)
    rotated = rotated * torch.tensor(signs or SIGNS, dtype=torch.float32,
                                     device=x.device)
    # Butterflies of distance 1, 2, 4, 8: Sylvester's H16, each sum rounded.
    for distance in (1, 2, 4, 8):
        pairs = rotated.reshape(-1, 8 // distance, 2, distance)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        rotated = torch.stack((low + high, low - high), 2).reshape(-1, 16)
    return (rotated * 0.25).to(torch.bfloat16).reshape(x.shape)


def global_scale(amax: torch.Tensor, scale_max: float) -> torch.Tensor:
    """S_enc: min(rn(6 scale_max / A), FLT_MAX), 1 where A is 0 or infinite."""
    scale = formats.divide(6.0 * scale_max, amax).clamp(max=FLOAT_MAX)
    return torch.where((amax == 0) | torch.isinf(amax),
                       torch.ones_like(scale), scale)


def block_scales(amax: torch.Tensor, s_enc: torch.Tensor) -> torch.Tensor:
    """e4m3 codes of min(b (S_enc fp32(1/6)), FLT_MAX)."""
    wanted = amax * (s_enc * f32(ONE_SIXTH, amax))
    return formats.encode(wanted.clamp(max=FLOAT_MAX), E4M3)


def element_codes(matrix: torch.Tensor, scale_codes: torch.Tensor, rows: int,
                  s_enc: torch.Tensor) -> torch.Tensor:
    """e2m1 codes of x min(rn(1 / (sd rn(1 / S_enc))), FLT_MAX)."""
    product = formats.decode(scale_codes, E4M3) * formats.divide(1.0, s_enc)
    factor = formats.divide(1.0, product).clamp(max=FLOAT_MAX)
    return formats.encode(matrix * spread(factor, rows, 16, matrix), E2M1)


def decoding(scale_codes: torch.Tensor, amax: torch.Tensor,
             scale_max: float) -> torch.Tensor:
    """(sd A) fp32(1 / (6 scale_max))."""
    scaled = formats.decode(scale_codes, E4M3) * amax
    return scaled * formats.divide(1.0, f32(6.0 * scale_max, amax))


def tile_sums(errors: torch.Tensor, rows: int) -> torch.Tensor:
    """fp32 sums of a tile's errors: its rows one after the other, then halves
    of the sixteen columns onto each other until one is left."""
    m, k = errors.shape
    tiles = errors.reshape(m // rows, rows, k // 16, 16)
    sums = torch.zeros_like(tiles[:, 0])
    for row in range(rows):
        sums = sums + tiles[:, row]
    for half in (8, 4, 2, 1):
        sums = sums[..., :half] + sums[..., half:2 * half]
    return sums[..., 0]


def four_over_six(matrix: torch.Tensor, amax: torch.Tensor, rows: int,
                  s_enc: torch.Tensor, tensor_amax: torch.Tensor,
                  scale_max: float, mode: str) -> torch.Tensor:
    """Scale codes: the block's amax becomes 6, or 4 where that errs strictly
    less. It divides by 6 first (trap T7)."""
    base = amax / f32(6.0, amax) * s_enc
    candidates = []
    for wanted in (base, base * 1.5):
        scale = formats.encode(wanted.clamp(max=448.0), E4M3)
        codes = element_codes(matrix, scale, rows, s_enc)
        factor = decoding(scale, tensor_amax, scale_max)
        error = (formats.decode(codes, E2M1)
                 * spread(factor, rows, 16, matrix)) - matrix
        error = error * error if mode == "MSE" else error.abs()
        candidates.append((scale, tile_sums(error, rows)))
    (six, error_six), (four, error_four) = candidates
    return torch.where(error_four < error_six, four, six)


def nvfp4(x: torch.Tensor, columnwise: bool = False, two_d: bool = False,
          rht: bool = False, row_scaled: bool = False,
          four_six: str | None = None, scale_max: float = 448.0,
          signs: list[int] | None = None) -> Quantized:
    """One direction. `four_six`: None, "MAE" or "MSE"."""
    source = matrix_of(x)
    if source.shape[0] % 16 or source.shape[1] % 16:
        raise Refused(f"nvfp4: {list(source.shape)}, expected multiples of 16")
    if row_scaled and (columnwise or two_d or rht):
        raise Refused("nvfp4: row-scaled is row-wise alone")
    if rht and (two_d or four_six):
        raise Refused("nvfp4: no rotation beside 2-D tiles or 4-over-6")
    if columnwise:
        source = source.T
        if rht and x.dtype != torch.bfloat16:
            raise Refused(f"nvfp4: {x.dtype}, the rotation needs bfloat16")
        if rht:
            source = hadamard(source.contiguous(), signs)
    matrix = source.float()
    rows = 16 if two_d else 1
    tensor_amax = (formats.amax(matrix, 1) if row_scaled
                   else formats.amax(matrix).reshape(1, 1))
    s_enc = global_scale(tensor_amax, scale_max)
    amax = tile_amax(matrix, rows, 16)
    if four_six is None:
        scales = block_scales(amax, s_enc)
    else:
        scales = four_over_six(matrix, amax, rows, s_enc, tensor_amax,
                               scale_max, four_six)
    codes = element_codes(matrix, scales, rows, s_enc)
    factor = spread(decoding(scales, tensor_amax, scale_max), rows, 16, matrix)
    return Quantized("nvfp4", E2M1, columnwise, codes,
                     scales.repeat_interleave(rows, 0), factor,
                     tensor_amax.reshape(-1))
