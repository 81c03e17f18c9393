"""Goldens of fused operators against torch's own formulas.

Each is asked for as its trace names it, on a host that does not have it.
"""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from api_calls import ask, randn, same  # noqa: E402, F401

F = torch.nn.functional
WIDE = torch.float64


@pytest.fixture
def golden(ask):  # noqa: F811
    """The tensors of a golden, "output.0" ..."""

    def run(api, *args, **options):
        return ask(api, *args, precision="float64", **options)["tensors"]

    return run


def near(found, expected):
    torch.testing.assert_close(found, expected.detach(), rtol=1e-12,
                               atol=1e-13)


def half(*shape, seed=1, grad=False):
    return randn(*shape, dtype=torch.bfloat16, seed=seed, grad=grad)


def wide(*tensors):
    return [each.detach().to(WIDE) for each in tensors]


def test_only_goldens_have_formulas(ask):  # noqa: F811
    answer = ask("NPU.npu_swiglu", half(2, 4), answered="unsupported")
    assert "NPU.npu_swiglu" in answer["message"]


def test_gated_activations(golden):
    x = half(3, 8)
    (w,) = wide(x)
    left, right = w.chunk(2, -1)
    near(golden("NPU.npu_swiglu", x)["output.0"], F.silu(left) * right)
    near(golden("NPU.npu_swiglu", half(4, 3), 0)["output.0"],
         F.silu(half(4, 3)[:2].to(WIDE)) * half(4, 3)[2:].to(WIDE))
    found = golden("NPU.npu_geglu", x)
    near(found["output.0"], left * F.gelu(right, approximate="tanh"))
    near(found["output.1"], F.gelu(right, approximate="tanh"))
    found = golden("NPU.npu_geglu", x, keywords={"approximate": 0,
                                                 "activate_left": True})
    near(found["output.0"], F.gelu(left) * right)
    near(golden("NPU.npu_gelu_mul", x)["output.0"], F.gelu(left) * right)


def test_plain_activations(golden):
    x = torch.tensor([-200.0, -3.0, -0.0, 0.5, 90.0])
    (w,) = wide(x)
    near(golden("NPU.npu_mish", x)["output.0"], F.mish(w))
    near(golden("NPU.npu_silu", x)["output.0"], F.silu(w))
    near(golden("NPU.npu_gelu", x, keywords={"approximate": "tanh"})[
        "output.0"], F.gelu(w, approximate="tanh"))
    # As the operator's own definition: x e^(0.851 (x - |x|)) / (1 + ...).
    expected = w * torch.exp(0.851 * (w - w.abs())) / (
        1 + torch.exp(-1.702 * w.abs()))
    for name in ("NPU.npu_fast_gelu", "NPU.fast_gelu"):
        near(golden(name, x)["output.0"], expected)


def test_rms_norms_and_their_gradients(golden):
    x, gamma, dy = half(3, 8, grad=True), half(8, seed=2, grad=True), half(
        3, 8, seed=3)
    w, g = (each.requires_grad_() for each in wide(x, gamma))
    y = F.rms_norm(w, (8,), g, 1e-5)
    dx, dg = torch.autograd.grad(y, [w, g], dy.to(WIDE))
    found = golden("NPU.npu_rms_norm", x, gamma, 1e-5,
                   gradients={"output.0": dy})
    near(found["output.0"], y)
    near(found["output.1"], 1 / torch.sqrt(
        w.square().mean(-1, keepdim=True) + 1e-5))
    near(found["gradient.input.0"], dx)
    near(found["gradient.input.1"], dg)
    other = half(3, 8, seed=4)
    total = w + other.to(WIDE)
    found = golden("NPU.npu_add_rms_norm", x, other, gamma)
    near(found["output.0"], F.rms_norm(total, (8,), g, 1e-6))
    near(found["output.2"], total)


def test_other_norms(golden):
    x, weight, bias = half(2, 6, 5), half(5, seed=2), half(5, seed=3)
    near(golden("NPU.npu_layer_norm_eval", x, [5], weight, bias)["output.0"],
         F.layer_norm(*wide(x)[:1], (5,), *wide(weight, bias)))
    weight, bias = half(6, seed=2), half(6, seed=3)
    (w,) = wide(x)
    found = golden("NPU.npu_group_norm_silu", x, weight, bias, 3,
                   keywords={"eps": 1e-3})
    near(found["output.0"], F.silu(F.group_norm(w, 3, *wide(weight, bias),
                                                1e-3)))
    y, mean, rstd = torch.native_group_norm(w, None, None, 2, 6, 5, 3, 1e-3)
    near(found["output.1"], mean)
    near(found["output.2"], rstd)


