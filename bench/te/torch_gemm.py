"""torch's side of bench_gemm.cpp: it multiplies what the quantised rows stand
for in bf16."""

import torch
import torch.nn.functional as F

SIZES = (1024, 2048, 4096)
MODES = ("bf16", "fp8_tensor", "mxfp8", "block128_pow2", "block128_fp32",
         "nvfp4")
GROUPS, GROUP_ROWS, GROUP_SIDE = 8, 512, 1024


def linear(dtype, n):
    def prepare():
        x, w = (torch.randn(n, n).to(dtype) for _ in range(2))

        def body():
            with torch.no_grad():
                F.linear(x, w)
        return body
    return prepare


def grouped():
    x = torch.randn(GROUPS * GROUP_ROWS, GROUP_SIDE).to(torch.bfloat16)
    w = [torch.randn(GROUP_SIDE, GROUP_SIDE).to(torch.bfloat16)
         for _ in range(GROUPS)]

    def body():
        with torch.no_grad():
            torch.cat([F.linear(part, weight)
                       for part, weight in zip(x.split(GROUP_ROWS), w)])
    return body


PEERS = {"grouped_gemm_bf16_8x512x1024x1024": grouped}
for size in SIZES:
    PEERS[f"gemm_f32_{size}"] = linear(torch.float32, size)
    for mode in MODES:
        PEERS[f"gemm_{mode}_{size}"] = linear(torch.bfloat16, size)
