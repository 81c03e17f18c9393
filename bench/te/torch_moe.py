"""torch's side of bench_moe.cpp."""

import torch
import torch.nn.functional as F

TOKENS, HIDDEN, EXPERTS, TOPK = 8192, 2048, 128, 8
PARAMS = 1 << 24


def no_grad(make):
    def prepare():
        function = make()

        def body():
            with torch.no_grad():
                function()
        return body
    return prepare


def routing(topk):
    return torch.topk(torch.randn(TOKENS, EXPERTS), topk, dim=1)


def permute():
    x = torch.randn(TOKENS, HIDDEN).bfloat16()
    rows = torch.argsort(routing(2).indices.flatten(), stable=True) // 2
    return lambda: x.index_select(0, rows)


def unpermute():
    top = routing(2)
    order = torch.argsort(top.indices.flatten(), stable=True)
    rows, probs = order // 2, top.values.flatten()[order].unsqueeze(1)
    x = torch.randn(2 * TOKENS, HIDDEN).bfloat16()
    out = torch.empty(TOKENS, HIDDEN, dtype=torch.bfloat16)
    probs = probs.bfloat16()
    return lambda: out.zero_().index_add_(0, rows, x * probs)


def row_map():
    chosen = routing(TOPK).indices
    return lambda: torch.argsort(chosen.flatten(), stable=True)


def router(x):
    scores, chosen = torch.topk(torch.softmax(x, dim=1), TOPK, dim=1)
    zeros = torch.zeros_like(x)
    return zeros.scatter(1, chosen, scores), \
        torch.zeros(x.shape, dtype=torch.bool).scatter(1, chosen, True)


def router_forward():
    x = torch.randn(TOKENS, EXPERTS)
    return lambda: router(x)


def router_backward():
    x = torch.randn(TOKENS, EXPERTS).requires_grad_()
    probs, _ = router(x)
    grad = torch.randn_like(x)
    return lambda: torch.autograd.grad(probs, x, grad, retain_graph=True)


def cross_entropy(dtype):
    def prepare():
        x = torch.randn(2048, 32000).to(dtype).requires_grad_()
        y = torch.arange(2048) * 997 % 32000
        return lambda: torch.autograd.grad(F.cross_entropy(x, y), x)
    return prepare


def transpose(dtype):
    x = torch.zeros(8192, 8192, dtype=dtype)
    return lambda: x.t().contiguous()


def adam(master):
    def prepare():
        p = torch.randn(PARAMS).requires_grad_()
        p.grad = torch.randn(PARAMS)
        low = torch.empty(PARAMS, dtype=torch.bfloat16)
        step = torch.optim.AdamW([p], lr=1e-3, weight_decay=0.1, fused=True)

        def body():
            step.step()
            if master:
                with torch.no_grad():
                    low.copy_(p)
        return body
    return prepare


def l2norm():
    x = [torch.randn(PARAMS)]
    return lambda: torch._foreach_norm(x)


PEERS = {
    "moe_permute_bf16": no_grad(permute),
    "moe_unpermute_bf16": no_grad(unpermute),
    "moe_row_map_top8": no_grad(row_map),
    "router_softmax_top8_forward": no_grad(router_forward),
    "router_softmax_top8_backward": router_backward,
    "cross_entropy_bf16": cross_entropy(torch.bfloat16),
    "cross_entropy_f32": cross_entropy(torch.float32),
    "transpose_bf16": no_grad(lambda: transpose(torch.bfloat16)),
    "transpose_u8": no_grad(lambda: transpose(torch.uint8)),
    "transpose_f32": no_grad(lambda: transpose(torch.float32)),
    "adam_f32": adam(False),
    "adam_bf16_master": adam(True),
    "l2norm_f32": no_grad(l2norm),
}
