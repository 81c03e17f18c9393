"""record_init: what a training starts from, as fingerprints."""

from __future__ import annotations

import random
import sys
from typing import Any, Iterable, Iterator, Optional

import torch

from assay import _core
from assay.capture.modules import numbered
from assay.capture.ranks import rank, world_size
from assay.env.batches import first_batches
from assay.env.document import Path, document, write
from assay.env.prints import print_of
from assay.env.torch_facts import plain
from assay.random.checks import BACKENDS
from assay.tensors import host_view
from assay.watch.log import of_rank

_WRAPPED = frozenset(("_orig_mod", "_checkpoint_wrapped_module",
                      "_fsdp_wrapped_module"))
_PARALLEL = ("DistributedDataParallel", "DataParallel")


def record_init(model: Any = None, dataloader: Any = None,
                optimizer: Any = None, path: Optional[Path] = "init.json",
                batches: int = 2, args: Any = None,
                config: Any = None) -> dict:
    """Writes a snapshot of what a training starts from; gives it too.

    Of every parameter and buffer of `model` (or models) a fingerprint: name,
    dtype, shape, hash, statistics. Of the first `batches` that `dataloader`
    gives, the same: a fresh iterator reads them while every generator is
    saved, so the training reads what it would have read. What can be read only
    once is left alone, and the snapshot says so (assay.env.watch_data sees
    what passes). Hyperparameters of `optimizer`, or several, and of args and
    config as assay.env.snapshot takes them; the states of all generators.

    One file for each of several ranks: init.rank3.json.
    """
    made = document(args, config)
    made["sections"]["random"] = {"collected": True,
                                  "values": dict(_states())}
    if model is not None:
        made["sections"]["weights"] = {"collected": True}
        made["weights"] = list(_weights(model))
    if optimizer is not None:
        section = made["sections"].setdefault("hyperparameters",
                                              {"values": {}})
        section["collected"] = True
        section["values"].update(_optimizers(optimizer))
    if dataloader is not None:
        found, missing = first_batches(dataloader, batches)
        made["sections"]["data"] = {"collected": bool(found),
                                    "missing": missing}
        made["batches"] = found
    target = None if path is None else of_rank(path, rank(), world_size())
    return write(target, made)


def _weights(models: Any) -> Iterator[dict[str, Any]]:
    for prefix, model in numbered(models):
        if type(model).__name__ in _PARALLEL:
            model = model.module
        for role, named in (("parameter", model.named_parameters()),
                            ("buffer", model.named_buffers())):
            for name, tensor in named:
                parts = [prefix] if prefix else []
                parts += [part for part in name.split(".")
                          if part not in _WRAPPED]
                local, placement = _whole(tensor)
                made = print_of(".".join(parts), role, local)
                if placement:
                    made["placement"] = placement
                yield made


def _whole(tensor: Any) -> tuple[Any, str]:
    """The elements of this rank, and how they are a piece of the tensor."""
    where = f"rank {rank()} of {world_size()}"
    placements = getattr(tensor, "placements", None)
    if placements is not None and hasattr(tensor, "to_local"):
        whole = "x".join(str(int(size)) for size in tensor.shape)
        return tensor.to_local(), (
            f"{', '.join(map(str, placements))} of {whole}, {where}")
    if type(tensor).__name__ == "FlatParameter":
        return tensor, f"FSDP shard, {where}"
    if getattr(tensor, "tensor_model_parallel", False):
        dim = getattr(tensor, "partition_dim", "?")
        return tensor, f"tensor parallel along {dim}, {where}"
    return tensor, ""


def _optimizers(optimizers: Any) -> dict[str, Any]:
    several = (optimizers if isinstance(optimizers, (list, tuple))
               else [optimizers])
    found: dict[str, Any] = {}
    for i, optimizer in enumerate(several):
        stem = "optimizer" if len(several) == 1 else f"optimizer{i}"
        found[f"{stem}.class"] = type(optimizer).__name__
        for j, group in enumerate(getattr(optimizer, "param_groups", ())):
            for key, value in group.items():
                name = f"{stem}.group{j}.{key}"
                if key == "params":
                    found[f"{stem}.group{j}.parameters"] = len(value)
                elif isinstance(value, (list, tuple)):
                    found[name] = " ".join(str(plain(item)) for item in value)
                elif isinstance(value, torch.Tensor):
                    found[name] = plain(value.item()) if (
                        value.numel() == 1) else str(tuple(value.shape))
                else:
                    found[name] = plain(value)
    return found


def _states() -> Iterable[tuple[str, Any]]:
    """Hashes of the generators' states, and the seeds they began with."""
    yield "state.python", _core.hash_text(repr(random.getstate()))
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        yield "state.numpy", _core.hash_text(
            f"{state[0]} {state[1].tolist()} {state[2:]}")
    yield "state.torch.cpu", _state_hash(torch.get_rng_state())
    yield "seed.torch.cpu", torch.initial_seed()
    for name in BACKENDS:
        backend = getattr(torch, name, None)
        try:
            if backend is None or not backend.is_available():
                continue
            states = backend.get_rng_state_all()
        except Exception:  # a driver that does not start
            continue
        for i, state in enumerate(states):
            yield f"state.torch.{name}.{i}", _state_hash(state)


def _state_hash(state: torch.Tensor) -> str:
    view, dtype = host_view(state)
    return _core.content_hash(view, dtype)
