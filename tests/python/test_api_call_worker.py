"""The worker's module api_call: one call of a trace, computed again.

Values come from torch called directly, or are worked by hand.
"""

from __future__ import annotations

import math
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from api_calls import Spelled, ask, randn, same  # noqa: E402, F401

F = torch.nn.functional


def test_forward_and_backward_of_an_ordinary_call(ask):
    x, w, b = randn(4, 6, grad=True), randn(3, 6, grad=True), randn(3)
    y = F.linear(x, w, b)
    dy = randn(4, 3, seed=2)
    dx, dw = torch.autograd.grad(y, [x, w], dy)
    answer = ask("Functional.linear", x, w, b, gradients={"output.0": dy})
    assert set(answer["tensors"]) == {"output.0", "gradient.input.0",
                                      "gradient.input.1"}
    same(answer["tensors"]["output.0"], y.detach())
    same(answer["tensors"]["gradient.input.0"], dx)
    same(answer["tensors"]["gradient.input.1"], dw)
    assert answer["contract"] == {}


def test_a_call_with_every_kind_of_value(ask):
    x = randn(3, 4)
    cases = [
        ("Torch.sum", [x, [1]], {"dtype": torch.float64, "keepdim": True},
         x.sum([1], dtype=torch.float64, keepdim=True)),
        ("Torch.clamp", [x], {"min": -math.inf, "max": 0.5}, x.clamp(max=0.5)),
        ("Torch.full", [[2]], {"fill_value": math.nan},
         torch.full([2], math.nan)),
        ("Torch.full", [torch.Size([2])], {"fill_value": 1 + 2j},
         torch.full([2], 1 + 2j)),
        ("Tensor.reshape", [x, torch.Size([4, 3])], {}, x.reshape(4, 3)),
        ("Tensor.permute", [x, 1, 0], {}, x.permute(1, 0)),
        ("Torch.einsum", ["ij,kj->ik", x, x], {}, torch.einsum(
            "ij,kj->ik", x, x)),
        ("Functional.mse_loss", [x, x * 2], {"reduction": "sum"},
         F.mse_loss(x, x * 2, reduction="sum")),
        ("Torch.zeros", [2], {"dtype": torch.int8, "layout": torch.strided,
                              "device": torch.device("cpu"),
                              "requires_grad": False, "pin_memory": True},
         torch.zeros(2, dtype=torch.int8)),
        ("Tensor.clone", [x], {"memory_format": torch.contiguous_format}, x),
        ("Torch.argmax", [x], {"dim": None}, x.argmax()),
        ("Torch.zeros", [[]], {}, torch.zeros([])),
        ("Tensor.add", [x, 2 ** 40], {}, x + 2 ** 40),
    ]
    for api, args, keywords, expected in cases:
        found = ask(api, *args, keywords=keywords)["tensors"]["output.0"]
        same(found, expected)


def test_words_of_other_dumps(ask):
    x = randn(1, 2, 2, 2)
    shown = ask("Tensor.contiguous", x, keywords={"memory_format": Spelled(
        "torch.memory_format", "channels_last")})
    same(shown["tensors"]["output.0"], x)
    sliced = ask("Tensor.__getitem__", x[0, 0], [
        Spelled("slice", "[null,1,null]"), Spelled("ellipsis", "...")])
    same(sliced["tensors"]["output.0"], x[0, 0][:1, ...])
    scalar = ask("Torch.mul", x, Spelled("numpy.float64", "0.5"))
    same(scalar["tensors"]["output.0"], x * 0.5)


def test_a_generator_is_made_of_its_seed(ask):
    generator = torch.Generator().manual_seed(7)
    expected = torch.randint(0, 100, (50,), generator=generator)
    found = ask("Torch.randint", 0, 100, [50], keywords={
        "generator": Spelled("torch._C.Generator", "seed 7")})
    same(found["tensors"]["output.0"], expected)


