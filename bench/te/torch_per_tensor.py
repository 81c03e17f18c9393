"""torch's side of bench_per_tensor.cpp: the same results from its own ops."""

import torch

SIDE = 4096
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
FP8 = torch.float8_e4m3fn
MAX = 448.0


def values(dtype):
    torch.manual_seed(1)
    return (torch.randn(SIDE, SIDE) * 30).to(dtype)


def cast(x, scale):
    return (x.float() * scale).clamp(-MAX, MAX).to(FP8)


def transposed(codes):
    return codes.view(torch.uint8).t().contiguous()


def per_tensor(dtype, both, current):
    x = values(dtype)

    def body():
        amax = x.abs().amax().float()
        codes = cast(x, MAX / amax if current else 1.0)
        return codes, transposed(codes) if both else None
    return body


def pow2(scale):
    return (scale.view(torch.int32) & -8388608).view(torch.float32)


def rows_of(x):
    blocks = x.view(-1, 128)
    scale = pow2(MAX / blocks.abs().amax(1, keepdim=True).float())
    return cast(blocks, scale).view_as(x), 1 / scale


def block_1d(dtype, both):
    x = values(dtype)

    def body():
        return rows_of(x), rows_of(x.t().contiguous()) if both else None
    return body


def block_2d(dtype, both):
    x = values(dtype).view(SIDE // 128, 128, SIDE // 128, 128)

    def body():
        scale = pow2(MAX / x.abs().amax((1, 3), keepdim=True).float())
        codes = cast(x, scale).view(SIDE, SIDE)
        return codes, transposed(codes) if both else None
    return body


def decode(dtype, columnwise, scale):
    codes = values(dtype).clamp(-MAX, MAX).to(FP8)

    def body():
        q = transposed(codes).view(FP8) if columnwise else codes
        return (q.to(torch.float32).view(scale[0]) * scale[1]).to(dtype)
    return body


TENSOR = ((SIDE, SIDE), torch.tensor(0.25))
ROWS = ((SIDE, SIDE // 128, 128), torch.full((SIDE, SIDE // 128, 1), 0.25))
TILES = ((SIDE // 128, 128, SIDE // 128, 128),
         torch.full((SIDE // 128, 1, SIDE // 128, 1), 0.25))

PEERS = {}
for name, dtype in DTYPES.items():
    for usage, both in (("row", False), ("both", True)):
        PEERS.update({
            f"quantize_delayed_{usage}_{name}":
                lambda d=dtype, b=both: per_tensor(d, b, False),
            f"quantize_current_{usage}_{name}":
                lambda d=dtype, b=both: per_tensor(d, b, True),
            f"quantize_block1x128_{usage}_{name}":
                lambda d=dtype, b=both: block_1d(d, b),
            f"quantize_block128x128_{usage}_{name}":
                lambda d=dtype, b=both: block_2d(d, b),
        })
    for usage, columnwise in (("row", False), ("column", True)):
        for mode, scale in (("tensor", TENSOR), ("block1x128", ROWS),
                            ("block128x128", TILES)):
            PEERS[f"dequantize_{mode}_{usage}_{name}"] = (
                lambda d=dtype, c=columnwise, s=scale: decode(d, c, s))
