"""The functions that traces name: operators, and nothing else.

A request comes from a file that nobody vouches for. Names are looked up by
getattr under a few modules of torch, nothing is evaluated or imported, and
what is found has to be an operator: a builtin of torch's own modules of
operators, what torch.overrides lists, an OpOverload.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, Optional

import torch

from assay.capture.names import NAMESPACES, VIEWS, kind_of
from assay.worker.call import Unsupported

Function = Callable[..., Any]

_BUILTINS = (torch._C._VariableFunctions, torch._C._nn, torch._C._linalg,
             torch._C._fft, torch._C._special, torch._C._sparse)
# By what stands before the last dot of `Torch.x.y`. Traces name an operator
# that torch.overrides does not list by its bare name, wherever it lives.
_HOMES: dict[str, tuple[Any, ...]] = {
    "": (torch, torch._VF, torch.functional, *_BUILTINS,
         torch.nn.functional, torch.Tensor),
    "functional": (torch.functional,),
    "special": (torch.special,),
    "linalg": (torch.linalg,),
    "fft": (torch.fft,),
    "nn.functional": (torch.nn.functional,),
    "nn.init": (torch.nn.init,),
    "Tensor": (torch.Tensor,),
    "_VF": (torch._VF,),
    "_C._VariableFunctions": (torch._C._VariableFunctions,),
    "_C._nn": (torch._C._nn,),
    "_C._linalg": (torch._C._linalg,),
    "_C._fft": (torch._C._fft,),
    "_C._sparse": (torch._C._sparse,),
    "sparse": (torch.sparse,),
    "_C._special": (torch._C._special,),
}
# Operators of torch by every rule, that reach files, memory, hooks or other
# processes.
_REFUSED = frozenset("""
    _from_blob _make_dep_token backward from_dlpack from_file from_numpy
    frombuffer map2_ map_ apply_ module_load register_hook save set_
    set_data
    """.split())
# Methods that torch.overrides does not list.
_METHODS = frozenset("""
    new_empty new_empty_strided new_full new_ones new_tensor new_zeros
    to_padded_tensor unflatten
    """.split())
_NO_NAMESPACES = frozenset("""
    _c10d_functional _c10d_functional_autograd c10d c10d_functional
    higher_order prim prims profiler rpc symm_mem
    """.split())


def resolve(api: str) -> Function:
    """The function of "Functional.linear". Raises Unsupported."""
    prefix, _, name = api.partition(".")
    if not name:
        raise Unsupported(f"{api}: no name of an API, expected PREFIX.NAME")
    if prefix == "Tensor":
        found = _method(name)
    elif prefix == "Functional":
        found = _under((torch.nn.functional,), name)
    elif prefix == "Torch":
        home, _, last = name.rpartition(".")
        found = _under(_HOMES.get(home, ()), last)
    elif prefix == "VF":
        found = _under((torch._VF,), name)
    elif prefix == "NPU":
        found = _of_torch_npu(name) or _operator("npu", name)
    else:
        found = _operator(_NAMESPACES.get(prefix, prefix), name)
    if found is None:
        raise Unsupported(f"{api}: no such operator in this installation")
    return found


_NAMESPACES = {prefix: name for name, prefix in NAMESPACES.items()}


def _attribute(home: Any, name: str) -> Any:
    """getattr(), but for modules that import what they are asked for."""
    if home in (torch._VF, torch._C._VariableFunctions):
        return getattr(home, name, None)
    return vars(home).get(name)


def _under(homes: tuple[Any, ...], name: str) -> Optional[Function]:
    for home in homes:
        found = (_method(name) if home is torch.Tensor
                 else _attribute(home, name))
        if found is not None and (home is torch.Tensor
                                  or _is_operator(name, found)):
            return found
    return None


def _is_operator(name: str, function: Any) -> bool:
    if name in _REFUSED or not callable(function):
        return False
    if isinstance(function, type) or kind_of(function) is None:
        return False
    if inspect.isbuiltin(function):
        return _is_listed(function) or any(
            getattr(home, function.__name__, None) == function
            for home in _BUILTINS)
    return _is_listed(function) or _is_of_functional(name, function)


def _is_of_functional(name: str, function: Any) -> bool:
    """Python functions that call operators, and no more."""
    return (inspect.isfunction(function) and not name.startswith("_")
            and function.__module__ in ("torch.nn.functional",
                                        "torch.functional", "torch.nn.init"))


@functools.lru_cache(maxsize=None)
def _listed() -> frozenset[int]:
    """Of every function of torch.overrides; they live as long as torch."""
    table = torch.overrides.get_overridable_functions()
    return frozenset(id(function) for functions in table.values()
                     for function in functions)


def _is_listed(function: Any) -> bool:
    return id(function) in _listed()


def _method(name: str) -> Optional[Function]:
    found = inspect.getattr_static(torch.Tensor, name, None)
    if found is None or name in _REFUSED:
        return None
    if name in VIEWS:
        return functools.partial(_property, name)
    method = getattr(torch.Tensor, name)
    if not callable(method) or isinstance(method, type):
        return None
    if name not in _METHODS and not _is_listed(method):
        return None
    return method if kind_of(method) is not None else None


def _property(name: str, tensor: torch.Tensor) -> torch.Tensor:
    return getattr(tensor, name)


def _operator(namespace: str, name: str) -> Optional[Function]:
    """Of torch.ops: a packet, or one overload of it."""
    if namespace in _NO_NAMESPACES or not namespace.isidentifier():
        return None
    name, _, overload = name.partition(".")
    found = getattr(torch.ops, namespace, None)
    if type(found) is not type(torch.ops.aten):
        return None
    packet = getattr(found, name, None)
    if type(packet) is not type(torch.ops.aten.add):
        return None
    overloads = [getattr(packet, each) for each in packet.overloads()
                 if overload in ("", each)]
    if not _compute(overloads):
        return None
    return overloads[0] if overload else packet


def _compute(overloads: list[Any]) -> bool:
    """Whether one takes or gives tensors, and none a file: torch.ops has
    those of TorchScript too, which write files and print."""
    tensors = False
    for schema in (each._schema for each in overloads):
        if schema.name.rpartition(":")[2] in _REFUSED or any(
                "file" in each.name or "path" in each.name
                for each in schema.arguments):
            return False
        tensors = tensors or any(
            "Tensor" in str(each.type)
            for each in (*schema.arguments, *schema.returns))
    return tensors


def _of_torch_npu(name: str) -> Optional[Function]:
    """A function of torch_npu's own, where the worker has imported it."""
    module = sys.modules.get("torch_npu")
    found = None if module is None else _attribute(module, name)
    if found is None or isinstance(found, type) or not callable(found):
        return None
    if type(found) is type(torch.ops.aten.add):
        overloads = [getattr(found, each) for each in found.overloads()]
        return found if _compute(overloads) else None
    if not (inspect.isbuiltin(found) or inspect.isfunction(found)):
        return None
    home = getattr(found, "__module__", None) or ""
    named = name.startswith(("npu_", "_npu_", "fast_"))
    return found if named and home.startswith("torch_npu") else None
