"""torch's side of bench_rows.cpp."""

import torch
import torch.nn.functional as F

ROWS = COLS = 4096


def tensor(dtype, *shape):
    return torch.randn(*shape).to(dtype)


def forward(make):
    """A body that runs `make()`'s function without a graph."""
    def prepare():
        function = make()

        def body():
            with torch.no_grad():
                function()
        return body
    return prepare


def backward(make):
    """`make()` gives the output, its gradient and the inputs; only the
    backward is timed."""
    def prepare():
        out, grad, inputs = make()
        return lambda: torch.autograd.grad(out, inputs, grad,
                                           retain_graph=True)
    return prepare


def norm_forward(function, dtype):
    def make():
        x, w = tensor(dtype, ROWS, COLS), tensor(dtype, COLS)
        return lambda: function(x, w)
    return forward(make)


def norm_backward(function, dtype, affine):
    def make():
        x = tensor(dtype, ROWS, COLS).requires_grad_()
        w = tensor(dtype, COLS).requires_grad_()
        b = tensor(dtype, COLS).requires_grad_()
        out = function(x, w, b) if affine else function(x, w)
        return out, tensor(dtype, ROWS, COLS), (x, w, b) if affine else (x, w)
    return backward(make)


def layernorm(x, w, b=None):
    return F.layer_norm(x, (COLS,), w, w if b is None else b)


def rmsnorm(x, w):
    return F.rms_norm(x, (COLS,), w, 1e-5)


def gelu(x):
    return F.gelu(x, approximate="tanh")


def swiglu(x):
    a, b = x.chunk(2, dim=-1)
    return F.silu(a) * b


def softmax(x):
    return torch.softmax(x, -1)


def pointwise_forward(function, dtype):
    def make():
        x = tensor(dtype, ROWS, COLS)
        return lambda: function(x)
    return forward(make)


def pointwise_backward(function, dtype):
    def make():
        x = tensor(dtype, ROWS, COLS).requires_grad_()
        out = function(x)
        return out, torch.randn(out.shape).to(dtype), (x,)
    return backward(make)


def pair_forward(function, dtype, with_bias=False):
    def make():
        inputs = [tensor(dtype, ROWS, COLS), tensor(dtype, ROWS, COLS)]
        if with_bias:
            inputs.append(tensor(dtype, COLS))
        return lambda: function(*inputs)
    return forward(make)


PEERS = {}
for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
    PEERS[f"layernorm_forward_{name}"] = norm_forward(layernorm, dtype)
    PEERS[f"layernorm_backward_{name}"] = norm_backward(layernorm, dtype, True)
    PEERS[f"rmsnorm_forward_{name}"] = norm_forward(rmsnorm, dtype)
    PEERS[f"rmsnorm_backward_{name}"] = norm_backward(rmsnorm, dtype, False)
    for act, function in (("gelu", gelu), ("silu", F.silu), ("swiglu", swiglu),
                          ("softmax", softmax)):
        PEERS[f"{act}_forward_{name}"] = pointwise_forward(function, dtype)
        PEERS[f"{act}_backward_{name}"] = pointwise_backward(function, dtype)
    PEERS[f"dropout_forward_{name}"] = pointwise_forward(
        lambda x: F.dropout(x, 0.1, True), dtype)
    PEERS[f"residual_add_{name}"] = pair_forward(torch.add, dtype)
    PEERS[f"bias_dropout_add_{name}"] = pair_forward(
        lambda x, r, b: r + F.dropout(x + b, 0.1, True), dtype, True)