def test_rotary_embeddings(golden):
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    cos = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    sin = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    same(golden("NPU.npu_rotary_mul", x, cos, sin)["output.0"],
         torch.tensor([[1.0, 2.0, 1.0, 2.0]], dtype=WIDE))
    same(golden("NPU.npu_rotary_mul", x, cos, sin, "interleave")["output.0"],
         torch.tensor([[1.0, 2.0, -4.0, 3.0]], dtype=WIDE))
    # (a + bi)(cos t + i sin t), pairs being halves apart.
    x, angle = half(5, 8), torch.arange(5.0)[:, None] * torch.arange(1.0, 5.0)
    turned = torch.complex(*wide(*x.chunk(2, -1))) * torch.polar(
        torch.ones(5, 4, dtype=WIDE), angle.to(WIDE))
    both = torch.cat([angle, angle], -1).to(WIDE)
    found = golden("NPU.npu_rotary_mul", x.to(WIDE), both.cos(), both.sin())
    near(found["output.0"], torch.cat([turned.real, turned.imag], -1))


def test_movements(golden):
    x = half(2, 3, 4)
    (w,) = wide(x)
    near(golden("NPU.npu_confusion_transpose", x, [0, 2, 1], [2, 12], True)[
        "output.0"], w.permute(0, 2, 1).reshape(2, 12))
    near(golden("NPU.npu_confusion_transpose", x, [1, 0], [6, 4], False)[
        "output.0"], w.reshape(6, 4).t())
    near(golden("NPU.npu_transpose", x, [2, 0, 1])["output.0"],
         w.permute(2, 0, 1))
    weight, bias = half(5, 4, seed=2), half(5, seed=3)
    near(golden("NPU.npu_linear", x, weight, bias)["output.0"],
         F.linear(w, *wide(weight, bias)))
    near(golden("NPU.npu_dtype_cast", x, torch.float16)["output.0"], w)


def test_masked_softmax(golden):
    x = half(2, 1, 4, 4)
    (w,) = wide(x)
    mask = torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(1)
                      ) > 0.5
    found = golden("NPU.npu_scaled_masked_softmax", x, mask, 0.5)["output.0"]
    near(found, torch.softmax((w * 0.5).masked_fill(mask, -10000.0), -1))
    triangle = torch.ones(4, 4).triu(1).bool()
    found = golden("NPU.npu_scaled_masked_softmax", x, mask, 0.5, True)
    near(found["output.0"],
         torch.softmax((w * 0.5).masked_fill(triangle, -math.inf), -1))


def test_routing(golden):
    x = half(4, 6)
    (w,) = wide(x)
    near(golden("NPU.npu_sort_v2", x, 0, True)["output.0"],
         torch.sort(w, 0, True).values)
    finished = torch.tensor([False, True, False, False])
    found = golden("NPU.npu_moe_gating_top_k_softmax", x,
                   keywords={"finished": finished, "k": 2})
    values, experts = torch.softmax(w, -1).topk(2, -1)
    near(found["output.0"], values)
    experts[1] = 6
    same(found["output.1"], experts.int())
    same(found["output.2"], torch.tensor([[0, 4], [1, 5], [2, 6], [3, 7]],
                                         dtype=torch.int32))


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw_is_torchs(golden, amsgrad, maximize):
    """The third step of torch's optimizer."""
    parameter = torch.nn.Parameter(randn(6, dtype=WIDE))
    optimizer = torch.optim.AdamW([parameter], lr=0.1, betas=(0.9, 0.95),
                                  eps=1e-6, weight_decay=0.2, amsgrad=amsgrad,
                                  maximize=maximize)
    for step in range(2):
        parameter.grad = randn(6, dtype=WIDE, seed=step)
        optimizer.step()
    state = {name: value.clone()
             for name, value in optimizer.state[parameter].items()}
    before, grad = parameter.detach().clone(), randn(6, dtype=WIDE, seed=7)
    parameter.grad = grad
    optimizer.step()
    found = golden(
        "NPU.npu_apply_adam_w", 0.9**2, 0.95**2, 0.1, 0.2, 0.9, 0.95, 1e-6,
        grad, state.get("max_exp_avg_sq"), amsgrad, maximize,
        keywords={"out": [before, state["exp_avg"], state["exp_avg_sq"]]})
    after = optimizer.state[parameter]
    near(found["output.0"], parameter)
    near(found["output.1"], after["exp_avg"])
    near(found["after.input.out.2"], after["exp_avg_sq"])