@pytest.mark.parametrize("kind, text, said", [
    ("torch._C.Generator", "seed -1", "torch._C.Generator"),
    ("torch._C.Generator", "state 1", "torch._C.Generator"),
    ("my.module.Thing", None, "my.module.Thing"),
    ("str", "x" * 20 + "... (1200 characters, SHA-256 0123456789abcdef...)",
     "beginning"),
    ("str", None, "no value"),
    ("slice", '["tensor(1)", null, null]', "slice"),
    ("torch.dtype", "torch.load", "torch.dtype"),
    ("torch.dtype", "load", "torch.dtype"),
    ("int", "1; import os", "int"),
    ("bool", "1", "bool"),
    ("torch.Size", "[1", "torch.Size"),
    ("torch.device", "meta", "meta"),
])
def test_what_cannot_be_made_again_is_named(ask, kind, text, said):
    answer = ask("Torch.add", randn(2), answered="unsupported",
                 keywords={"alpha": Spelled(kind, text)})
    assert "argument alpha" in answer["message"] and said in answer["message"]


def test_names_of_every_namespace(ask):
    x = randn(3, 3).abs() + 0.1
    for api, expected in [
            ("Functional.gelu", F.gelu(x)),
            ("Torch.exp", x.exp()),
            ("Torch.special.erf", torch.special.erf(x)),
            ("Torch._C._nn.gelu", F.gelu(x)),
            ("Torch.linalg.norm", torch.linalg.norm(x)),
            ("Torch.fft.fft", torch.fft.fft(x)),
            ("Torch._C._special.special_erf", torch.special.erf(x)),
            ("Tensor.exp", x.exp()),
            ("Tensor.T", x.T), ("Tensor.mT", x.mT), ("Tensor.real", x.real),
            ("Tensor.__neg__", -x), ("Tensor.__abs__", abs(x)),
            ("Aten.exp", x.exp()), ("Aten.exp.default", x.exp()),
            ("VF.exp", x.exp()),
            ("Torch.new_zeros", None)]:
        args = [x] if expected is not None else [x, [2]]
        if expected is None:
            expected = x.new_zeros([2])
        same(ask(api, *args)["tensors"]["output.0"], expected)
    y = randn(3, 3, seed=2)
    for api, expected in [("Tensor.__add__", x + y), ("Tensor.__rsub__", y - x),
                          ("Tensor.__matmul__", x @ y),
                          ("Tensor.__eq__", x == y),
                          ("Aten.add.Tensor", x + y),
                          ("Torch.linalg.solve", torch.linalg.solve(x, y))]:
        same(ask(api, x, y)["tensors"]["output.0"], expected)


@pytest.mark.parametrize("api", """
    Torch.load Torch.save Torch.from_file Torch.hub.load Torch.os.system
    Torch.serialization.load Torch._from_blob Torch.ops.load_library
    Torch.__class__ Torch.sys Torch.set_default_dtype Torch.frombuffer
    Torch.jit.load Torch.utils.cpp_extension.load Torch.Tensor Torch.Generator
    Tensor.__class__ Tensor.__init__ Tensor.__reduce_ex__ Tensor.data
    Tensor.__getattribute__ Tensor.__setattr__ Tensor.register_hook
    Tensor.backward Tensor.apply_ Tensor.storage Tensor.numpy Tensor.data_ptr
    Tensor.share_memory_ Tensor.set_ Tensor._make_subclass Tensor.__deepcopy__
    Tensor.T.__class__ Functional.importlib Functional.warnings
    Functional.handle_torch_function Functional.Callable
    Functional._add_docstr Aten.from_file Aten.save Aten.print Aten.__class__
    Aten.add.__class__ Aten.add.op import_module.os load_library.x
    __class__.x c10d.allreduce_ profiler._record_function_enter prim.Print
    higher_order.cond NPU.os NPU.npu_unheard_of os.system builtins.eval
    Distributed.all_reduce VF.__class__ Torch._VF.__init__
    Torch.nn.functional.__builtins__ Torch. linear Torch.made_up_name
    """.split())
def test_nothing_but_operators_is_reached(ask, api):
    answer = ask(api, randn(2), answered="unsupported")
    assert api in answer["message"]


def test_a_name_imports_nothing(ask, monkeypatch):
    """torch imports some of its modules when they are asked for."""
    asked, look = [], torch.__getattr__

    def recorded(name):
        asked.append(name)
        return look(name)

    monkeypatch.setattr(torch, "__getattr__", recorded)
    ask("Torch._unheard", randn(2), answered="unsupported")
    ask("Torch.add", randn(2), answered="unsupported", keywords={
        "alpha": Spelled("torch.dtype", "torch._unheard")})
    assert "_unheard" not in asked
    with pytest.raises(AttributeError):
        torch._unheard
    assert asked[-1] == "_unheard"


