"""host_random: the numbers themselves, and who gets them."""

import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import dropout as early_dropout
from torch.utils.checkpoint import checkpoint

import assay
from philox import bits_of, keys_of, philox4x32

early_rand = torch.rand


def test_random123_vectors_of_the_philox_above():
    assert philox4x32((0, 0, 0, 0), (0, 0)) == [
        0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox4x32((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
                      (0xA4093822, 0x299F31D0)) == [
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


def test_uniform_numbers_are_philox_under_keys_of_mt19937():
    keys = keys_of(1234)
    with assay.host_random(1234):
        single = torch.rand(2, 3)
        double = torch.rand(7, dtype=torch.float64)
    first, second = next(keys), next(keys)
    assert single.flatten().tolist() == [
        (bits_of(first, i) >> 40) * 2.0**-24 for i in range(6)]
    assert double.tolist() == [
        (bits_of(second, i) >> 11) * 2.0**-53 for i in range(7)]


def test_normal_numbers_are_quantiles():
    from statistics import NormalDist
    key = next(keys_of(5))
    with assay.host_random(5):
        found = torch.randn(50, dtype=torch.float64)
    for i, value in enumerate(found.tolist()):
        u = ((bits_of(key, i) >> 12) + 0.5) * 2.0**-52
        assert value == pytest.approx(NormalDist().inv_cdf(u), rel=1e-14)


def test_every_dtype_is_one_draw_rounded():
    def of(dtype, law="randn"):
        with assay.host_random(3):
            return getattr(torch, law)(1000, dtype=dtype)

    single = of(torch.float32)
    assert torch.equal(of(torch.float64).float(), single)
    assert torch.equal(of(torch.bfloat16), single.bfloat16())
    assert torch.equal(of(torch.float16), single.half())
    for dtype in (torch.bfloat16, torch.float16):
        assert of(dtype, "rand").max() < 1
    assert (of(torch.float64, "rand") - of(torch.float32, "rand")).abs() \
        .max() < 2.0**-24


@pytest.mark.parametrize("draw", [
    lambda: torch.randn(100_003), lambda: torch.randperm(1000),
    lambda: torch.empty(70_000).exponential_(),
    lambda: F.dropout(torch.ones(50_000))], ids=range(4))
def test_any_number_of_threads_sees_the_same(draw):
    from assay import _core
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        _core.set_thread_count(threads)
        with assay.host_random(11):
            found.append(draw())
    torch.set_num_threads(before)
    _core.set_thread_count(0)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_strides_do_not_matter():
    with assay.host_random(2):
        plain = torch.empty(4, 6).normal_()
    for view in (torch.empty(6, 4).t(), torch.empty(4, 12)[:, ::2],
                 torch.empty(8, 9)[2:6, 1:7]):
        with assay.host_random(2):
            assert torch.equal(view.normal_(), plain)
    image = torch.empty(2, 3, 4, 5)
    with assay.host_random(2):
        packed = torch.randn_like(image)
    with assay.host_random(2):
        last = torch.randn_like(
            image.to(memory_format=torch.channels_last))
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(packed, last)


def test_early_names_and_initialisers():
    def weights():
        torch.manual_seed(int.from_bytes(np.random.bytes(4), "little"))
        with assay.host_random(4):
            module = torch.nn.Linear(5, 5)
            tensors = [early_rand(3), early_dropout(torch.ones(100)),
                       module.weight, module.bias]
            for init in ("uniform_", "normal_", "xavier_uniform_",
                         "xavier_normal_", "kaiming_uniform_",
                         "kaiming_normal_", "trunc_normal_", "orthogonal_"):
                tensors.append(getattr(torch.nn.init, init)(torch.empty(4, 4)))
            tensors.append(torch.nn.init.sparse_(torch.empty(9, 9), 0.5))
        return [tensor.detach() for tensor in tensors]

    first, second = weights(), weights()
    assert all(map(torch.equal, first, second))
    with assay.host_random(5):
        assert not torch.equal(early_rand(3), first[0])


# F43: recomputation must see the mask of the first pass.
@pytest.mark.parametrize("reentrant", [False, True])
def test_f43_recomputed_dropout_keeps_its_mask(reentrant):
    x = torch.ones(64, requires_grad=True)
    with assay.host_random(3):
        out = checkpoint(lambda v: F.dropout(v, 0.5), x,
                         use_reentrant=reentrant)
        torch.rand(10)  # others draw between the passes
        out.sum().backward()
    assert torch.equal(out != 0, x.grad != 0)
    assert set(x.grad.tolist()) == {0.0, 2.0}


# F44: no two channels share a mask.
def test_f44_channels_have_masks_of_their_own():
    with assay.host_random(3):
        kept = (F.dropout(torch.ones(64, 4096), 0.5) != 0).double()
    assert abs(kept.mean() - 0.5) < 4 * 0.5 / kept.numel() ** 0.5
    for lag in (1, 2, 3):
        agree = (kept[lag:] == kept[:-lag]).double().mean()
        assert abs(agree - 0.5) < 0.01


def test_gradients_of_dropout_agree_with_its_output():
    for call in (lambda x: F.dropout(x, 0.3),
                 lambda x: torch.native_dropout(x, 0.3, True)[0],
                 lambda x: torch.dropout(x, 0.3, True)):
        x = torch.ones(500, requires_grad=True)
        with assay.host_random(1):
            out = call(x)
        out.sum().backward()
        assert torch.equal(out.detach(), x.grad)
        assert 0.6 < (x.grad != 0).double().mean() < 0.8


def test_dropout_is_the_same_arithmetic_as_torch():
    """One mask by both ways, from Python and from C++ below."""
    x = torch.linspace(1, 2, 1000).bfloat16()  # no zeros of its own
    with assay.host_random(1):
        python = F.dropout(x, 0.1)
    with assay.host_random(1):
        below = torch.dropout(x, 0.1, True)
    with assay.host_random(1):
        y = x.clone()
        F.dropout(y, 0.1, inplace=True)
    with assay.host_random(1), torch.inference_mode():
        inference = F.dropout(x, 0.1)
    with assay.host_random(1):
        mask = torch.native_dropout(x, 0.1, True)[1]
    for found in (below, y, inference):
        assert torch.equal(found, python)
    assert torch.equal(mask, python != 0)


def test_other_threads_draw_as_they_did():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    found = []
    with assay.host_random():
        thread = threading.Thread(target=lambda: found.append(torch.rand(3)))
        thread.start()
        thread.join()
    assert torch.equal(found[0], expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_draw_as_eager_ones(backend):
    def function(x):
        return F.dropout(x, 0.5) + torch.rand(16)

    x = torch.randn(16)
    with assay.host_random(7):
        expected = function(x)
    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend)
    with assay.host_random(7):
        assert torch.equal(compiled(x), expected)
    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend)
    compiled(x)  # compiled before
    with assay.host_random(7):
        assert torch.equal(compiled(x), expected)


def test_scripted_functions_are_reached():
    @torch.jit.script
    def function(x: torch.Tensor):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(16)

    x = torch.randn(16)
    with assay.host_random(7):
        found = function(x)
    with assay.host_random(7):
        assert torch.equal(F.dropout(x, 0.5) + torch.rand(16), found)