def test_adam_of_uncorrected_moments(golden):
    """One step by hand: m = 0.1, v = 0.001, rate = sqrt(0.001) / 0.1."""
    one, zero = torch.ones(1), torch.zeros(1)
    found = golden("NPU.npu_apply_adam", 0.9, 0.999, 0.5, 0.9, 0.999, 0.0,
                   one, False, False, keywords={"out": [one, zero, zero]})
    near(found["output.0"], torch.tensor([0.5], dtype=WIDE))
    found = golden("NPU.npu_apply_adam", 0.9, 0.999, 0.5, 0.9, 0.999, 0.0,
                   one, False, True, keywords={"out": [one, zero, zero]})
    near(found["output.0"], torch.tensor([1 - 0.5 * 1.9], dtype=WIDE))


def attention(q, k, v, hidden=None, scale=0.5):
    """(batch, head, sequence, element), by torch."""
    groups = q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(groups, 1) for each in (k, v))
    mask = None if hidden is None else ~hidden.expand(
        q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
def test_attention_in_every_layout(golden, layout):
    q, k, v = (half(2, heads, length, 8, seed=seed)
               for seed, heads, length in ((1, 4, 5), (2, 2, 7), (3, 2, 7)))
    expected = attention(*wide(q, k, v))

    def laid(x):
        if layout == "BNSD":
            return x
        x = x.transpose(1, 2)
        if layout != "BSND":
            x = x.flatten(2)
        return x.transpose(0, 1) if layout == "SBH" else x

    found = golden("NPU.npu_fusion_attention", *map(laid, (q, k, v)), 4,
                   layout, keywords={"scale": 0.5})
    near(found["output.0"], laid(expected))
    scores = wide(q)[0] @ wide(k)[0].repeat_interleave(2, 1).transpose(
        -1, -2) * 0.5
    assert found["output.1"].shape == (2, 4, 5, 8)
    near(found["output.1"][..., 3], scores.amax(-1))
    near(found["output.2"][..., 0].log() + found["output.1"][..., 0],
         scores.logsumexp(-1))
    assert found["output.3"].numel() == 0


@pytest.mark.parametrize("mode, pre, following", [
    (0, None, None), (1, None, None), (2, None, None), (3, None, None),
    (4, 2, 1), (4, 3, -1)])
def test_attention_with_masks(golden, mode, pre, following):
    q, k, v = (half(2, 2, length, 8, seed=seed, grad=True)
               for seed, length in ((1, 5), (2, 7), (3, 7)))
    dy = half(2, 2, 5, 8, seed=4)
    row, column = torch.arange(5)[:, None], torch.arange(7)
    if mode in (0, 1):
        hidden = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)
                            ) > 0.6
        hidden[:, 0] = False
    else:
        aligned = row + (2 if mode != 2 else 0)
        hidden = column > aligned + (following or 0)
        if mode == 4:
            hidden = hidden | (column < aligned - pre)
    passed = hidden if mode < 2 else torch.ones(2048, 2048).triu(1).bool()
    keywords = {"atten_mask": passed, "scale": 0.5, "sparse_mode": mode}
    if mode == 4:
        keywords.update(pre_tockens=pre, next_tockens=following)
    found = golden("NPU.npu_fusion_attention", q, k, v, 2, "BNSD",
                   keywords=keywords, gradients={"output.0": dy})
    leaves = [each.requires_grad_() for each in wide(q, k, v)]
    expected = attention(*leaves, hidden=hidden)
    near(found["output.0"], expected)
    gradients = torch.autograd.grad(expected, leaves, dy.to(WIDE))
    for i, gradient in enumerate(gradients):
        near(found[f"gradient.input.{i}"], gradient)


