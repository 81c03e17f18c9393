"""Torch's side of bench_block_quant.cpp: the recipes as a user composes them
of amax, view and dtype conversions; no single operator does them."""

import torch

SIZE = 4096
FP4_GRID_MIDS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def input_tensor():
    torch.manual_seed(1)
    return torch.randn(SIZE, SIZE, dtype=torch.bfloat16)


def mx_rows(x):
    blocks = x.view(SIZE, SIZE // 32, 32)
    amax = blocks.abs().amax(dim=2).float()
    exponent = torch.ceil(torch.log2(amax / 448.0)).clamp(-127, 127)
    factor = torch.exp2(-exponent)
    codes = (blocks.float() * factor.unsqueeze(2)).clamp(-448, 448)
    codes = codes.to(torch.float8_e4m3fn).view(SIZE, SIZE)
    return codes, (exponent + 127).to(torch.uint8)


def mx_columns(x):
    blocks = x.view(SIZE // 32, 32, SIZE)
    amax = blocks.abs().amax(dim=1).float()
    exponent = torch.ceil(torch.log2(amax / 448.0)).clamp(-127, 127)
    factor = torch.exp2(-exponent)
    codes = (blocks.float() * factor.unsqueeze(1)).clamp(-448, 448)
    codes = codes.to(torch.float8_e4m3fn).view(SIZE, SIZE)
    return codes, (exponent + 127).to(torch.uint8)


def mx_rows_decode(codes, scale):
    factor = torch.exp2(scale.float() - 127).unsqueeze(2)
    values = codes.view(SIZE, SIZE // 32, 32).float() * factor
    return values.to(torch.bfloat16).view(SIZE, SIZE)


def mx_columns_decode(codes, scale):
    factor = torch.exp2(scale.float() - 127).unsqueeze(1)
    values = codes.view(SIZE // 32, 32, SIZE).float() * factor
    return values.to(torch.bfloat16).view(SIZE, SIZE)


MIDS = torch.tensor(FP4_GRID_MIDS)


def fp4_rows(x):
    encode = 2688.0 / x.abs().amax().float()
    blocks = x.view(x.shape[0], -1, 16)
    amax = blocks.abs().amax(dim=2).float()
    scale = (amax * (encode / 6)).to(torch.float8_e4m3fn)
    factor = (encode / scale.float()).clamp(max=3.4e38).unsqueeze(2)
    y = blocks.float() * factor
    code = torch.bucketize(y.abs(), MIDS, out_int32=True).to(torch.uint8)
    code |= (y < 0).to(torch.uint8) << 3
    pairs = code.view(x.shape[0], -1, 2)
    return pairs[..., 0] | pairs[..., 1] << 4, scale, 1.0 / encode


GRID = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3,
                     -4, -6])


def fp4_decode(packed, scale, decode):
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).view(SIZE, -1, 16)
    factor = (scale.float() * decode).unsqueeze(2)
    return (GRID[codes.int()] * factor).to(torch.bfloat16).view(SIZE, SIZE)


def on(function):
    return lambda: (lambda x=input_tensor(): function(x))


def decoding(encode, decode):
    def prepare():
        made = encode(input_tensor())
        return lambda: decode(*made)
    return prepare


PEERS = {
    "mxfp8_quantize_row_bf16": on(mx_rows),
    "mxfp8_quantize_column_bf16": on(mx_columns),
    "mxfp8_quantize_both_bf16": on(lambda x: (mx_rows(x), mx_columns(x))),
    "mxfp8_dequantize_row_bf16": decoding(mx_rows, mx_rows_decode),
    "mxfp8_dequantize_column_bf16": decoding(mx_columns, mx_columns_decode),
    "nvfp4_quantize_row_bf16": on(fp4_rows),
    "nvfp4_quantize_both_bf16":
        on(lambda x: (fp4_rows(x), fp4_rows(x.t().contiguous()))),
    "nvfp4_dequantize_row_bf16": decoding(fp4_rows, fp4_decode),
}
