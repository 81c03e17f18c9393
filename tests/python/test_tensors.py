"""`assay.tensors.host_view`: the values that assay._core then sees, against
what torch, numpy and ml_dtypes say they are; and what it refuses."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

from assay import _core
from assay.tensors import Unreadable, described, host_view, is_tensor
from paths import PACKAGE


def values(value):
    """The elements as assay._core reads them, by way of its figures."""
    array, dtype = host_view(value)
    summary = _core.summarise(array, dtype)
    return (summary.count, summary.min, summary.max, summary.norm)


def expected(array):
    array = np.asarray(array).astype(np.complex128).ravel()
    parts = np.concatenate([array.real, array.imag]) if array.imag.any() else (
        array.real)
    return (parts.size, parts.min(), parts.max(), np.sqrt((parts**2).sum()))


def check(value, array):
    found, wanted = values(value), expected(array)
    assert found[0] == wanted[0]
    assert found[1:3] == wanted[1:3]
    assert found[3] == pytest.approx(wanted[3], rel=1e-12)


X = torch.tensor([[1.5, -2.0, 0.25], [3.0, 0.5, -8.0]])
PLAIN = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16",
         "float32", "float64", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", PLAIN)
def test_torch_dtypes(dtype):
    tensor = X.abs().to(getattr(torch, dtype))
    check(tensor, tensor.to(torch.float64).numpy())
    assert host_view(tensor)[1] == dtype


NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
          "float8_e5m2fnuz"]


@pytest.mark.parametrize("dtype", NARROW)
def test_dtypes_that_numpy_has_not(dtype):
    tensor = X.to(getattr(torch, dtype))
    check(tensor, tensor.to(torch.float64).numpy())
    check(tensor.t(), tensor.to(torch.float64).numpy().T)
    array = X.numpy().astype(getattr(ml_dtypes, dtype))
    check(array, array.astype(np.float64))
    check(array[::-1, 1:], array[::-1, 1:].astype(np.float64))
    assert host_view(tensor)[1] == host_view(array)[1] == dtype


def test_powers_of_two():
    codes = np.array([120, 127, 130], np.uint8)
    check(torch.from_numpy(codes).view(torch.float8_e8m0fnu), [2**-7, 1, 8])
    check(codes.view(ml_dtypes.float8_e8m0fnu), [2**-7, 1, 8])


def test_float4_packed_and_not():
    wanted = np.array([[0.5, -6.0, 1.0, 3.0], [2.0, 0.0, -1.5, 4.0]])
    array = wanted.astype(ml_dtypes.float4_e2m1fn)
    check(array, wanted)
    codes = array.view(np.uint8)
    packed = torch.from_numpy(codes[:, 0::2] | codes[:, 1::2] << 4).contiguous()
    check(packed.view(torch.float4_e2m1fn_x2), wanted)
    check(packed.view(torch.float4_e2m1fn_x2)[:, :1], wanted[:, :2])
    with pytest.raises(Unreadable, match="odd last dimension"):
        host_view(array[:, :3])
    with pytest.raises(Unreadable, match="holds two values"):
        host_view(packed.view(torch.float4_e2m1fn_x2)[0, 0])


COMPLEX = torch.tensor([1 + 2j, -3 + 0.5j], dtype=torch.complex64)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tensor", [
    X.t(), X[:, ::2], X.expand(4, 2, 3), X[0, 0], torch.nn.Parameter(X),
    X.clone().requires_grad_() * 2, X.to_sparse(),
    COMPLEX, COMPLEX.conj(), COMPLEX.conj().imag, COMPLEX.to(torch.complex128),
    torch._efficientzerotensor(3), X.to_mkldnn(), X.as_strided((2, 2), (1, 1)),
], ids=lambda t: str(t.layout)[6:] + str(list(t.shape)))
def test_torch_tensors_of_every_layout(tensor):
    if tensor._is_zerotensor():
        return check(tensor, np.zeros(3))
    plain = tensor.detach().to_dense() if tensor.layout is not torch.strided \
        else tensor.detach()
    check(tensor, plain.resolve_conj().resolve_neg().clone().numpy())


def test_memory_is_shared_where_it_can_be():
    for tensor in (X, X.t(), torch.nn.Parameter(X.clone()), X.bfloat16()):
        capsule, _ = host_view(tensor)
        shared = torch.from_dlpack(capsule)
        assert shared.data_ptr() == tensor.data_ptr()


def test_a_tensor_that_was_looked_at_can_still_be_resized():
    # What numpy has seen cannot: `out=` and FSDP's freeing would fail.
    tensor = torch.ones(4)
    values(tensor), values(tensor.bfloat16()), values(tensor.view(2, 2).t())
    assert tensor.untyped_storage().resizable()
    assert torch.add(torch.ones(9), 1, out=tensor.resize_(0)).shape == (9,)


RECORDS = np.zeros(3, [("a", "u1"), ("b", "<f4")])
RECORDS["b"] = [1, 2, 4]


@pytest.mark.parametrize("array", [
    np.arange(6.0)[::-1], np.arange(24).reshape(2, 3, 4)[::-1, :, ::-2],
    np.arange(3, dtype=">f4") - 1,
    np.asfortranarray(np.arange(6.).reshape(2, 3)),
    RECORDS["b"], np.float32(2.5), np.bool_(True), np.broadcast_to(3.0, (2, 2)),
    np.arange(3) * 1j + 1, np.array(7, np.uint64),
], ids=str)
def test_numpy_arrays_of_every_layout(array):
    check(array, np.array(array))


def test_read_only_arrays():
    array = np.arange(4.0)
    array.flags.writeable = False
    check(array, array)


@pytest.mark.parametrize("value, dtype", [
    (True, "bool"), (-3, "int64"), (2.5, "float64"), (1 - 2j, "complex128")])
def test_numbers(value, dtype):
    check(value, value)
    assert host_view(value)[1] == dtype


class ByDlpack:
    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


class ByArray:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


def test_arrays_of_others():
    check(ByDlpack(np.arange(4)), np.arange(4))
    check(ByArray(), np.arange(3))
    with pytest.raises(Unreadable, match="DLPack device 2"):
        host_view(ByDlpack(np.arange(4), 2))


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return torch.randn(3)


def freed(offset):
    tensor = torch.randn(8)[offset:]
    tensor.untyped_storage().resize_(0)
    return tensor


def shortened():
    tensor = torch.randn(4, 4).t()
    tensor.untyped_storage().resize_(32)
    return tensor


class Wrapper(torch.Tensor):
    """As a quantised tensor of another library is made."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(str(func))


