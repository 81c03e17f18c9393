"""torch's side of the attention rows: the fused CPU kernel, bf16."""

import torch
import torch.nn.functional as F

HEADS, DIM = 16, 64


def tensors(tokens, grad):
    made = [torch.randn(1, HEADS, tokens, DIM).bfloat16() for _ in range(3)]
    return [t.requires_grad_(grad) for t in made]


def forward(tokens, causal):
    q, k, v = tensors(tokens, False)

    def run():
        with torch.no_grad():
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return run


def backward(tokens, causal):
    q, k, v = tensors(tokens, True)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    d_out = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), d_out,
                                       retain_graph=True)


def both(tokens, causal):
    q, k, v = tensors(tokens, True)
    d_out = torch.randn_like(q)

    def run():
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        torch.autograd.grad(out, (q, k, v), d_out)
    return run


PEERS = {
    f"attention_{name}_{'causal' if causal else 'full'}_{tokens}_bf16":
        lambda make=make, tokens=tokens, causal=causal: make(tokens, causal)
    for name, make in (("forward", forward), ("backward", backward),
                       ("both", both))
    for tokens in (2048, 8192)
    for causal in (False, True)
}