def test_operators_of_torch_npu(ask, monkeypatch):
    """Its own functions, where it is imported; nothing else that it holds."""
    def npu_double(x):
        return x * 2

    npu_double.__module__ = "torch_npu.functions"
    stand_in = types.ModuleType("torch_npu")
    stand_in.npu_double, stand_in.npu_path = npu_double, os.path.join
    stand_in.os = os
    monkeypatch.setitem(sys.modules, "torch_npu", stand_in)
    x = randn(3)
    same(ask("NPU.npu_double", x)["tensors"]["output.0"], x * 2)
    for name in ("os", "npu_path", "npu_other"):
        ask(f"NPU.{name}", x, answered="unsupported")


def test_indices_that_are_written_and_read(ask):
    x, rows = randn(4, 5), torch.tensor([2, 0, 2])
    for index in [(1, slice(None, None, 2)), (rows,), (..., None, 0),
                  (slice(1, None), rows), (x > 0,), (torch.tensor(1), 2)]:
        found = ask("Tensor.__getitem__", x, list(index))
        same(found["tensors"]["output.0"], x[index])
    same(ask("Tensor.__getitem__", x, 1)["tensors"]["output.0"], x[1])
    same(ask("Tensor.__getitem__", x, rows)["tensors"]["output.0"], x[rows])
    # A list is an index of its own inside of the tuple.
    same(ask("Tensor.__getitem__", x, [[0, 1]])["tensors"]["output.0"],
         x[[0, 1]])
    written = x.clone()
    written[1, ::2] = 7.0
    answer = ask("Tensor.__setitem__", x, [1, slice(None, None, 2)], 7.0)
    same(answer["tensors"]["output.0"], written)
    same(answer["tensors"]["after.input.0"], written)


def test_whatever_a_call_writes_to_is_answered(ask):
    x, y = randn(3, 4), randn(3, 4, seed=2)
    answer = ask("Tensor.add_", x, y)
    assert set(answer["tensors"]) == {"output.0", "after.input.0"}
    same(answer["tensors"]["after.input.0"], x + y)
    answer = ask("Torch.add", x, y, keywords={"out": torch.zeros(3, 4)})
    assert set(answer["tensors"]) == {"output.0", "after.input.out"}
    same(answer["tensors"]["after.input.out"], x + y)
    running, var = torch.zeros(4), torch.ones(4)
    answer = ask("Functional.batch_norm", x, running, var,
                 keywords={"training": True})
    F.batch_norm(x, running, var, training=True)
    same(answer["tensors"]["after.input.1"], running)
    same(answer["tensors"]["after.input.2"], var)
    answer = ask("Torch._foreach_add_", [x, y], 1.0)
    assert set(answer["tensors"]) == {"output.0", "output.1",
                                      "after.input.0.0", "after.input.0.1"}
    same(answer["tensors"]["after.input.0.1"], y + 1)
    # Written to, though with the same bits.
    assert "after.input.0" in ask("Tensor.mul_", x, 1.0)["tensors"]
    assert "after.input.0" not in ask("Tensor.view", x, 12)["tensors"]


def test_a_write_that_no_version_counts_is_seen(ask, monkeypatch):
    """Operators of extensions write through pointers."""
    from assay.worker.api_call import replay

    def quiet(x):
        x.data.add_(1)  # leaves the counter of x alone
        return x * 1

    monkeypatch.setattr(replay, "resolve", lambda api: quiet)
    x = randn(3)
    same(ask("Torch.quiet", x)["tensors"]["after.input.0"], x + 1)


def test_in_place_calls_on_what_requires_a_gradient(ask):
    x, y = randn(3, grad=True), randn(3, seed=2, grad=True)
    z = x.clone()
    z.mul_(y)
    dz = randn(3, seed=3)
    dx, dy = torch.autograd.grad(z, [x, y], dz)
    answer = ask("Tensor.mul_", x, y, gradients={"output.0": dz})
    same(answer["tensors"]["output.0"], z.detach())
    same(answer["tensors"]["gradient.input.0"], dx)
    same(answer["tensors"]["gradient.input.1"], dy)
    z = x.clone()
    z[1:] = y[1:]
    dx, dy = torch.autograd.grad(z, [x, y], dz)
    answer = ask("Tensor.__setitem__", x, [slice(1, None)], y[1:],
                 gradients={"output.0": dz})
    same(answer["tensors"]["gradient.input.0"], dx)
    same(answer["tensors"]["gradient.input.2"], dy[1:])


