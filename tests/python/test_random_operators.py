"""Every random operator of aten: drawn on the host, or refused by name."""

import math

import pytest
import torch
import torch.nn.functional as F

import assay
from assay.random import HostRandomError
from assay.random.host import _DRAW_NOTHING, _Operators, _plan
from assay.random.operators import handler
from assay.random.schema import TRAIN, drop_argument, operator_name
from assay.random.stream import Stream


def random_operators():
    """All overloads that torch tags as drawing from a generator."""
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        if not full.startswith("aten::"):
            continue
        name, _, overload = full[6:].partition(".")
        func = getattr(getattr(torch.ops.aten, name), overload or "default",
                       None)
        if func is not None and torch.Tag.nondeterministic_seeded in func.tags:
            yield func


ALL = list(random_operators())
HANDLED = [func for func in ALL if handler(func)]
REST = [func for func in ALL if not handler(func)
        and operator_name(func) not in _DRAW_NOTHING]
COMPOSITE = [func for func in REST if
             torch._C._dispatch_has_kernel_for_dispatch_key(
                 func.name(), "CompositeImplicitAutograd")]
REFUSED = [func for func in REST if func not in COMPOSITE]


def ids(funcs):
    return [str(func) for func in funcs]


def test_the_operators_are_those_of_torch():
    """None is forgotten: tagged ones, and any that takes a generator."""
    assert len(ALL) > 100 and len(HANDLED) > 80
    assert {operator_name(func) for func in ALL} >= {
        f"aten::{name}" for name in
        ("rand", "randn", "randint", "randperm", "normal_", "uniform_",
         "bernoulli_", "exponential_", "random_", "cauchy_", "geometric_",
         "log_normal_", "multinomial", "native_dropout", "dropout")}
    for func in ALL:
        assert _plan(func) or operator_name(func) in _DRAW_NOTHING


def arguments_for(func):
    """A call with which `func` draws for 12 elements or more."""
    args, kwargs = [], {}
    for place, argument in enumerate(func._schema.arguments):
        kind, name = str(argument.type), argument.name
        if kind == "Tensor":
            value = torch.full((3, 4), -0.5 if "rrelu" in func.name() and
                               name == "self" else 0.5)
            if name in ("out1",):
                value = value.bool()
            if name == "out" and "multinomial" in func.name():
                value = torch.empty(0, dtype=torch.int64)
            if name == "high":
                value = torch.tensor(9)
        elif kind.startswith("List[int]") or name == "size":
            value = [3, 4]
        elif name in ("high", "to"):
            value = 9 if kind != "float" else 1.0
        elif name in ("n", "num_samples"):
            value = 4
        elif name in TRAIN:
            value = True
        elif name == "p":
            value = 0.5
        elif name == "from":
            value = 2 if kind == "int" else 0.0
        elif name in ("low", "mean"):
            value = 1
        elif name == "std":
            value = 2.0
        elif argument.has_default_value():
            continue
        elif name in ("generator", "names"):
            value = None
        else:
            raise AssertionError(f"{func}: {name} of {kind}")
        if argument.kwarg_only or len(args) < place:
            kwargs[name] = value
        else:
            args.append(value)
    return args, kwargs


