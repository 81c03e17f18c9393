"""The backward pass of a call, from the gradients of its outputs."""

from __future__ import annotations

import torch

from assay.worker.api_call.arguments import Arguments
from assay.worker.api_call.results import Answer

Tensor = torch.Tensor


class SavedOutputs(torch.autograd.graph.saved_tensors_hooks):
    """While it is entered, what is saved for the backward pass of a golden.

    Formulas of gradients take up results again (tanh: 1 - y y). Whatever
    computes them has y in the dtype that it was handed on in, so the golden
    takes it rounded to that: the dtype of the gradient that is given for it.
    """

    def __init__(self, given: dict[str, Tensor]) -> None:
        super().__init__(torch.Tensor.detach, self._unpack)
        self._given = given
        self._outputs: list[tuple[Tensor, torch.dtype]] = []

    def know(self, outputs: dict[str, Tensor]) -> None:
        self._outputs = [
            (outputs[name].detach(), gradient.dtype)
            for name, gradient in self._given.items()
            if name in outputs and gradient.is_floating_point()]

    def _unpack(self, tensor: Tensor) -> Tensor:
        for output, dtype in self._outputs:
            if (tensor.data_ptr() == output.data_ptr()
                    and tensor.shape == output.shape
                    and tensor.dtype == output.dtype):
                return tensor.to(dtype).to(tensor.dtype)
        return tensor


def backward(arguments: Arguments, outputs: dict[str, Tensor],
             given: dict[str, Tensor], answer: Answer) -> None:
    """Puts gradient.<input> of every input that requires one and gets one;
    why not is in the contract."""
    missing = arguments.no_gradient
    leaves = {name: each.leaf for name, each in arguments.inputs.items()
              if each.leaf is not None}
    roots, gradients = _roots(outputs, given, missing)
    if not roots:
        missing.update(dict.fromkeys(
            leaves, "no output that has a gradient depends on it"))
    elif leaves:
        found = torch.autograd.grad(roots, list(leaves.values()), gradients,
                                    allow_unused=True)
        for name, gradient in zip(leaves, found):
            if gradient is None:
                missing[name] = "no output that has a gradient depends on it"
            elif gradient.layout != torch.strided:
                answer.put(f"gradient.{name}", gradient.to_dense())
            else:
                answer.put(f"gradient.{name}", gradient)
    if missing:
        answer.contract["no_gradient"] = dict(missing)


def _roots(outputs: dict[str, Tensor], given: dict[str, Tensor],
           missing: dict[str, str]) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs to start from, and their gradients as they need them."""
    roots, gradients = [], []
    for name, gradient in given.items():
        output = outputs.get(name)
        if output is None or not output.requires_grad:
            continue
        if gradient.shape != output.shape:
            missing[name] = (f"its gradient is {list(gradient.shape)}, it is "
                             f"{list(output.shape)}")
            continue
        roots.append(output)
        gradients.append(gradient.to(output.device, output.dtype))
    return roots, gradients
