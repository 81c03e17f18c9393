"""Which parameters belong together, and which modules were asked for."""

from __future__ import annotations

import fnmatch
from typing import Iterable

import torch

from assay.capture.modules import Models, named_modules


def group_of(name: str) -> str:
    """Of a parameter's name: up to its first number, the layer, else the
    module that owns it. "model.layers.3.mlp.weight" is in "model.layers.3",
    "lm_head.weight" in "lm_head"."""
    parts = name.split(".")
    for i, part in enumerate(parts):
        if part.isdigit() and i > 0:
            return ".".join(parts[:i + 1])
    return ".".join(parts[:-1]) or parts[0]


def named_parameters(
        models: Models) -> list[tuple[str, torch.nn.Parameter]]:
    """What is trained, shared parameters once, in the model's order."""
    found, seen = [], set()
    for stem, module in named_modules(models):
        for name, value in module.named_parameters(recurse=False):
            if value.requires_grad and id(value) not in seen:
                seen.add(id(value))
                found.append((f"{stem}.{name}" if stem else name, value))
    return found


def chosen_modules(models: Models, patterns: Iterable[str]
                   ) -> list[tuple[str, torch.nn.Module]]:
    """Modules whose names match. A pattern that none does is a mistake."""
    modules = named_modules(models)
    found: dict[str, torch.nn.Module] = {}
    for pattern in patterns:
        names = [(name, module) for name, module in modules
                 if fnmatch.fnmatchcase(name, pattern)]
        if not names:
            raise ValueError(f"activations: no module is named {pattern!r}")
        found.update(names)
    return [(name, module) for name, module in modules if name in found]
