"""seed_all(drop_dropout=True): every dropout is the identity, until restore."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import alpha_dropout as early_alpha
from torch.nn.functional import dropout as early_dropout
from torch.nn.functional import scaled_dot_product_attention as early_sdpa

import assay

X = torch.arange(1.0, 25).reshape(2, 3, 4)
early_builtin = torch.dropout


@pytest.fixture
def dropless():
    with assay.seed_all(1, drop_dropout=True) as report:
        yield report


CALLS = {
    "F.dropout": lambda x: F.dropout(x, 0.5),
    "F.dropout positional": lambda x: F.dropout(x, 0.5, True),
    "early name": lambda x: early_dropout(x, 0.9),
    "early alpha": lambda x: early_alpha(x, 0.9, True),
    "early built-in": lambda x: early_builtin(x, 0.5, True),
    "F.dropout inplace": lambda x: F.dropout(x.clone(), 0.5, inplace=True),
    "F.dropout1d": lambda x: F.dropout1d(x, 0.5),
    "F.dropout2d": lambda x: F.dropout2d(x[None], 0.5)[0],
    "F.dropout3d": lambda x: F.dropout3d(x[None, None], 0.5)[0, 0],
    "F.alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "F.feature_alpha_dropout":
        lambda x: F.feature_alpha_dropout(x, 0.5, training=True),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, train=True),
    "torch.dropout_": lambda x: torch.dropout_(x.clone(), 0.5, True),
    "torch.alpha_dropout_":
        lambda x: torch.alpha_dropout_(x.clone(), 0.5, True),
    "torch.feature_dropout": lambda x: torch.feature_dropout(x, 0.5, True),
    "torch.native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0],
    "aten.native_dropout":
        lambda x: torch.ops.aten.native_dropout.default(x, 0.5, True)[0],
    "aten.dropout": lambda x: torch.ops.aten.dropout.default(x, 0.5, True),
    "aten.dropout packet": lambda x: torch.ops.aten.dropout(x, 0.5, True),
    "nn.Dropout": lambda x: torch.nn.Dropout(0.5)(x),
    "nn.Dropout1d": lambda x: torch.nn.Dropout1d(0.5)(x),
    "nn.AlphaDropout": lambda x: torch.nn.AlphaDropout(0.5)(x),
    "nn.FeatureAlphaDropout": lambda x: torch.nn.FeatureAlphaDropout(0.5)(x),
    "nn.Dropout inplace": lambda x: torch.nn.Dropout(0.5, True)(x.clone()),
    "p = 1": lambda x: F.dropout(x, 1.0),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_dropout_is_the_identity(call, dropless):
    for inference in (False, True):
        with torch.inference_mode(inference):
            assert torch.equal(call(X), X)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_dropout_drops_again_after_restore(call):
    with assay.seed_all(1, drop_dropout=True):
        assert torch.equal(call(X), X)
    assert not torch.equal(call(X), X)


def attention(dropout_p):
    return F.scaled_dot_product_attention(X, X, X, None, dropout_p)


def test_attention_without_dropout(dropless):
    assert torch.equal(attention(0.5), attention(0.0))
    assert torch.equal(early_sdpa(X, X, X, dropout_p=0.5), attention(0.0))


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention_without_dropout(dropless, need_weights):
    module = torch.nn.MultiheadAttention(4, 2, dropout=0.5)
    found = module(X, X, X, need_weights=need_weights)[0]
    module.dropout = 0.0
    assert torch.equal(module(X, X, X, need_weights=need_weights)[0], found)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_without_dropout(dropless, kind, packed):
    module = getattr(torch.nn, kind)(4, 4, 2, dropout=0.9)
    x = torch.nn.utils.rnn.pack_sequence([X[0], X[1]]) if packed else X

    def run():
        out = module(x)[0]
        return out.data if packed else out
    found = run()
    module.dropout = 0.0
    assert torch.equal(run(), found)
    module.dropout = 0.9
    module.eval()
    assert torch.equal(run(), found)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_numbers_of_the_host_drop_nothing_either(call):
    """In whichever order the two are entered."""
    with assay.seed_all(1, drop_dropout=True), assay.host_random(1):
        assert torch.equal(call(X), X)
    with assay.host_random(1), assay.seed_all(1, drop_dropout=True):
        assert torch.equal(call(X), X)
    with assay.host_random(1):
        assert not torch.equal(call(X), X)


def test_a_transformer_layer_trains_as_without_dropout():
    def gradients(dropout, drop_dropout):
        with assay.seed_all(1, drop_dropout=drop_dropout):
            layer = torch.nn.TransformerEncoderLayer(
                4, 2, 8, dropout=dropout, batch_first=True)
            layer(X).square().sum().backward()
        return [parameter.grad for parameter in layer.parameters()]

    expected = gradients(0.0, False)
    for found, wanted in zip(gradients(0.5, True), expected, strict=True):
        assert torch.equal(found, wanted)
    assert not all(map(torch.equal, gradients(0.5, False), expected))


def test_a_bad_probability_is_still_an_error(dropless):
    with pytest.raises(ValueError, match="dropout probability"):
        F.dropout(X, 1.5)


def test_random_numbers_go_on(dropless):
    assert 0 < torch.empty(1000).bernoulli_(0.5).sum() < 1000
    assert torch.rand(3).unique().numel() == 3


# What a device's operators get, told by their schemas alone: no such device
# is needed.
OPERATORS = {
    "native_dropout": ((X, 0.5, True), (X, 0.5, False)),
    "_scaled_dot_product_flash_attention":
        ((X, X, X, 0.5, True), (X, X, X, 0.0, True)),
    "_scaled_dot_product_efficient_attention":
        ((X, X, X, None, True, 0.5), (X, X, X, None, True, 0.0)),
    "_fused_dropout": ((X, 0.5), (X, 0.0)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_devices_are_told_to_drop_nothing(name):
    from assay.random.dropless import undropped
    before, after = OPERATORS[name]
    func = getattr(torch.ops.aten, name).default
    assert undropped(func, before, {}) == (after, {})


def test_custom_operators_that_drop():
    from assay.random.dropless import undropped
    library = torch.library.Library("assay_test_drop", "DEF")
    library.define("npu_dropout(Tensor x, float p) -> (Tensor, Tensor)")
    library.define("fusion_attention(Tensor q, *, float keep_prob=1.0) "
                   "-> Tensor")
    library.define("scale(Tensor x, float p) -> Tensor")
    ops = torch.ops.assay_test_drop
    assert undropped(ops.npu_dropout.default, (X, 0.5), {}) == ((X, 0.0), {})
    assert undropped(ops.fusion_attention.default, (X,), {"keep_prob": 0.9}) \
        == ((X,), {"keep_prob": 1.0})
    assert undropped(ops.scale.default, (X, 0.5), {}) == ((X, 0.5), {})


def test_restore_wants_its_own_turn_and_thread():
    report = assay.seed_all(1, drop_dropout=True)
    inner = assay.seed_all(1, drop_dropout=True)
    with pytest.raises(RuntimeError, match="entered later"):
        report.restore()
    errors = []

    def elsewhere():
        try:
            inner.restore()
        except RuntimeError as error:
            errors.append(str(error))
        assert not torch.equal(F.dropout(X, 0.5), X)  # this thread drops

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert torch.equal(F.dropout(X, 0.5), X)
    inner.restore()
    assert torch.equal(F.dropout(X, 0.5), X)
    report.restore()
    assert not torch.equal(F.dropout(X, 0.5), X)


def test_under_a_default_device():
    """torch.device() is a mode too; it may end before dropout is back."""
    report = assay.seed_all(1, drop_dropout=True)
    with torch.device("cpu"):
        assert torch.equal(F.dropout(X, 0.5), X)
    assert torch.equal(F.dropout(X, 0.5), X)
    report.restore()