def test_gradients_of_several_outputs_and_of_none(ask):
    x = randn(4, 4, grad=True)
    dq, dr = randn(4, 4, seed=2), randn(4, 4, seed=3)
    q, r = torch.linalg.qr(x)
    (both,) = torch.autograd.grad([q, r], [x], [dq, dr], retain_graph=True)
    (one,) = torch.autograd.grad([q], [x], [dq])
    answer = ask("Torch.linalg.qr", x,
                 gradients={"output.0": dq, "output.1": dr})
    same(answer["tensors"]["gradient.input.0"], both)
    answer = ask("Torch.linalg.qr", x, gradients={"output.0": dq})
    same(answer["tensors"]["gradient.input.0"], one)
    answer = ask("Torch.argmax", x, gradients={"output.0": torch.tensor(1)})
    assert "gradient.input.0" not in answer["tensors"]
    assert "input.0" in answer["contract"]["no_gradient"]
    unused = ask("Functional.linear", x, randn(2, 4), randn(2, grad=True),
                 gradients={"output.0": randn(4, 2)})
    assert set(unused["tensors"]) == {"output.0", "gradient.input.0",
                                      "gradient.input.2"}
    answer = ask("Functional.linear", x, randn(2, 4),
                 gradients={"output.0": randn(3, 2)})
    assert set(answer["contract"]["no_gradient"]) == {"output.0", "input.0"}


def test_sparse_gradients_are_answered_dense(ask):
    weight = randn(5, 3, grad=True)
    index = torch.tensor([1, 1, 4])
    dy = randn(3, 3, seed=2)
    answer = ask("Functional.embedding", index, weight,
                 keywords={"sparse": True}, gradients={"output.0": dy})
    expected = torch.zeros(5, 3)
    expected[1], expected[4] = dy[0] + dy[1], dy[2]
    torch.testing.assert_close(answer["tensors"]["gradient.input.1"], expected)


def test_results_of_every_form(ask):
    x = randn(2, 3)
    found = ask("Torch.max", x, 1)["tensors"]
    same(found["output.0"], x.max(1).values)
    same(found["output.1"], x.max(1).indices)
    chunks = ask("Torch.split", x, 2, keywords={"dim": 1})["tensors"]
    same(chunks["output.1"], x[:, 2:].contiguous())
    same(ask("Tensor.t", x)["tensors"]["output.0"], x.t())
    same(ask("Tensor.expand", x[:1], 4, -1)["tensors"]["output.0"],
         x[:1].expand(4, -1))
    same(ask("Torch.zeros", 0, 3)["tensors"]["output.0"], torch.zeros(0, 3))
    same(ask("Torch.sum", torch.zeros(0))["tensors"]["output.0"],
         torch.tensor(0.0))
    big = torch.tensor([2**53 + 1, -2**63])
    same(ask("Tensor.add", big, 0)["tensors"]["output.0"], big)
    same(ask("Torch.isnan", x)["tensors"]["output.0"], x.isnan())
    answer = ask("Torch.equal", x, x)
    assert answer["tensors"] == {}
    assert answer["contract"]["values"] == {
        "output.0": {"type": "bool", "value": "True"}}


def test_complex_tensors(ask):
    z = torch.complex(randn(3), randn(3, seed=2))
    same(ask("Torch.conj", z)["tensors"]["output.0"], z.conj().resolve_conj())
    same(ask("Tensor.imag", z)["tensors"]["output.0"], z.imag)
    answer = ask("Torch.mul", z, z, precision="float64")
    wide = z.to(torch.complex128)
    assert answer["contract"] == {"dtypes": {"output.0": "complex128"}}
    same(answer["tensors"]["output.0"], torch.view_as_real(wide * wide))
    w = z.clone().requires_grad_()
    dy = torch.complex(randn(3, seed=3), randn(3, seed=4))
    (expected,) = torch.autograd.grad(w.exp(), w, dy)
    answer = ask("Torch.exp", w, gradients={"output.0": dy})
    same(answer["tensors"]["gradient.input.0"], expected.resolve_conj())


