"""Writes random_torch.safetensors: what torch's own CPU generator drew.

Entry names: "<case>.<what>"; the cases and their arguments stand in
tests/precheck/random_torch_test.cpp. Made with torch 2.13.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(20)
out = {}


def case(name, result, **inputs):
    out[f"{name}.output"] = result.detach()
    for key, tensor in inputs.items():
        out[f"{name}.{key}"] = tensor.detach()


def backward(name, function, x, given):
    x = x.requires_grad_()
    y = function(x)
    y.backward(given)
    case(name, y, x=x, given=given, gradient=x.grad)


N = 1000
half, brain = torch.float16, torch.bfloat16
backward("dropout", lambda x: F.dropout(x, 0.1),
         torch.randn(N, dtype=brain), torch.randn(N, dtype=brain))
backward("alpha_dropout", lambda x: F.alpha_dropout(x, 0.3, True),
         torch.randn(N), torch.randn(N))
backward("dropout1d", lambda x: F.dropout1d(x, 0.5),
         torch.randn(50, 20, 2, dtype=half), torch.randn(50, 20, 2, dtype=half))
backward("dropout3d", lambda x: F.dropout3d(x, 0.5),
         torch.randn(1000, 1, 1, 2, dtype=half),
         torch.randn(1000, 1, 1, 2, dtype=half))
x = torch.randn(2 * N, dtype=half)
case("feature_alpha", F.feature_alpha_dropout(x.view(-1, 1, 2), 0.5, True),
     x=x.view(-1, 1, 2))
x = torch.randn(N)
kept, mask = torch.native_dropout(x, 0.25, True)
case("native_dropout", kept, x=x)
out["native_dropout.mask"] = mask
case("rand_brain", torch.rand(2500, dtype=brain))
case("randn_half", torch.randn(1500, dtype=half))
case("cauchy_half", torch.empty(1200, dtype=half).cauchy_(1.0, 3.0))
case("randn_complex", torch.randn(1000, dtype=torch.complex64))
case("trunc_normal", torch.nn.init.trunc_normal_(torch.empty(20, 50), 1.0,
                                                 2.0, -1.0, 4.0))
case("kaiming_uniform",
     torch.nn.init.kaiming_uniform_(torch.empty(20, 6, 3, 3), a=5 ** 0.5))
case("xavier_normal", torch.nn.init.xavier_normal_(torch.empty(20, 50), 0.5))
rate = torch.rand(N) * 5
case("poisson", torch.poisson(rate), x=rate)
chance = torch.rand(N)
case("bernoulli", torch.bernoulli(chance), x=chance)
case("random_int8", torch.empty(2000, dtype=torch.int8).random_())
case("randint_half", torch.randint(0, 1000, (1200,), dtype=half))
weights = torch.rand(860, 4)
case("multinomial", torch.multinomial(weights, 2).to(torch.int64), x=weights)
case("multinomial_again", torch.multinomial(weights[0], 1000, True),
     x=weights[0])
logits = torch.randn(3, 860, dtype=brain)
case("gumbel_hard", F.gumbel_softmax(logits, 1.0, True, dim=0), x=logits)
case("gumbel_soft", F.gumbel_softmax(logits, 0.5, dim=0), x=logits)
backward("rrelu", lambda x: F.rrelu(x, 0.1, 0.4, True),
         torch.randn(1900, dtype=brain), torch.randn(1900, dtype=brain))
path = Path(__file__).with_name("random_torch.safetensors")
save_file({k: v.clone().contiguous() for k, v in out.items()}, path)
print(path.stat().st_size, torch.__version__)
