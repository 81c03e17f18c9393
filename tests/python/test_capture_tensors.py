"""assay.capture and every kind of tensor: read, or a row that says why not."""

from __future__ import annotations

import collections

import pytest
import torch

import assay
from capturing import compared, lines, rows, unchanged
from paths import LONG
from test_capture import tensor


def saved(tmp_path, value, **options) -> dict[str, str]:
    with assay.capture(tmp_path, level="api", **options) as capture:
        assay.save(value, "it")
    assert capture.faults == []
    return rows(tmp_path)


def row(tmp_path, value, **options) -> str:
    return saved(tmp_path, value, **options)["it.0.debug.tensor"]


def dense() -> torch.Tensor:
    return torch.tensor([[0.0, 2, 0], [3, 0, 4]])


def quantised() -> torch.Tensor:
    return torch.quantize_per_tensor(dense(), 0.5, 3, torch.qint8)


def nested() -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)],
                                      layout=torch.jagged)


def freed() -> torch.Tensor:
    t = torch.ones(8)
    t.untyped_storage().resize_(0)
    return t


@pytest.mark.parametrize("mode", ["tensor", "statistics", "hash"])
@pytest.mark.parametrize("make, why", [
    (lambda: torch.ones(2, 3, device="meta"), "meta device has no values"),
    (quantised, "quantised tensor"),
    (nested, "nested tensor"),
    (freed, "freed"),
    (lambda: torch.nn.UninitializedParameter(), "no values yet"),
], ids=["meta", "quantised", "jagged", "freed", "uninitialised"])
def test_what_has_no_elements_says_so_and_never_matches(tmp_path, make, why,
                                                        mode):
    for run in ("a", "b"):
        assert row(tmp_path / run, make(), mode=mode)
    found = [line for line in lines(tmp_path / "a/step0/rank0")
             if "unreadable" in line]
    assert len(found) == 1 and why in found[0]["unreadable"]
    assert compared(tmp_path / "a", tmp_path / "b") == 4


@pytest.mark.parametrize("make, expected", [
    (lambda: dense().to_sparse(), dense()),
    (lambda: dense().to_sparse_csr(), dense()),
    (lambda: torch.tensor([1 + 2j, 3 - 1j]).conj(),
     torch.tensor([1 - 2j, 3 + 1j])),
    (lambda: torch.tensor([1 + 2j, 3 - 1j]).conj().imag,
     torch.tensor([-2.0, 1])),
    (lambda: torch.tensor(2.5), torch.tensor(2.5)),
    (lambda: torch.empty(0, 3), torch.empty(0, 3)),
    (lambda: torch.tensor([7.0]).expand(2, 3), torch.full((2, 3), 7.0)),
    (lambda: torch.arange(6).view(2, 3).T,
     torch.tensor([[0, 3], [1, 4], [2, 5]])),
    (lambda: torch.arange(6.0).flip(0)[::2], torch.tensor([5.0, 3, 1])),
    (lambda: torch._efficientzerotensor(2), torch.zeros(2)),
    (lambda: torch.nn.Buffer(torch.ones(2)), torch.ones(2)),
], ids=["coo", "csr", "conj", "neg", "0-d", "empty", "expanded",
        "transposed", "strided", "zerotensor", "buffer"])
def test_what_has_elements_is_read(tmp_path, make, expected):
    """The transposed one: other tools saved it in the memory's order
    (msprobe issue 502, merge requests 937 and 743)."""
    saved(tmp_path, make(), mode="tensor")
    found = tensor(tmp_path, "it.0.debug.tensor")
    assert found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("name", [
    "float8_e4m3fn", "float8_e5m2", "bfloat16", "float16", "uint16", "bool",
    "float4_e2m1fn_x2", "float8_e8m0fnu", "complex32"])