@pytest.mark.parametrize("api, args, said", [
    ("Tensor.to_sparse", [torch.eye(2)], "sparse"),
    ("Torch.quantize_per_tensor", [torch.eye(2), 0.1, 0, torch.qint8],
     "quantised"),
])
def test_results_that_no_file_holds(ask, api, args, said):
    answer = ask(api, *args, answered="unsupported")
    assert "output.0" in answer["message"] and said in answer["message"]


def test_eight_and_four_bit_floats(ask):
    x = torch.tensor([0.3, 1.0, 448.0, -2.0])
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        narrow = x.to(dtype)
        same(ask("Tensor.to", x, dtype)["tensors"]["output.0"], narrow)
        same(ask("Tensor.float", narrow)["tensors"]["output.0"],
             narrow.float())
        same(ask("Tensor.float", narrow,
                 precision="float64")["tensors"]["output.0"], narrow.double())
        # The golden of a cast is its argument: the reader rounds it.
        same(ask("Tensor.to", x, dtype,
                 precision="float64")["tensors"]["output.0"], x.double())


def test_goldens_are_float64_throughout(ask):
    x, w, b = (randn(4, 6, dtype=torch.bfloat16, grad=True),
               randn(3, 6, dtype=torch.bfloat16, grad=True, seed=2),
               randn(3, dtype=torch.bfloat16, seed=3))
    dy = randn(4, 3, dtype=torch.bfloat16, seed=4)
    answer = ask("Functional.linear", x, w, b, precision="float64",
                 gradients={"output.0": dy})
    exact = x.detach().double() @ w.detach().double().T + b.double()
    found = answer["tensors"]
    torch.testing.assert_close(found["output.0"], exact, rtol=1e-14, atol=0)
    torch.testing.assert_close(found["gradient.input.1"],
                               dy.double().T @ x.detach().double(),
                               rtol=1e-14, atol=1e-14)
    assert "precision" not in answer["contract"]


def test_casts_of_goldens_are_to_float64(ask):
    x = randn(5, dtype=torch.float16)
    for api, args, keywords in [
            ("Tensor.half", [], {}), ("Tensor.bfloat16", [], {}),
            ("Tensor.float", [], {}), ("Tensor.to", [torch.bfloat16], {}),
            ("Tensor.type", [torch.float32], {}),
            ("Tensor.type", ["torch.cuda.HalfTensor"], {}),
            ("Tensor.to", [], {"dtype": torch.float32}),
            ("Tensor.type_as", [randn(1, dtype=torch.bfloat16)], {})]:
        found = ask(api, x, *args, keywords=keywords, precision="float64")
        same(found["tensors"]["output.0"], x.double())
    same(ask("Tensor.to", x, torch.int32,
             precision="float64")["tensors"]["output.0"], x.int())
    same(ask("Torch.zeros", 2, precision="float64")["tensors"]["output.0"],
         torch.zeros(2, dtype=torch.float64))
    same(ask("Tensor.__truediv__", torch.tensor([1]), 3,
             precision="float64")["tensors"]["output.0"],
         torch.tensor([1 / 3], dtype=torch.float64))
    assert torch.get_default_dtype() == torch.float32


def test_what_the_dtype_decides_is_computed_as_recorded(ask):
    x = torch.tensor([1.0, math.inf, -2.0, math.nan], dtype=torch.bfloat16)
    answer = ask("Tensor.view", x, torch.int16, precision="float64")
    same(answer["tensors"]["output.0"], x.view(torch.int16))
    assert answer["contract"]["precision"] == "given"
    answer = ask("Torch.nan_to_num", x, precision="float64")
    same(answer["tensors"]["output.0"].to(torch.bfloat16), x.nan_to_num())
    one = torch.ones(1, dtype=torch.bfloat16)
    answer = ask("Torch.nextafter", one, one * 2, precision="float64")
    assert answer["tensors"]["output.0"].item() == 1 + 2**-7
    # masked_fill keeps the fill as recorded.
    low = torch.finfo(torch.float16).min
    answer = ask("Tensor.masked_fill", x, x.isinf(), low, precision="float64")
    assert answer["tensors"]["output.0"][1].item() == low


def test_rms_norm_without_an_epsilon(ask):
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.full((2, 4), 1e-4, dtype=dtype)
        expected = F.rms_norm(x, [4]).double()
        for args, keywords in (([[4]], {}), ([[4], None, None], {}),
                               ([[4]], {"eps": None})):
            found = ask("Functional.rms_norm", x, *args, keywords=keywords,
                        precision="float64")["tensors"]["output.0"]
            torch.testing.assert_close(found, expected, rtol=2**-8, atol=0)


