"""Attention cases with float64 answers from torch: the formula written out,
gradients by autograd. Run where torch is installed:

  python make_attention.py        writes attention_<case>.npz beside itself

Inputs are float32; answers are float64 of the same inputs. Tensors are bshd;
the tests turn them into the other layouts. Excluded pairs get -inf before the
softmax, rows without keys are zeroed afterwards.
"""

import math
import pathlib

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent


def slopes(heads):
    n = 2 ** math.floor(math.log2(heads))
    first = 2.0 ** (-8.0 / n)
    values = [first ** (1 + k) for k in range(n)]
    second = 2.0 ** (-4.0 / n)
    values += [second ** (1 + 2 * k) for k in range(heads - n)]
    return torch.tensor(values, dtype=torch.float64)


def keep_mask(case, lens_q, lens_kv, sq, skv):
    """[b, 1, sq, skv], True where a pair takes part."""
    masks = []
    for q, kv in zip(lens_q, lens_kv):
        i = torch.arange(sq)[:, None]
        j = torch.arange(skv)[None, :]
        keep = (i < q) & (j < kv)
        off = kv - q if case.get("bottom_right") else 0
        if case.get("causal"):
            keep &= j <= i + off
        left, right = case.get("window", (-1, -1))
        if left >= 0:
            keep &= j >= i + off - left
        if right >= 0:
            keep &= j <= i + off + right
        masks.append(keep)
    return torch.stack(masks)[:, None]