@pytest.mark.parametrize("func", HANDLED, ids=ids(HANDLED))
def test_a_handled_operator_draws_one_key_and_nothing_else(func):
    """torch's own kernel would take 12 numbers of the CPU's generator."""
    torch.manual_seed(3)
    torch.empty((), dtype=torch.int64).random_()
    one_key = torch.get_rng_state()
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        args, kwargs = arguments_for(func)
        with assay.host_random():
            result = func(*args, **kwargs)
        if seed == 3:
            assert torch.equal(torch.get_rng_state(), one_key)
        results.append(result[0] if isinstance(result, tuple) else result)
    assert torch.equal(results[0], results[1])
    assert results[0].shape in ((3, 4), (4,))
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("func", HANDLED, ids=ids(HANDLED))
def test_a_handled_operator_returns_what_torch_does(func):
    args, kwargs = arguments_for(func)
    expected = func(*args, **kwargs)
    args, kwargs = arguments_for(func)
    with assay.host_random(1):
        found = func(*args, **kwargs)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for one, other in zip(expected, found, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (
            other.shape, other.dtype, other.stride())
    if "out" in kwargs:
        assert found[0] is kwargs["out"]
    if operator_name(func).endswith("_"):
        assert found[0] is args[0]


@pytest.mark.parametrize("func", REFUSED, ids=ids(REFUSED))
def test_the_others_are_refused_by_name(func):
    """Before anything of them runs; those with a probability for any but 0."""
    mode = _Operators(Stream())
    values = {}
    for argument in func._schema.arguments:
        values[argument.name] = True if argument.name in TRAIN else None
    dropping = drop_argument(func)
    if dropping is not None:
        values[dropping] = 0.5
    with pytest.raises(HostRandomError) as error:
        mode.check(func, (), (), values)
    assert operator_name(func).replace("::", ".") in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("call", [
    lambda: torch.poisson(torch.ones(3)),
    lambda: torch.binomial(torch.ones(3), torch.ones(3) / 2),
    lambda: torch._standard_gamma(torch.ones(3)),
    lambda: torch.distributions.Dirichlet(torch.ones(3)).sample(),
    lambda: torch._fused_dropout(torch.ones(3), 0.5),
], ids=["poisson", "binomial", "gamma", "dirichlet", "fused_dropout"])
def test_calls_that_are_refused(call):
    with assay.host_random(1), pytest.raises(HostRandomError, match="aten"):
        call()


COMPOSED = {
    "dropout": lambda x: torch.dropout(x, 0.5, True),
    "dropout_": lambda x: torch.dropout_(x.clone(), 0.5, True),
    "alpha_dropout": lambda x: torch.alpha_dropout(x, 0.5, True),
    "alpha_dropout_": lambda x: torch.alpha_dropout_(x.clone(), 0.5, True),
    "feature_dropout": lambda x: torch.feature_dropout(x, 0.5, True),
    "feature_dropout_": lambda x: torch.feature_dropout_(x.clone(), 0.5, True),
    "feature_alpha_dropout":
        lambda x: torch.feature_alpha_dropout(x, 0.5, True),
    "feature_alpha_dropout_":
        lambda x: torch.feature_alpha_dropout_(x.clone(), 0.5, True),
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "rrelu_": lambda x: F.rrelu(-x, training=True, inplace=True),
    "scaled_dot_product_attention":
        lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "_scaled_dot_product_attention_math":
        lambda x: torch.ops.aten._scaled_dot_product_attention_math(
            x, x, x, dropout_p=0.5)[0],
    "lstm": lambda x: LAYERS["LSTM"](x)[0],
    "gru": lambda x: LAYERS["GRU"](x)[0],
    "rnn_tanh": lambda x: LAYERS["RNN"](x)[0],
    "rnn_relu": lambda x: LAYERS["relu"](x)[0],
}
LAYERS = {name: getattr(torch.nn, name)(4, 4, 2, dropout=0.5)
          for name in ("RNN", "GRU", "LSTM")}
LAYERS["relu"] = torch.nn.RNN(4, 4, 2, nonlinearity="relu", dropout=0.5)


def test_every_composite_has_a_call_here():
    assert {operator_name(func)[6:] for func in COMPOSITE} == set(COMPOSED)


@pytest.mark.parametrize("name", COMPOSED)
def test_composites_draw_by_their_parts(name):
    """The same in inference mode, which shows them whole; and from the stream
    alone: a dropout of torch itself would draw more than a key."""
    x = torch.arange(1.0, 25).reshape(2, 3, 4)
    torch.manual_seed(1)
    torch.empty((), dtype=torch.int64).random_()
    one_key = torch.get_rng_state()
    found = []
    for inference in (False, True, False):
        torch.manual_seed(1)
        with torch.inference_mode(inference), assay.host_random():
            found.append(COMPOSED[name](x).clone())
        assert torch.equal(torch.get_rng_state(), one_key)
    torch.manual_seed(2)
    with assay.host_random():
        other = COMPOSED[name](x)
    # Inference has kernels of its own for recurrent layers: other roundings.
    assert torch.allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert torch.equal(found[0], found[2])
    assert not torch.allclose(found[0], other, rtol=1e-2)


def test_what_drops_nothing_draws_nothing():
    x = torch.rand(2, 3, 4)
    state = torch.get_rng_state()
    with assay.host_random():
        F.dropout(x, 0.0), F.dropout(x, 0.5, training=False), F.dropout(x, 1.0)
        F.scaled_dot_product_attention(x, x, x)
        LAYERS["LSTM"].eval()(x)
        F.rrelu(-x)
    LAYERS["LSTM"].train()
    assert torch.equal(torch.get_rng_state(), state)


def test_foreign_operators_that_draw_are_refused():
    library = torch.library.Library("assay_test_draw", "DEF")
    library.define("npu_dropout(Tensor x, float p) -> Tensor")
    library.define("noise(Tensor x, Generator? generator=None) -> Tensor")
    library.define("fusion_attention(Tensor q, float keep_prob=1.0) -> Tensor")
    library.define("scale(Tensor x, float p) -> Tensor")
    for name in ("npu_dropout", "noise", "fusion_attention", "scale"):
        library.impl(name, lambda x, *rest: x + 1, "CPU")
    ops, x = torch.ops.assay_test_draw, torch.zeros(2)
    with assay.host_random(1):
        for call in (lambda: ops.npu_dropout(x, 0.5), lambda: ops.noise(x),
                     lambda: ops.fusion_attention(x, 0.9)):
            with pytest.raises(HostRandomError, match="assay_test_draw"):
                call()
        assert ops.npu_dropout(x, 0.0).tolist() == [1, 1]
        assert ops.fusion_attention(x).tolist() == [1, 1]
        assert ops.scale(x, 0.5).tolist() == [1, 1]


def test_a_tensor_with_a_dispatch_of_its_own_is_refused():
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError("not reached")

    with assay.host_random(1), pytest.raises(HostRandomError, match="Wrapped"):
        Wrapped(torch.empty(3)).normal_()


@pytest.mark.parametrize("call", [
    lambda: torch.empty(3).normal_(0, -1),
    lambda: torch.normal(torch.zeros(3), -torch.ones(3)),
    lambda: torch.empty(3).uniform_(1, 0),
    lambda: torch.empty(3).exponential_(0),
    lambda: torch.empty(3).geometric_(1.5),
    lambda: torch.empty(3).bernoulli_(2),
    lambda: torch.randint(5, 5, (3,)),
    lambda: torch.randint(0, 300, (3,), dtype=torch.uint8),
    lambda: torch.empty(3, dtype=torch.int8).random_(-200, 5),
    lambda: torch.empty(3, dtype=torch.bfloat16).random_(0, 1000),
    lambda: torch.randperm(300, dtype=torch.uint8),
    lambda: torch.empty(3, dtype=torch.int64).normal_(),
    lambda: torch.empty(3).bernoulli_(torch.tensor([0.5, math.nan, 0.5])),
    lambda: torch.rand(3, layout=torch.sparse_coo),
], ids=range(14))
def test_bad_arguments_are_errors_of_one_line(call):
    with assay.host_random(1), pytest.raises(RuntimeError) as error:
        call()
    assert str(error.value).strip()


def test_empty_tensors():
    with assay.host_random(1):
        assert torch.rand(0, 3).shape == (0, 3)
        assert torch.randperm(0).tolist() == []
        assert torch.randint(5, (0,)).tolist() == []
        assert torch.multinomial(torch.rand(0, 3), 2).shape == (0, 2)
        assert F.dropout(torch.rand(0)).shape == (0,)
        assert torch.empty(0).bernoulli_(0.5).shape == (0,)