def test_operators_without_float64_say_so(ask):
    x, scales = randn(8, 16, dtype=torch.bfloat16), torch.ones(4).bfloat16()
    codes = torch.arange(64, dtype=torch.int8).reshape(4, 16)
    with pytest.raises(RuntimeError):
        torch._weight_int8pack_mm(x.double(), codes, scales.double())
    answer = ask("Torch._weight_int8pack_mm", x, codes, scales,
                 precision="float64")
    assert answer["contract"]["precision"] == "float32"
    found = answer["tensors"]["output.0"]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), x.double() @ codes.T.double())


def test_calls_that_raise(ask):
    answer = ask("Torch.matmul", randn(2, 3), randn(2, 3), answered="error")
    assert answer["error"] == "RuntimeError"
    answer = ask("Functional.embedding", torch.tensor([7]), randn(5, 3),
                 answered="error")
    assert answer["error"] == "IndexError"
    answer = ask("Torch.matmul", randn(2, 3), randn(2, 3), answered="error",
                 precision="float64")
    assert answer["error"] == "RuntimeError" and "3" in answer["message"]
    answer = ask("Torch.sum", randn(2), keywords={"unheard": 1},
                 answered="error")
    assert answer["error"] == "TypeError"


def test_requests_that_say_too_little(ask):
    assert "runs" in ask("Torch.exp", randn(2), answered="error",
                         runs=0)["message"]
    assert "precision" in ask("Torch.exp", randn(2), answered="error",
                              precision="half")["message"]
    answer = ask("Torch.exp", randn(2), answered="unsupported", tempo=1)
    assert "tempo" in answer["message"]


def test_runs_that_differ_are_named(ask, monkeypatch):
    from assay.worker.api_call import replay
    x = randn(16)
    assert ask("Torch.exp", x, runs=3)["contract"] == {}
    # The seed is set before every run.
    answer = ask("Functional.dropout", x, runs=3)
    assert answer["contract"] == {}
    torch.manual_seed(5)
    same(answer["tensors"]["output.0"], F.dropout(x))
    runs = iter(range(10))
    monkeypatch.setattr(replay, "resolve",
                        lambda api: lambda x: (x + next(runs), x * 2))
    answer = ask("Torch.odd", x, runs=2)
    assert answer["contract"]["repeats"] == {"output.0": False}
    same(answer["tensors"]["output.0"], x)


def test_a_call_runs_with_torchs_own_switches(ask, monkeypatch):
    from assay.worker.api_call import replay
    seen = []

    def look(x):
        seen.append((torch.are_deterministic_algorithms_enabled(),
                     torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"),
                     x.requires_grad))
        return x * 1

    monkeypatch.setattr(replay, "resolve", lambda api: look)
    assert torch.are_deterministic_algorithms_enabled()  # the other modules'
    x = randn(2, grad=True)
    ask("Torch.look", x)
    ask("Torch.look", x, gradients={"output.0": randn(2)})
    ask("Torch.look", x, autocast="bfloat16")
    ask("Torch.look", x, autocast="bfloat16", precision="float64")
    assert seen == [(False, False, False, False), (False, True, False, True),
                    (False, False, True, False), (False, False, False, False)]
    assert torch.are_deterministic_algorithms_enabled()