def test_dtypes_that_other_dumps_lose(tmp_path, name):
    """FP8 broke a dump's conversion to numpy (msprobe merge request 645),
    float16 came back as float32 beside a JSON that said float16, and bool has
    no mean: here the dtype and the bytes are the tensor's own."""
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip("this torch lacks it")
    value = torch.arange(8, dtype=torch.uint8).view(torch.uint8)
    value = value.view(dtype) if dtype is not torch.bool else value % 2 == 1
    found = row(tmp_path, value, mode="tensor")
    records = [line for line in lines(tmp_path / "step0/rank0")
               if "of" in line]
    if name == "complex32":
        assert "complex32 is not compared" in records[0]["unreadable"]
        return
    assert "unreadable" not in records[0] and "hash" in records[0]
    assert found.split()[0] == name.replace("_x2", "")
    shard = (tmp_path / "step0/rank0/tensors-00000.safetensors").read_bytes()
    at = records[0]["at"]
    raw = value.view(torch.uint8).numpy().tobytes()
    assert shard[at:at + len(raw)] == raw


def test_a_scalar_and_three_of_it_are_not_the_same(tmp_path):
    """A shape check that came after the one for 0-d let them pass (msprobe
    merge request 757)."""
    row(tmp_path / "a", torch.tensor(1.0), mode="tensor")
    row(tmp_path / "b", torch.ones(3), mode="tensor")
    assert compared(tmp_path / "a", tmp_path / "b") == 1


