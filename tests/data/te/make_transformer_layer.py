"""Makes transformer_layer_*.npz: one layer composed of torch's own operators,
in fp64, with values that fp32 holds exactly.

Run with torch 2.13 on a CPU: python make_transformer_layer.py
Keys: p:NAME parameters and g:NAME their gradients under the names of the
module's state dict, x, dy, y, dx, encoder, d_encoder, freqs.
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F

HIDDEN, FFN, HEADS, S, B, S2 = 16, 24, 4, 5, 2, 7
CH = HIDDEN // HEADS


class Layer:
    def __init__(self, seed, **options):
        self.o = dict(groups=HEADS, fused=False, rms=False, bias=True,
                      act="gelu", causal=True, decoder=False, parallel=False,
                      post=False, bert=False, rope=None, qk=None,
                      qk_first=False, zero=False) | options
        self.rng = np.random.default_rng(seed)
        self.p = {}

    def draw(self, *shape, scale=0.3, mean=0.0):
        v = (mean + scale * self.rng.standard_normal(shape)).astype(np.float32)
        return torch.tensor(v, dtype=torch.float64, requires_grad=True)

    def param(self, name, *shape, **kw):
        if name not in self.p:
            self.p[name] = self.draw(*shape, **kw)
        return self.p[name]

    def norm(self, x, prefix, eps=1e-5, rms=None, zero=None):
        rms = self.o["rms"] if rms is None else rms
        zero = self.o["zero"] if zero is None else zero
        n = x.shape[-1]
        w = self.param(prefix + "weight", n, mean=0.0 if zero else 1.0)
        w = 1 + w if zero else w
        if rms:
            return F.rms_norm(x, (n,), w, eps)
        return F.layer_norm(x, (n,), w, self.param(prefix + "bias", n), eps)

    def linear(self, x, names, rows):
        """Weights of `names` one under the other; a prefix ends in '.' or '_'."""
        w = torch.cat([self.param(n + "weight", r, x.shape[-1])
                       for n, r in zip(names, rows)])
        b = None
        if self.o["bias"]:
            b = torch.cat([self.param(n + "bias", r)
                           for n, r in zip(names, rows)])
        return F.linear(x, w, b)

    def rotate(self, t):
        if self.o["rope"] is None:
            return t
        f = self.freqs
        if self.o["rope"] == "interleaved":
            r = torch.stack((-t[..., 1::2], t[..., ::2]), -1).flatten(-2)
        else:
            a, b = t.chunk(2, -1)
            r = torch.cat((-b, a), -1)
        return t * f.cos() + r * f.sin()

    def qk_norm(self, t, name):
        kind = self.o["qk"]
        if kind is None:
            return t
        if kind == "L2Normalization":
            return t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6)
        return self.norm(t, name + ".", 1e-6, kind == "RMSNorm", False)

    def attention(self, x, prefix, encoder=None):
        g, n = self.o["groups"], HEADS // self.o["groups"]
        ln_out = None
        cross = encoder is not None
        if prefix == "self_attention." and self.o["bert"]:
            proj = prefix + "qkv."
            z = x
        else:
            proj = prefix + ("layernorm_query." if cross else "layernorm_qkv.")
            z = ln_out = self.norm(x, proj + "layer_norm_")
        s, b = x.shape[:2]
        q_rows, kv_rows = HEADS * CH, g * CH
        if cross:
            q = self.linear(z, [proj + "query_"], [q_rows])
            kv = self.linear(encoder, [prefix + "key_value.key_",
                                       prefix + "key_value.value_"],
                             [kv_rows, kv_rows])
            k, v = kv.split([kv_rows, kv_rows], -1)
        elif self.o["fused"]:
            m = self.linear(z, [proj], [q_rows + 2 * kv_rows])
            m = m.view(s, b, g, n + 2, CH)
            q, k, v = m.split([n, 1, 1], 3)
        else:
            m = self.linear(z, [proj + i for i in ("query_", "key_", "value_")],
                            [q_rows, kv_rows, kv_rows])
            q, k, v = m.split([q_rows, kv_rows, kv_rows], -1)
        q = q.reshape(s, b, HEADS, CH)
        k, v = (t.reshape(t.shape[0], b, g, CH) for t in (k, v))
        first, second = self.qk_norm, lambda t, _: self.rotate(t)
        if not self.o["qk_first"]:
            first, second = second, first
        for f in (first, second):
            q, k = f(q, prefix + "q_norm"), f(k, prefix + "k_norm")
        o = F.scaled_dot_product_attention(
            *(t.permute(1, 2, 0, 3) for t in (q, k, v)),
            is_causal=self.o["causal"] and not cross, enable_gqa=True)
        o = o.permute(2, 0, 1, 3).reshape(s, b, HEADS * CH)
        return self.linear(o, [prefix + "proj."], [HIDDEN]), ln_out

    def mlp(self, x):
        z = self.norm(x, "layernorm_mlp.layer_norm_")
        gated = self.o["act"] == "swiglu"
        h = self.linear(z, ["layernorm_mlp.fc1_"], [FFN * (2 if gated else 1)])
        if gated:
            a, b = h.chunk(2, -1)
            h = F.silu(a) * b
        else:
            h = F.gelu(h, approximate="tanh")
        return self.linear(h, ["layernorm_mlp.fc2_"], [HIDDEN]), z

    def forward(self, x, encoder):
        a, z = self.attention(x, "self_attention.")
        if self.o["parallel"]:
            return x + a + self.mlp(x)[0]
        post = self.o["post"]
        h = (z if post and z is not None else x) + a
        if self.o["decoder"]:
            a, z = self.attention(h, "inter_attention.", encoder)
            h = (z if post else h) + a
        m, z = self.mlp(h)
        y = (z if post else h) + m
        return self.norm(y, "layernorm.") if self.o["bert"] else y

    def save(self, name):
        x, dy = self.draw(S, B, HIDDEN, scale=1), self.draw(S, B, HIDDEN, scale=1)
        out = {}
        if self.o["rope"]:
            inv = np.float32(10000.0) ** (-np.arange(0, CH, 2) / CH)
            f = np.arange(S)[:, None] * inv[None]
            f = (np.repeat(f, 2, 1) if self.o["rope"] == "interleaved"
                 else np.concatenate([f, f], 1)).astype(np.float32)
            out["freqs"] = f.reshape(S, 1, 1, CH)
            self.freqs = torch.tensor(out["freqs"], dtype=torch.float64)
        encoder = self.draw(S2, B, HIDDEN, scale=1) if self.o["decoder"] else None
        y = self.forward(x, encoder)
        y.backward(dy)
        out |= {"x": x, "dy": dy, "y": y, "dx": x.grad}
        if encoder is not None:
            out |= {"encoder": encoder, "d_encoder": encoder.grad}
        for n, p in self.p.items():
            out["p:" + n], out["g:" + n] = p, p.grad
        out = {k: np.asarray(v.detach() if torch.is_tensor(v) else v,
                             dtype=np.float32) for k, v in out.items()}
        here = pathlib.Path(__file__).parent
        np.savez_compressed(here / f"transformer_layer_{name}.npz", **out)


if __name__ == "__main__":
    Layer(1).save("encoder")
    Layer(2, groups=2, fused=True, rms=True, bias=False, act="swiglu",
          rope="half", qk="RMSNorm").save("gqa_rope")
    Layer(3, groups=2, decoder=True).save("decoder")
    Layer(4, parallel=True, qk="L2Normalization").save("parallel")
    Layer(5, post=True, decoder=True).save("post_layernorm")
    Layer(6, bert=True, causal=False).save("output_layernorm")
    Layer(7, zero=True, qk="LayerNorm", qk_first=True,
          rope="interleaved").save("zero_centered")
