"""A tensor of any kind as memory that assay._core reads.

Neither torch nor numpy is imported before a value of theirs is there.
"""

from __future__ import annotations

import sys
from typing import Any


class Unreadable(TypeError):
    """A value whose elements cannot be had; the message says why."""


# Names of dtypes, as assay._core knows them, that are the same in torch and
# numpy; those that torch before 2.5 does not pass by DLPack, and those for
# which numpy has no type of its own: their bits are passed as integers of
# this width.
_PLAIN = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32",
          "uint64", "int64", "float16", "float32", "float64", "complex64",
          "complex128")
_UNSIGNED = {"uint16": 16, "uint32": 32, "uint64": 64}
_BITS = {"bfloat16": 16, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8,
         "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8}
_FLOAT4 = "float4_e2m1fn"


def host_view(value: Any) -> tuple[Any, str]:
    """An array, or a DLPack capsule, that assay._core reads once, and the
    name of its dtype.

    The array shares the value's memory where that is plain memory of this
    host; it is a copy for tensors of a device, of a sparse layout, with lazy
    conjugation, of foreign byte order and the like. float4 is packed, two
    elements in a byte. Raises Unreadable for what has no elements (meta and
    fake tensors, freed storage) or elements that assay does not compare.
    """
    if type(value) in _torch_types:
        view = _plain_torch(value)
        if view is not None:
            return view
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _any_torch(torch, value)
    return _other(value)


def is_tensor(value: Any) -> bool:
    """Whether `value` claims to be an array or a number of any kind."""
    if isinstance(value, (bool, int, float, complex)):
        return True
    return not isinstance(value, type) and any(
        hasattr(value, name)
        for name in ("__dlpack__", "__array__", "__array_interface__"))


def described(value: Any) -> tuple[str, list[int]]:
    """Dtype and shape of a tensor that need not be readable, "" and [] for
    what it does not tell."""
    try:
        dtype = str(value.dtype).replace("torch.", "")
    except Exception:  # whatever a foreign class raises
        dtype = ""
    try:
        shape = [int(size) for size in value.shape]
    except Exception:  # symbolic sizes, or a nested tensor's
        shape = []
    return dtype, shape


# torch.Tensor and torch.nn.Parameter, and of each dtype the name and the
# integer dtype that carries its bits; filled when the first tensor comes.
_torch_types: set[type] = set()
_torch_dtypes: dict[Any, tuple[str, Any]] = {}
_to_dlpack: Any = None
_strided: Any = None


def _learn_torch(torch: Any) -> None:
    global _to_dlpack, _strided
    from torch.utils.dlpack import to_dlpack
    _to_dlpack, _strided = to_dlpack, torch.strided
    for name in _PLAIN:
        if hasattr(torch, name):  # unsigned ones came with 2.3
            _torch_dtypes[getattr(torch, name)] = (name, None)
    carriers = {8: torch.uint8, 16: torch.int16, 32: torch.int32,
                64: torch.int64}
    for name, bits in {**_BITS, **_UNSIGNED}.items():
        if hasattr(torch, name):
            _torch_dtypes[getattr(torch, name)] = (name, carriers[bits])
    if hasattr(torch, "float4_e2m1fn_x2"):
        _torch_dtypes[torch.float4_e2m1fn_x2] = (_FLOAT4, torch.uint8)
    _torch_types.update((torch.Tensor, torch.nn.Parameter))


def _plain_torch(tensor: Any) -> tuple[Any, str] | None:
    """The view of a strided tensor in this host's memory; None of anything
    lazy, wrapped or elsewhere.

    By DLPack and not by .numpy(): a tensor that numpy has seen can never be
    resized again, whoever asks (`out=`, FSDP that frees its storage).
    """
    known = _torch_dtypes.get(tensor.dtype)
    if known is None or not tensor.is_cpu:
        return None
    name, carrier = known
    try:
        if (tensor.layout is not _strided or tensor.is_conj()
                or tensor.is_neg() or not _has_memory(tensor)):
            return None
        if tensor.requires_grad:
            tensor = tensor.detach()
        if carrier is not None:
            tensor = tensor.view(carrier)
        if name is _FLOAT4:
            tensor = _whole_bytes(tensor)
        return _to_dlpack(tensor), name
    except Unreadable:
        raise
    except (RuntimeError, TypeError, ValueError, BufferError):
        return None


def _has_memory(tensor: Any) -> bool:
    """Whether the storage holds what shape and strides say.

    It does not after `untyped_storage().resize_(0)`, with which FSDP frees
    parameters, nor in the wrappers of torch.func.functionalize.
    """
    storage = tensor.untyped_storage()
    if tensor.is_contiguous():
        extent = tensor.numel()
    elif 0 in tensor.shape:
        extent = 0
    else:
        extent = 1 + sum((size - 1) * stride for size, stride
                         in zip(tensor.shape, tensor.stride()))
    if extent == 0:
        return True
    end = (tensor.storage_offset() + extent) * tensor.element_size()
    return end <= storage.nbytes() and storage.data_ptr() != 0


def _any_torch(torch: Any, tensor: Any) -> tuple[Any, str]:
    if not _torch_types:
        _learn_torch(torch)
    _refuse_torch(torch, tensor)
    if tensor.dtype not in _torch_dtypes:
        raise Unreadable(f"dtype {tensor.dtype} is not compared")
    try:
        plain = _materialised(torch, tensor)
        view = _plain_torch(plain)
        if view is None:
            raise Unreadable("no memory holds its elements: the storage was "
                             "freed, or it is the wrapper of a transform")
        return view
    except Unreadable:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise Unreadable(f"{type(error).__name__}: {first}") from error


def _refuse_torch(torch: Any, tensor: Any) -> None:
    kind = type(tensor).__name__
    if kind in ("UninitializedParameter", "UninitializedBuffer"):
        raise Unreadable(f"an {kind} has no values yet")
    if tensor.device.type == "meta":
        raise Unreadable("a tensor of the meta device has no values")
    if kind == "FakeTensor":
        raise Unreadable("a FakeTensor has no values")
    if tensor.is_quantized:
        raise Unreadable("a quantised tensor: .int_repr() and its scales, or "
                         ".dequantize(), can be compared")
    if tensor.is_nested:
        raise Unreadable("a nested tensor: the parts that .unbind() gives "
                         "can be compared")


def _materialised(torch: Any, tensor: Any) -> Any:
    """The same values in a strided torch.Tensor of this host."""
    tensor = _unwrapped(torch, tensor.detach())
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    tensor = tensor.resolve_conj().resolve_neg()
    if getattr(tensor, "_is_zerotensor", bool)():
        tensor = tensor.clone()
    return tensor


def _unwrapped(torch: Any, tensor: Any) -> Any:
    """What a subclass that keeps its values in other tensors stands for."""
    kind = type(tensor)
    if kind.__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
        return tensor
    if hasattr(kind, "trigger_wait"):  # the result of a running collective
        return tensor.trigger_wait()
    if kind.dequantize is not torch.Tensor.dequantize:  # TransformerEngine's
        return tensor.dequantize()
    raise Unreadable(f"a {kind.__name__} keeps its values elsewhere; a plain "
                     "tensor made of it can be compared")


def _whole_bytes(packed: Any) -> Any:
    """Packed float4 in row-major order, as assay._core wants it."""
    if len(packed.shape) == 0:
        raise Unreadable("a float4 of no dimension holds two values")
    return packed.contiguous()


def _other(value: Any) -> tuple[Any, str]:
    if isinstance(value, int) and not isinstance(value, bool):
        if not -2**63 <= value < 2**63:
            raise Unreadable("an integer of more than 64 bits")
    elif not is_tensor(value):
        raise Unreadable(f"a {type(value).__name__} is no tensor")
    elif not isinstance(value, (bool, float, complex)):
        return _array(value)
    import numpy
    kinds = {bool: "bool", int: "int64", float: "float64",
             complex: "complex128"}
    name = next(kinds[kind] for kind in (bool, int, float, complex)
                if isinstance(value, kind))
    return numpy.array(value, dtype=name), name


def _array(value: Any) -> tuple[Any, str]:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _numpy_view(numpy, value)
    if hasattr(value, "__dlpack__"):
        device = getattr(value, "__dlpack_device__", lambda: (1, 0))()
        if int(device[0]) != 1:
            raise Unreadable(f"a {type(value).__name__} on DLPack device "
                             f"{int(device[0])}: bring it to the host first")
        return value, ""
    import numpy
    try:
        return _numpy_view(numpy, numpy.asarray(value))
    except Unreadable:
        raise
    except Exception as error:  # whatever a foreign __array__ raises
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def _numpy_view(numpy: Any, array: Any) -> tuple[Any, str]:
    if isinstance(array, numpy.ma.MaskedArray):
        raise Unreadable("a masked array: its .data and .mask can be compared")
    array = numpy.asarray(array)
    name = array.dtype.name
    if name in _PLAIN:
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
    elif name in _BITS:
        array = array.view(f"u{_BITS[name] // 8}")
    elif name == _FLOAT4:
        array = _packed(numpy, array)
    else:
        raise Unreadable(f"dtype {array.dtype} is not compared")
    return _aligned(array), name


def _packed(numpy: Any, array: Any) -> Any:
    """ml_dtypes keeps one float4 in a byte."""
    if array.ndim == 0 or array.shape[-1] % 2:
        raise Unreadable("float4 with an odd last dimension")
    codes = array.view(numpy.uint8) & 15
    return codes[..., 0::2] | codes[..., 1::2] << 4


def _aligned(array: Any) -> Any:
    """A copy where elements lie backwards or between others of a record."""
    size = array.itemsize
    if array.flags.aligned and all(
            stride >= 0 and stride % size == 0 for stride in array.strides):
        return array
    return array.copy()