def test_names_that_differ_in_a_dot_stay_apart(tmp_path):
    """A dump that made file names of layers' wrote "a.b" and "a_b" into one
    file (TransformerEngine's debug tool)."""
    net = torch.nn.Sequential(collections.OrderedDict(
        a=torch.nn.Sequential(collections.OrderedDict(
            b=torch.nn.Linear(2, 2))), a_b=torch.nn.Linear(2, 2)))
    with assay.capture(tmp_path, net, mode="tensor"):
        net(torch.ones(1, 2))
        assay.save({"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}}, "x")
        assay.save({"b": torch.full((1,), 2.0)}, "x.a")
    found = rows(tmp_path)
    for name in ("Module.a.b.Linear.forward.0.output.0",
                 "Module.a_b.Linear.forward.0.output.0",
                 "x.0.debug.tensor.a.b", "x.0.debug.tensor.a.b#2",
                 "x.a.0.debug.tensor.b"):
        assert name in found
    assert not torch.equal(
        tensor(tmp_path, "Module.a.b.Linear.forward.0.output.0"),
        tensor(tmp_path, "Module.a_b.Linear.forward.0.output.0"))
    assert tensor(tmp_path, "x.0.debug.tensor.a.b").item() == 1
    assert tensor(tmp_path, "x.0.debug.tensor.a.b#2").item() == 0


def test_two_calls_are_two_records(tmp_path):
    """A dump used a call's number again (msprobe merge request 669)."""
    with assay.capture(tmp_path, level="api", mode="tensor"):
        for value in (1.0, 2.0):
            torch.neg(torch.tensor([value]))
    assert [tensor(tmp_path, f"Torch.neg.{i}.forward.output.0").item()
            for i in (0, 1)] == [-1, -2]


def test_a_tensor_larger_than_two_gib(tmp_path):
    """One byte, repeated; in mode "tensor" it is not written out."""
    big = torch.ones(1, dtype=torch.uint8).expand((1 << 31) + 8)
    assert row(tmp_path / "tensor", big, mode="tensor")
    record = lines(tmp_path / "tensor/step0/rank0")[3]
    assert "1 bytes expanded to 2147483656" in record["unreadable"]
    if not LONG:
        return
    assert row(tmp_path / "statistics", big, mode="statistics")
    record = lines(tmp_path / "statistics/step0/rank0")[3]
    assert record["mean"] == 1 and record["shape"] == [2147483656]


def test_fake_tensors(tmp_path):
    from torch._subclasses.fake_tensor import FakeTensorMode
    net = torch.nn.Linear(3, 2)
    with assay.capture(tmp_path, net) as capture:
        with FakeTensorMode(allow_non_fake_inputs=True) as fake:
            out = net(fake.from_tensor(torch.ones(4, 3)))
        assert type(out).__name__ == "FakeTensor"
    assert capture.faults == []
    whys = [line["unreadable"] for line in lines(tmp_path / "step0/rank0")
            if "unreadable" in line]
    assert len(whys) == 6 and all("has no values" in why for why in whys)
    assert "[2, 3]" in rows(tmp_path)[
        "Module.Linear.forward.0.parameters.weight"]


def test_inference_tensors_are_read(tmp_path):
    net = torch.nn.Linear(3, 2)
    x = torch.ones(1, 3)

    def run():
        with torch.inference_mode():
            return net(x).add_(1)

    found = unchanged(tmp_path, run, net, mode="tensor")
    assert "Tensor.add_.0.forward.output.0" in found


def test_lazy_modules(tmp_path):
    def run():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.ReLU())
        watch = assay.Capture(tmp_path / "lazy", net)
        if captured:
            watch.start()
        net(torch.ones(2, 4)).sum().backward()
        watch.close()
        assert watch.faults == []
        return [p.grad for p in net.parameters()]

    captured = False
    expected = run()
    captured = True
    assert all(torch.equal(a, b) for a, b in zip(run(), expected))
    assert "Module.0.LazyLinear.forward.0.output.0" in rows(tmp_path / "lazy")


class Wrapper(torch.Tensor):
    """A subclass that keeps its values in another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        unwrap = [a.inner if isinstance(a, cls) else a for a in args]
        out = func(*unwrap, **(kwargs or {}))
        return cls(out) if isinstance(out, torch.Tensor) else out


class Named(torch.Tensor):
    """A subclass that only sees functions."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen += 1
        return super().__torch_function__(func, types, args, kwargs or {})


def test_tensor_subclasses(tmp_path):
    found = {}
    Named.seen = 0

    def run():
        Named.seen = 0
        plain = torch.arange(4.0)
        named = plain.as_subclass(Named) * 2
        wrapped = Wrapper(plain) + 1
        found["seen"] = found.get("seen", []) + [Named.seen]
        assert type(named) is Named and type(wrapped) is Wrapper
        return [named.as_subclass(torch.Tensor), wrapped.inner]

    names = unchanged(tmp_path, run, level="api", mode="tensor")
    assert found["seen"][0] == found["seen"][1], "the capture called it too"
    assert "Tensor.mul.0.forward.output.0" in names
    whys = [line["unreadable"] for line in
            lines(tmp_path / "trace/step0/rank0") if "unreadable" in line]
    assert len(whys) == 2 and all("Wrapper keeps its values" in w
                                  for w in whys)


def test_dtensor(tmp_path):
    distributed = torch.distributed
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    tensors = pytest.importorskip("torch.distributed.tensor")
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
        net = torch.nn.Linear(4, 2)
        tensors.distribute_module(net, mesh)
        x = tensors.distribute_tensor(torch.ones(3, 4), mesh)

        def run():
            net.zero_grad()
            loss = net(x).sum()
            loss.backward()
            return [loss.to_local(), net.weight.grad.to_local()]

        found = unchanged(tmp_path, run, net)
    finally:
        distributed.destroy_process_group()
    assert "Module.Linear.forward.0.output.0" in found


@pytest.mark.parametrize("transform", ["vmap", "grad", "jacrev", "jvp",
                                       "functional_call"])
def test_transforms_of_functions(tmp_path, transform):
    net = torch.nn.Linear(3, 2)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    parameters = dict(net.named_parameters())

    def loss(p, x):
        return torch.func.functional_call(net, p, (x,)).tanh().sum()

    def run():
        if transform == "vmap":
            return torch.vmap(lambda row: net(row).tanh())(x)
        if transform == "grad":
            return torch.vmap(torch.func.grad(loss), (None, 0))(parameters,
                                                                x)
        if transform == "jacrev":
            return torch.func.jacrev(lambda x: net(x).tanh())(x)
        if transform == "jvp":
            return torch.func.jvp(lambda x: net(x).tanh(), (x,), (x,))
        return loss(parameters, x)

    found = unchanged(tmp_path, run, net, mode="tensor")
    assert any(name.startswith("Tensor.tanh.0.forward.output")
               for name in found)
