#!/usr/bin/env python3
"""A worker with one planted defect: the torch provider with a line of its
source changed.

    conform_faults.py NAME [--list]

Each fault says which module owns what it breaks. `shared` faults are in code
that several modules stand on; those may notice it too.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
import sys
import types

import torch

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python"))

from assay.worker.serve import Server, claim_stdout, serve  # noqa: E402

PACKAGE = "assay.worker.torch_provider"
LAYERS = {"linear", "layernorm_linear", "layernorm_mlp", "grouped_linear",
          "multihead_attention", "transformer_layer", "fuser_ops", "tp_linear",
          "recompute"}
QUANTISING = LAYERS | {"fused_activation", "ep_all_to_all", "rmsnorm",
                       "layernorm", "dot_product_attention", "fused_optimizer"}
ATTENTION = {"multihead_attention", "transformer_layer", "recompute"}


@dataclasses.dataclass(frozen=True)
class Fault:
    """`old` in FILE.py of the provider becomes `new`."""

    owner: str
    file: str
    old: str
    new: str
    shared: frozenset[str] | set[str] = frozenset()


FAULTS = {
    "eps_misplaced_in_adam": Fault(
        "fused_optimizer", "fused_optimizer",
        "((v / c2).sqrt() + call.eps)",
        "(v / c2 + call.eps).sqrt()"),
    "erf_for_tanh": Fault(
        "fused_activation", "activations",
        "t = torch.tanh(inner)",
        "t = torch.erf(x * 0.5**0.5)",
        {"layernorm_mlp", "transformer_layer", "fuser_ops", "recompute"}),
    "rope_pairs_neighbours": Fault(
        "rope", "rope",
        "if interleaved:\n        pairs",
        "if not interleaved:\n        pairs"),
    "scale_inv_is_stale": Fault(
        "quantization", "delayed",
        "        self.history[0, slot] = torch.maximum(",
        "        result.scale_inv, self.last = (\n"
        "            getattr(self, 'last', result.scale_inv), "
        "result.scale_inv)\n"
        "        self.history[0, slot] = torch.maximum(",
        QUANTISING),
    "fnuz_range": Fault(
        "quantization", "formats",
        'E4M3 = Format("e4m3", 4, 3, 7, 448.0',
        'E4M3 = Format("e4m3", 4, 3, 7, 240.0',
        QUANTISING),
    "e8m0_rounded_through_bf16": Fault(
        "quantization", "formats",
        "    bits = bits_of(values)\n    exponent, mantissa",
        "    bits = bits_of(values.to(torch.bfloat16).float())\n"
        "    exponent, mantissa",
        QUANTISING),
    "groups_of_heads_interleaved": Fault(
        "dot_product_attention", "attention",
        "t.repeat_interleave(heads // t.shape[0], 0)",
        "t.repeat(heads // t.shape[0], 1, 1)",
        ATTENTION),
    "causal_hangs_top_left": Fault(
        "dot_product_attention", "attention",
        "return skv - sq if self.hangs_bottom_right() else 0",
        "return 0",
        ATTENTION),
    "bias_gradient_after_quantisation": Fault(
        "linear", "linear",
        "bias_gradient(dy, bias)",
        "bias_gradient(dy if call.recipe in ('none', 'delayed')\n"
        "                               else gemm.operand(dy, 'grad_output')"
        ".row, bias)"),
    "sum_split_over_k_in_bf16": Fault(
        "linear", "recipes",
        "y = product(quantized_x.row, quantized_w.row.T)",
        "k = quantized_x.row.shape[1] // 2\n"
        "        y = sum((quantized_x.row[:, part] @ quantized_w.row[:, part]"
        ".T).to(torch.bfloat16).float()\n"
        "                for part in (slice(0, k), slice(k, None)))",
        LAYERS),
    "bias_dropped": Fault(
        "linear", "linear",
        "None if call.return_bias else bias",
        "None"),
    "enum_renamed": Fault(
        "quantization", "quantization",
        '"kFloat8E4M3": 7',
        '"kFloat8E4M3FN": 7'),
    "default_changed": Fault(
        "linear", "linear",
        '"save_original_input": False',
        '"save_original_input": True'),
    # The provider says which names it exports, and leaves one out.
    "export_missing": Fault(
        "rmsnorm", "provider",
        '{"adapter": module.ADAPTER}',
        '{"adapter": module.ADAPTER, "api": [path for path in\n'
        '                       (() if name == "api_call" else\n'
        '                        importlib.import_module(\n'
        '                           "assay.worker.te_provider." + name).API)\n'
        '                       if path != "transformer_engine.pytorch.'
        'RMSNorm"]}'),
}


def plant(fault: Fault) -> None:
    """Puts the changed file where imports will find it."""
    name = f"{PACKAGE}.{fault.file}"
    path = pathlib.Path(importlib.import_module(PACKAGE).__file__).with_name(
        fault.file + ".py")
    source = path.read_text()
    if source.count(fault.old) != 1:
        sys.exit(f"{path.name} has {source.count(fault.old)} times: "
                 f"{fault.old}")
    changed = types.ModuleType(name)
    changed.__file__ = str(path)
    changed.__package__ = PACKAGE
    sys.modules[name] = changed
    exec(compile(source.replace(fault.old, fault.new), path, "exec"),
         changed.__dict__)
    setattr(importlib.import_module(PACKAGE), fault.file, changed)


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        print("\n".join(FAULTS))
        return
    answers = claim_stdout()
    torch.set_num_threads(1)
    plant(FAULTS[sys.argv[1]])
    provider = importlib.import_module(f"{PACKAGE}.provider")
    serve(Server(provider.TorchProvider("cpu"), torch.device("cpu")), answers,
          sys.stdin)


if __name__ == "__main__":
    main()
