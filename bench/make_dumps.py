"""Writes the synthetic pairs of dumps that bench_compare.py measures.

    make_dumps.py OUT tensor APIS NUMEL     two float32 .pt per API and side
    make_dumps.py OUT statistics APIS       no tensors, two rows per API
    make_dumps.py OUT fuzzy APIS            statistics, call indices shifted

Layout and leaves as msprobe 26.x writes them. Target values differ from the
golden by about 1e-7 relative, in one operator of a hundred by 1e-4.
"""

import json
import pathlib
import sys


def leaf(stats, shape, data_name=None):
    entry = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape,
             "Max": stats[0], "Min": stats[1], "Mean": stats[2],
             "Norm": stats[3], "requires_grad": False}
    if data_name:
        entry["data_name"] = data_name
    return entry


def write_side(root, task, entries, stack_names):
    root.mkdir(parents=True, exist_ok=True)
    (root / "dump.json").write_text(json.dumps(
        {"task": task, "level": "L1", "framework": "pytorch",
         "dump_data_dir": "dump_tensor_data", "data": entries}, indent=1))
    (root / "stack.json").write_text(json.dumps(
        {"0": [stack_names, ["File model.py, line 1, in forward, \n y = f(x)"]]},
        indent=1))
    (root / "construct.json").write_text("{}")


def statistics_entries(apis, shift, eps):
    entries = {}
    for i in range(apis):
        base = 1.0 + (i % 997) / 997.0
        values = [base * 3.2820777893066406, -base * 3.2363595962524414,
                  base * 2.2118911147117615e-09, base * 63.99967575073242]
        off = eps if i % 100 == 99 else eps * 1e-3
        scaled = [v * (1 + off) for v in values]
        name = f"Functional.linear.{i + shift}.forward"
        entries[name] = {"input_args": [leaf(values, [4, 16, 64])],
                         "input_kwargs": {},
                         "output": [leaf(scaled, [4, 16, 64])]}
    return entries


def tensor_side(root, apis, numel, eps):
    import torch
    torch.manual_seed(0)
    base = torch.randn(numel)
    noise = torch.randn(numel)
    data = root / "dump_tensor_data"
    data.mkdir(parents=True, exist_ok=True)
    entries = {}
    for i in range(apis):
        name = f"Functional.linear.{i}.forward"
        x = base.roll(i)
        y = x * (1 + eps * noise)
        leaves = []
        for kind, t in (("input", x), ("output", y)):
            file = f"{name}.{kind}.0.pt"
            torch.save(t.clone(), data / file)
            leaves.append(leaf([t.max().item(), t.min().item(),
                                t.mean().item(), t.norm().item()],
                               list(t.shape), file))
        entries[name] = {"input_args": [leaves[0]], "input_kwargs": {},
                         "output": [leaves[1]]}
    return entries


def main():
    out, kind, apis = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    done = out / ".complete"
    if done.exists():
        return
    for side, eps in (("npu", 1e-4), ("gpu", 0.0)):
        root = out / side / "step0" / "rank0"
        if kind == "tensor":
            entries = tensor_side(root, apis, int(sys.argv[4]), eps * 1e-3)
        else:
            shift = 10**6 if kind == "fuzzy" and side == "npu" else 0
            entries = statistics_entries(apis, shift, eps)
        write_side(root, "tensor" if kind == "tensor" else "statistics",
                   entries, list(entries))
    done.touch()


if __name__ == "__main__":
    main()
