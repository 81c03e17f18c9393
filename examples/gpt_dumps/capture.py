"""Captures the two dumps of this folder with msprobe, the real tool.

    pip install torch==2.13.0 mindstudio-probe
    python capture.py

A three-layer GPT takes two training steps twice: `golden` as written, `target`
with oneDNN switched off (another matmul, so the runs agree only up to
rounding, as two devices do) and one planted fault: asked for the exact GELU, its kernel
computes the tanh approximation in the second block. The call is the same on
both sides, only the numbers tell. Level mix (modules and functions), task
tensor.
"""

import itertools
import json
import math
import pathlib
import shutil
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = pathlib.Path(__file__).resolve().parent
VOCAB, HIDDEN, HEADS, LAYERS, BATCH, SEQ = 32, 16, 2, 3, 2, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(x).view(b, s, HEADS, 3 * h // HEADS).chunk(3, -1)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(h // HEADS)
        mask = torch.ones(s, s, dtype=torch.bool).triu(1)
        weights = F.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(b, s, h)
        return self.proj(out)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(HIDDEN), Attention()
        self.ln2, self.mlp = nn.LayerNorm(HIDDEN), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def bind_wrong_kernel():
    """The planted fault: every LAYERS-th call, counted from the second block,
    gets the tanh kernel whatever `approximate` says."""
    exact, calls = F.gelu, itertools.count()

    def gelu(x, approximate="none"):
        wrong = next(calls) % LAYERS == 1
        return exact(x, approximate="tanh" if wrong else approximate)

    F.gelu = gelu


def capture(side):
    if side == "target":
        bind_wrong_kernel()  # before msprobe wraps the function
    from msprobe.pytorch import PrecisionDebugger, seed_all

    out = HERE / side
    shutil.rmtree(out, ignore_errors=True)
    config = HERE / f"{side}.config.json"
    config.write_text(json.dumps({
        "task": "tensor", "dump_path": str(out), "rank": [], "step": [0, 1],
        "level": "mix", "async_dump": False, "extra_info": True,
        "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    }))
    seed_all(1234, True)
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = side == "golden"
    debugger = PrecisionDebugger(config_path=str(config))
    model = Gpt()
    for linear in (m for m in model.modules() if isinstance(m, nn.Linear)):
        nn.init.normal_(linear.weight, std=0.4)  # trained-looking activations
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1),
                               generator=torch.Generator().manual_seed(step))
        debugger.start(model=model)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1),
                               tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
        print(side, "step", step, "loss", loss.item())
    config.unlink()
    strip_machine_paths(out)


def strip_machine_paths(out):
    """Makes the dump independent of where and by which process it was made."""
    for process in list(out.glob("step*/proc*")):
        name = process.name
        process.rename(process.with_name("rank0"))
        dump = process.with_name("rank0") / "dump.json"
        dump.write_text(dump.read_text().replace(f"/{name}/", "/rank0/"))
    for path in out.rglob("*.json"):
        text = path.read_text()
        text = text.replace(str(HERE) + "/", "").replace(sys.prefix, "env")
        path.write_text(text)
    for log in out.rglob("dump_error_info.log"):
        log.unlink()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        capture(sys.argv[1])
    else:
        import subprocess

        for side in ("golden", "target"):
            subprocess.run([sys.executable, __file__, side], check=True)