def run(name, case):
    torch.manual_seed(sum(map(ord, name)))
    b, sq, skv = case["b"], case["sq"], case["skv"]
    h, hkv, d, dv = case["h"], case["hkv"], case["d"], case["dv"]
    single = {
        "q": torch.randn(b, sq, h, d), "k": torch.randn(b, skv, hkv, d),
        "v": torch.randn(b, skv, hkv, dv), "d_out": torch.randn(b, sq, h, dv)}
    lens_q = case.get("lens_q", [sq] * b)
    lens_kv = case.get("lens_kv", [skv] * b)
    bias_shape = case.get("bias")
    if bias_shape:
        single["bias"] = torch.randn(bias_shape)
    if case.get("sink") == "learnable":
        single["softmax_offset"] = torch.randn(h)
    keep = keep_mask(case, lens_q, lens_kv, sq, skv)
    if case.get("arbitrary"):
        out = torch.rand(b, 1, sq, skv) < 0.4
        single["mask"] = out.to(torch.uint8)
        keep = keep & ~out
    wide = {k: v.double() for k, v in single.items() if v.is_floating_point()}
    leaves = [t for t in wide if t != "d_out"]
    for t in leaves:
        wide[t].requires_grad_(True)
    scale = case.get("scale", 1.0 / math.sqrt(d))
    q = wide["q"].transpose(1, 2)
    # repeat_interleave: query head i uses key head i // (h / hkv).
    k = wide["k"].transpose(1, 2).repeat_interleave(h // hkv, 1)
    v = wide["v"].transpose(1, 2).repeat_interleave(h // hkv, 1)
    x = q @ k.transpose(2, 3)
    if case.get("pre_scale"):
        x = (x + wide["bias"]) * scale
    else:
        x = x * scale
        if bias_shape:
            x = x + wide["bias"]
    if case.get("alibi"):
        i = torch.arange(sq)[:, None]
        j = torch.arange(skv)[None, :]
        off = torch.tensor([kv - q for q, kv in zip(lens_q, lens_kv)])
        if case.get("causal") and not case.get("bottom_right"):
            off = off * 0
        distance = (i + off[:, None, None] - j).abs()[:, None]
        x = x - slopes(h)[None, :, None, None] * distance
    x = x.masked_fill(~keep, -math.inf)
    if case.get("sink"):
        offset = wide.get("softmax_offset", torch.zeros(h).double())
        sink = offset[None, :, None, None].expand(b, h, sq, 1)
        lse = torch.logsumexp(torch.cat((x, sink), -1), -1)
    else:
        lse = torch.logsumexp(x, -1)
    alive = keep.any(-1).expand(b, h, sq)
    safe = torch.where(alive, lse, torch.zeros_like(lse))
    p = torch.where(keep, torch.exp(x - safe[..., None]),
                    torch.zeros_like(x))
    out = (p @ v).transpose(1, 2)
    grads = torch.autograd.grad(out, [wide[t] for t in leaves], wide["d_out"])
    # Rows of padding belong to no sequence: no log-sum-exp.
    rows = torch.zeros(b, sq, dtype=torch.bool)
    for n, length in enumerate(lens_q):
        rows[n, :length] = True
    lse = torch.where(rows[:, None, :] & (alive | bool(case.get("sink"))), lse,
                      torch.full_like(lse, -math.inf))
    arrays = {k: t.numpy() for k, t in single.items()}
    arrays["out"] = out.detach().numpy()
    arrays["lse"] = lse.detach().numpy()
    for t, grad in zip(leaves, grads):
        arrays["d_" + t] = grad.numpy()
    arrays["lens_q"] = np.array(lens_q, np.int32)
    arrays["lens_kv"] = np.array(lens_kv, np.int32)
    np.savez_compressed(HERE / f"attention_{name}.npz", **arrays)


E4M3, E5M2 = (torch.float8_e4m3fn, 448.0), (torch.float8_e5m2, 57344.0)


def qdq(tensors, fmt):
    """Cast and back under one scale, max / amax of all of them together."""
    dtype, most = fmt
    amax = max(float(t.abs().max()) for t in tensors)
    scale = np.float32(most) / np.float32(amax)
    back = np.float32(1) / scale
    return [((t.float() * float(scale)).to(dtype).float() * float(back))
            for t in tensors]


def run_fp8(name):
    """NVTE's emulation, step by step: every step a float32 tensor made from
    float64 sums; e4m3 forward, e5m2 backward. Causal, 4 heads over 2."""
    torch.manual_seed(7)
    b, s, h, hkv, d = 2, 9, 4, 2, 8
    a = {"q": torch.randn(b, s, h, d), "k": torch.randn(b, s, hkv, d),
         "v": torch.randn(b, s, hkv, d), "d_out": torch.randn(b, s, h, d)}
    scale = float(np.float32(1.0 / math.sqrt(d)))
    q, k, v = (t.transpose(1, 2).double()
               for t in qdq([a["q"], a["k"], a["v"]], E4M3))
    k, v = (t.repeat_interleave(h // hkv, 1) for t in (k, v))
    keep = torch.tril(torch.ones(s, s, dtype=torch.bool))
    x = (q @ k.transpose(2, 3) * scale).float().double()
    p = torch.softmax(x.masked_fill(~keep, -math.inf), -1).float().double()
    probs = qdq([p], E4M3)[0].double()
    out = qdq([(probs @ v).float()], E4M3)[0]
    g = qdq([a["d_out"]], E5M2)[0].transpose(1, 2).double()
    dv = probs.transpose(2, 3) @ g
    dp = (g @ v.transpose(2, 3)).float().double()
    dx = (p * (dp - (p * dp).sum(-1, keepdim=True))).float()
    dx = qdq([dx], E5M2)[0].double()
    dq = dx @ k * scale
    dk = dx.transpose(2, 3) @ q * scale
    dk, dv = (t.reshape(b, hkv, h // hkv, s, d).sum(2) for t in (dk, dv))
    grads = qdq([t.transpose(1, 2).float() for t in (dq, dk, dv)], E5M2)
    arrays = {key: t.numpy() for key, t in a.items()}
    arrays["out"] = out.transpose(1, 2).numpy()
    arrays.update({f"d_{key}": t.numpy() for key, t in zip("qkv", grads)})
    np.savez_compressed(HERE / f"attention_{name}.npz", **arrays)


BASE = dict(b=2, sq=9, skv=9, h=4, hkv=4, d=8, dv=8)
CASES = {
    "causal": dict(BASE, causal=True),
    "full_cross": dict(BASE, sq=5, skv=11, hkv=2, dv=6),
    "bottom_right": dict(BASE, sq=5, skv=11, causal=True, bottom_right=True),
    "padding": dict(BASE, sq=7, skv=10, hkv=1, lens_q=[4, 7],
                    lens_kv=[10, 6]),
    "padding_causal": dict(BASE, causal=True, lens_q=[3, 8], lens_kv=[3, 8]),
    "padding_causal_bottom_right": dict(
        BASE, sq=8, skv=12, causal=True, bottom_right=True, lens_q=[5, 7],
        lens_kv=[9, 4]),
    "window": dict(BASE, sq=12, skv=12, window=(3, 2)),
    "window_bottom_right": dict(BASE, sq=8, skv=13, causal=True,
                                bottom_right=True, window=(4, 0)),
    "alibi": dict(BASE, h=6, hkv=3, sq=7, skv=10, alibi=True),
    "alibi_causal": dict(BASE, h=5, hkv=5, causal=True, alibi=True),
    "post_scale_bias": dict(BASE, bias=(1, 4, 9, 9)),
    "pre_scale_bias": dict(BASE, bias=(2, 1, 9, 9), pre_scale=True,
                           causal=True),
    "shared_bias": dict(BASE, bias=(1, 1, 9, 9)),
    "off_by_one": dict(BASE, causal=True, sink="off-by-one"),
    "learnable": dict(BASE, sink="learnable", hkv=2),
    "arbitrary": dict(BASE, arbitrary=True),
}

if __name__ == "__main__":
    for case_name, parameters in CASES.items():
        run(case_name, parameters)
    run_fp8("fp8_emulation")