class Dequantising(Wrapper):
    def dequantize(self):
        return self.inner * 2


REFUSED = {
    "meta": (lambda: torch.empty(3, device="meta"), "meta device"),
    "fake": (fake, "FakeTensor"),
    "freed": (lambda: freed(0), "storage was freed"),
    "freed view": (lambda: freed(4), "storage was freed"),
    "shortened": (shortened, "storage was freed"),
    "wrapper": (lambda: Wrapper(X), "Wrapper keeps its values elsewhere"),
    "nested": (lambda: torch.nested.nested_tensor([X[0], X[0, :2]]), "unbind"),
    "jagged": (lambda: torch.nested.nested_tensor(
        [X[0], X[0, :2]], layout=torch.jagged), "unbind"),
    "quantised": (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
                  "int_repr"),
    "lazy": (torch.nn.UninitializedParameter, "no values yet"),
    "chalf": (lambda: torch.zeros(2, dtype=torch.complex32), "complex32"),
    "int4": (lambda: np.zeros(2, ml_dtypes.int4), "int4"),
    "float6": (lambda: np.zeros(2, ml_dtypes.float6_e2m3fn), "float6"),
    "object": (lambda: np.array([None, 1]), "dtype object"),
    "text": (lambda: np.array(["a"]), "dtype <U1"),
    "date": (lambda: np.array(3, "M8[s]"), "datetime64"),
    "long double": (lambda: np.ones(2, np.longdouble), "float128"),
    "records": (lambda: RECORDS, "dtype"),
    "masked": (lambda: np.ma.array([1.0, 2.0]), "masked array"),
    "large": (lambda: 2**63, "64 bits"),
    "str": (lambda: "abc", "a str is no tensor"),
    "None": (lambda: None, "a NoneType is no tensor"),
    "list": (lambda: [1.0], "a list is no tensor"),
    "class": (lambda: torch.Tensor, "is no tensor"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_say_why(kind):
    make, why = REFUSED[kind]
    with pytest.raises(Unreadable, match=why):
        host_view(make())
    assert issubclass(Unreadable, TypeError)


def test_a_quantised_subclass_stands_for_what_it_dequantises_to():
    check(Dequantising(X), X.numpy() * 2)


@pytest.mark.parametrize("transform", ["vmap", "grad", "functionalize"])
def test_wrappers_of_transforms_give_values_or_a_refusal(transform):
    seen = []

    def look(x):
        try:
            seen.append(values(x)[1:3])
        except Unreadable as error:
            assert str(error)
        return (x * x).sum()

    getattr(torch.func, transform)(look)(torch.tensor([3.0, 5.0]))
    assert seen in ([], [(3.0, 5.0)])


def test_memory_that_is_gone_is_an_error_of_the_library():
    with pytest.raises(_core.Error, match="without memory"):
        _core.summarise(freed(0))


def test_is_tensor_and_described():
    for value in (X, np.zeros(2), 1, 2.5, True, ByArray(), fake()):
        assert is_tensor(value)
    for value in ("a", None, [1], {}, torch.float32, np.ndarray, object()):
        assert not is_tensor(value)
    assert described(X) == ("float32", [2, 3])
    assert described(torch.empty(3, device="meta")) == ("float32", [3])
    assert described(REFUSED["nested"][0]())[0] == "float32"
    assert described(object()) == ("", [])


def test_arrays_without_torch():
    code = ("import sys, numpy as np; from assay.tensors import host_view;"
            "assert host_view(np.arange(3))[1] == 'int64';"
            "assert host_view(2.0)[1] == 'float64';"
            "assert 'torch' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True,
                   env={"PYTHONPATH": str(PACKAGE)})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_torch_without_numpy(monkeypatch, dtype):
    def missing(self):
        raise RuntimeError("Numpy is not available")

    tensor = X.to(getattr(torch, dtype))
    wanted = tensor.to(torch.float64).numpy()
    monkeypatch.setattr(torch.Tensor, "numpy", missing)
    assert host_view(tensor.t())[1] == dtype
    check(tensor.t(), wanted)
    with pytest.raises(Unreadable, match="storage was freed"):
        host_view(freed(0))
