"""How traces name the functions that are called.

Needs torch alone: workers that replay the calls of a trace read it too.
"""

from __future__ import annotations

from typing import Callable, Optional

from torch.overrides import resolve_name

# Reads of a tensor's description or address, and plumbing: no operator.
_NO_OPERATORS = frozenset("""
    __array__ __bool__ __complex__ __contains__ __cuda_array_interface__
    __deepcopy__ __dir__ __dlpack__ __dlpack_device__ __float__ __format__
    __hash__ __index__ __int__ __len__ __reduce_ex__ __repr__ __setstate__
    __str__ _is_view _nnz _version allclose can_cast coalesce_hint data_ptr
    dense_dim dim dim_order element_size get_default_dtype get_device
    has_names item ndimension nelement numel numpy pin_memory record_stream
    register_hook register_post_accumulate_grad_hook requires_grad_
    result_type retain_grad share_memory_ size sparse_dim storage
    storage_offset storage_type stride to_dlpack tolist untyped_storage
    set_default_dtype set_default_device get_num_threads manual_seed
    _set_grad_enabled set_grad_enabled _set_view_replay_enabled
    """.split())
# Properties that compute a tensor.
VIEWS = frozenset(("H", "T", "imag", "mH", "mT", "real"))

_PREFIXES = (("torch.nn.functional.", "Functional"),
             ("torch.functional.", "Torch"),  # torch.split, torch.einsum
             ("torch.Tensor.", "Tensor"), ("torch.", "Torch"))
# Markers for profilers; calls whose results are still under way when they
# return (collectives.py reads them when they are there).
_PLUMBING = ("profiler.", "torch.autograd.profiler.", "c10d.",
             "_c10d_functional.", "_c10d_functional_autograd.",
             "c10d_functional.")
_COMMUNICATION = ("torch.distributed.distributed_c10d",
                  "torch.distributed._functional_collectives")
# Of torch.ops, by the prefix of their operators.
NAMESPACES = {"aten": "Aten", "npu": "NPU"}

Kind = Optional[tuple[str, str]]


def kind_of(function: Callable) -> Kind:
    """(prefix, api) of a call, None where it is no operator."""
    name = resolve_name(function)
    if getattr(function, "__module__", "") in _COMMUNICATION:
        return None
    if name == "torch.spmm":  # equal to torch.mm, and asked for by few
        name = "torch.mm"
    if name is None:
        name = "torch." + getattr(function, "__name__", str(function))
    if name.endswith(".__get__"):
        name = name[:-len(".__get__")]
        if name.rpartition(".")[2] not in VIEWS:
            return None
    elif name.endswith((".__set__", ".__delete__")):
        return None
    last = name.rpartition(".")[2]
    if (last in _NO_OPERATORS or last.startswith("is_")
            or name.startswith(_PLUMBING)):
        return None
    for beginning, prefix in _PREFIXES:
        if name.startswith(beginning):
            return prefix, name[len(beginning):]
    namespace, _, rest = name.partition(".")
    return NAMESPACES.get(namespace, namespace), rest or namespace