def test_attention_of_several_lengths(golden):
    q_ends, k_ends = [3, 3, 8], [2, 4, 9]
    q, k, v = (half(length, heads, 8, seed=seed) for seed, heads, length in (
        (1, 4, 10), (2, 2, 9), (3, 2, 9)))
    found = golden(
        "NPU.npu_fusion_attention", q, k, v, 4, "TND", keywords={
            "scale": 0.5, "sparse_mode": 3, "softmax_layout": "TND",
            "actual_seq_qlen": q_ends, "actual_seq_kvlen": k_ends,
            "atten_mask": torch.ones(2048, 2048).triu(1).bool()})
    start = (0, 0)
    for a, b in zip(q_ends, k_ends):
        one = [x[None, at].transpose(1, 2) for x, at in zip(
            wide(q, k, v), (slice(start[0], a), *[slice(start[1], b)] * 2))]
        rows, columns = a - start[0], b - start[1]
        hidden = torch.arange(columns) > (
            torch.arange(rows)[:, None] + columns - rows)
        expected = attention(*one, hidden=hidden)
        expected = torch.nan_to_num(expected)  # rows that see nothing
        near(found["output.0"][start[0]:a], expected[0].transpose(0, 1))
        start = (a, b)
    assert not found["output.0"][8:].any()  # of no sequence
    assert found["output.1"].shape == (10, 4, 8)
    heads_first = golden(
        "NPU.npu_fusion_attention", q, k, v, 4, "TND", keywords={
            "scale": 0.5, "actual_seq_qlen": [10], "actual_seq_kvlen": [9]})
    tokens_first = golden(
        "NPU.npu_fusion_attention", q, k, v, 4, "TND", keywords={
            "scale": 0.5, "actual_seq_qlen": [10], "actual_seq_kvlen": [9],
            "softmax_layout": "TND"})
    near(heads_first["output.1"].reshape(4, 10, 8).transpose(0, 1),
         tokens_first["output.1"])


def test_attention_with_positions(golden):
    q, k, v, pse = (half(1, 2, 4, 8, seed=1), half(1, 2, 4, 8, seed=2),
                    half(1, 2, 4, 8, seed=3), half(1, 2, 4, 4, seed=4))
    found = golden("NPU.npu_fusion_attention", q, k, v, 2, "BNSD", pse,
                   keywords={"scale": 0.5})
    scores = (wide(q)[0] @ wide(k)[0].transpose(-1, -2) + wide(pse)[0]) * 0.5
    near(found["output.0"], scores.softmax(-1) @ wide(v)[0])


@pytest.mark.parametrize("keywords", [
    {"keep_prob": 0.9}, {"sparse_mode": 5}, {"prefix": [1]}])
def test_attention_that_has_no_formula(ask, keywords):  # noqa: F811
    if "sparse_mode" in keywords:
        keywords = {**keywords, "atten_mask": torch.zeros(4, 4).bool()}
    q = half(1, 2, 4, 8)
    answer = ask("NPU.npu_fusion_attention", q, q, q, 2, "BNSD",
                 keywords=keywords, precision="float64",
                 answered="unsupported")
    assert next(iter(keywords)) in answer["message"]


def test_grouped_products(golden):
    """Of torch itself, which has no float64 of them."""
    ends = torch.tensor([3, 8], dtype=torch.int32)
    a, b = half(8, 16), half(2, 16, 8, seed=2)
    w, u = wide(a, b)
    for api in ("Torch._grouped_mm", "Functional.grouped_mm",
                "Aten._grouped_mm"):
        near(golden(api, a, b, keywords={"offs": ends})["output.0"],
             torch.cat([w[:3] @ u[0], w[3:] @ u[1]]))
    a, b = half(16, 8), half(8, 16, seed=2)
    w, u = wide(a, b)
    near(golden("Torch._grouped_mm", a, b, keywords={"offs": ends})[
        "output.0"], torch.stack([w[:, :3] @ u[:3], w[:, 3:] @ u[3:]]))
    a, b = half(2, 16, 8), half(2, 8, 16, seed=2)
    near(golden("Torch._grouped_mm", a, b)["output.0"], wide(a)[0]
         @ wide(b)[0])


def test_scaled_products_of_fp8(golden):
    a = randn(16, 32).to(torch.float8_e4m3fn)
    b = randn(32, 16, seed=2).to(torch.float8_e4m3fn)
    bias = half(16, seed=3)
    w, u = wide(a, b)
    one, two = torch.tensor(0.5), torch.tensor(0.25)
    near(golden("Torch._scaled_mm", a, b, one, two, bias,
                keywords={"out_dtype": torch.bfloat16})["output.0"],
         (w @ u) * 0.125 + wide(bias)[0])
    rows, columns = randn(16, 1).abs(), randn(1, 16, seed=2).abs()
    near(golden("Aten._scaled_mm", a, b, rows, columns)["output.0"],
         (w @ u) * wide(rows)[0] * wide(columns)[0])
    # Blocks of 1 x 16 and of 16 x 16.
    rows, blocks = randn(16, 2).abs(), randn(2, 1, seed=2).abs()
    expected = sum(w[:, i:i + 16] @ u[i:i + 16] * wide(rows)[0][:, i // 16,
                                                               None]
                   * wide(blocks)[0][i // 16] for i in (0, 16))
    near(golden("Torch._scaled_mm", a, b, rows, blocks)["output.0"], expected)