def test_autocast_is_as_recorded(ask):
    x, w = randn(4, 6), randn(3, 6, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        expected = F.linear(x, w)
    same(ask("Functional.linear", x, w,
             autocast="bfloat16")["tensors"]["output.0"], expected)
    found = ask("Functional.linear", x, w, autocast="bfloat16",
                precision="float64")["tensors"]["output.0"]
    torch.testing.assert_close(found, x.double() @ w.double().T)


def test_devices_among_the_arguments_are_the_workers(ask):
    x = randn(2)
    for args in ([Spelled("torch.device", "npu:3")], ["cuda:1"],
                 [Spelled("torch.device", "cpu")]):
        same(ask("Tensor.to", x, *args)["tensors"]["output.0"], x)
    same(ask("Tensor.cuda", x, 0)["tensors"]["output.0"], x)
    same(ask("Torch.ones", 2, keywords={"device": "npu"})[
        "tensors"]["output.0"], torch.ones(2))


def test_random_operators_follow_the_seed(ask):
    for api, args in [("Torch.rand", [64]), ("Tensor.bernoulli_",
                                             [torch.zeros(64), 0.5]),
                      ("Torch.randperm", [64])]:
        first, again, other = (ask(api, *args, seed=seed)["tensors"]["output.0"]
                               for seed in (3, 3, 4))
        same(first, again)
        assert not torch.equal(first, other)


def test_complex128_inputs_are_pairs(ask):
    pairs = randn(3, 2, dtype=torch.float64)
    answer = ask.raw({"z": pairs}, {"api": "Torch.abs", "arguments": {
        "0": {"tensor": "z", "dtype": "complex128"}}})
    same(answer["tensors"]["output.0"], torch.view_as_complex(pairs).abs())


def test_strided_inputs_stay_strided(ask, monkeypatch):
    from assay.worker.api_call import replay
    strides = []

    def look(x):
        strides.append(x.stride())
        return x.mul_(2)

    monkeypatch.setattr(replay, "resolve", lambda api: look)
    for value in (randn(3, 4), randn(6)):
        answer = ask.raw({"x": value}, {
            "api": "Torch.look", "backward": True,
            "arguments": {"0": {"tensor": "x", "requires_grad": True}}},
            strided=["x"])
        same(answer["tensors"]["output.0"], value * 2)
    assert strides == [(1, 3), (2,)]


def test_the_same_tensor_twice(ask):
    x = randn(3)
    argument = {"tensor": "x", "requires_grad": True}
    answer = ask.raw({"x": x, "gradient.output.0": torch.ones(3)}, {
        "api": "Torch.mul", "backward": True, "gradients": ["output.0"],
        "arguments": {"0": argument, "1": argument}})
    same(answer["tensors"]["gradient.x"], 2 * x)


def test_a_position_that_is_left_out_is_empty(ask):
    x = randn(1)
    answer = ask.raw({"x": x}, {"api": "Torch.sum", "arguments": {
        "0": {"tensor": "x"}, "2": {"type": "bool", "value": "True"}}})
    same(answer["tensors"]["output.0"], torch.sum(x, (), True))


def test_requests_that_hang_together_badly(ask):
    x = {"x": randn(1)}
    for arguments, said in [
            ({"0": {"tensor": "y"}}, "no tensor y"),
            ({"5000": {"tensor": "x"}}, "positions"),
            ({"0": 5}, "argument 0"),
            ({"0": {"unheard": 1}}, "argument 0")]:
        answer = ask.raw(x, {"api": "Torch.exp", "arguments": arguments},
                         answered="error")
        assert answer["error"] == "usage" and said in answer["message"]
    answer = ask.raw(x, {"api": "Torch.exp", "arguments": {}, "backward": True,
                         "gradients": ["output.0"]}, answered="error")
    assert answer["error"] == "usage" and "output.0" in answer["message"]
    nested = {"tensor": "x"}
    for _ in range(40):
        nested = {"items": [nested]}
    ask.raw(x, {"api": "Torch.exp", "arguments": {"0": nested}},
            answered="error")


def test_gradients_of_goldens_take_results_as_they_were_handed_on(ask):
    """1 - y y of the rounded y, as every backend computes it; y itself is
    answered in float64."""
    x, dy = randn(64, dtype=torch.bfloat16, grad=True), randn(
        64, dtype=torch.bfloat16, seed=2)
    exact = torch.tanh(x.detach().double())
    y = torch.tanh(x).detach().double()  # rounded to bf16
    found = ask("Torch.tanh", x, precision="float64",
                gradients={"output.0": dy})["tensors"]
    torch.testing.assert_close(found["output.0"], exact, rtol=1e-14, atol=0)
    torch.testing.assert_close(found["gradient.input.0"],
                               dy.double() * (1 - y * y), rtol=1e-14, atol=0)
    softmax = torch.softmax(x, 0).detach().double()
    found = ask("Torch.softmax", x, 0, precision="float64",
                gradients={"output.0": dy})["tensors"]
    rounded = torch.softmax(x.detach().double(), 0).bfloat16().double()
    torch.testing.assert_close(softmax, rounded)
    torch.testing.assert_close(
        found["gradient.input.0"],
        rounded * (dy.double() - (rounded * dy.double()).sum()),
        rtol=1e-12, atol=1e-14)
