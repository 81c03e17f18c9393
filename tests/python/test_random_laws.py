"""host_random: operators follow the laws that torch documents for them."""

import math

import pytest
import torch
import torch.nn.functional as F

import assay

N = 40_000  # numbers; their means are within 5 standard errors


def drawn(call):
    with assay.host_random(17):
        return call().double()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32,
                                   torch.bfloat16, torch.float16])
@pytest.mark.parametrize("call, mean, deviation", [
    (lambda t: torch.rand(N, dtype=t), 0.5, 12 ** -0.5),
    (lambda t: torch.randn(N, dtype=t), 0, 1),
    (lambda t: torch.empty(N, dtype=t).normal_(3, 0.5), 3, 0.5),
    (lambda t: torch.empty(N, dtype=t).uniform_(-2, 4), 1, 3 ** 0.5),
    (lambda t: torch.empty(N, dtype=t).exponential_(0.5), 2, 2),
    (lambda t: torch.empty(N, dtype=t).log_normal_(0, 0.25),
     math.exp(0.03125), math.sqrt(math.expm1(0.0625) * math.exp(0.0625))),
    (lambda t: torch.empty(N, dtype=t).geometric_(0.25), 4, 12 ** 0.5),
    (lambda t: torch.empty(N, dtype=t).bernoulli_(0.2), 0.2, 0.4),
    (lambda t: torch.normal(torch.full((N,), 2., dtype=t), 3.0), 2, 3),
    (lambda t: torch.normal(1.0, torch.full((N,), 2., dtype=t)), 1, 2),
    (lambda t: torch.randint(-3, 4, (N,), dtype=t), 0, 2),
    (lambda t: torch.empty(N, dtype=t).random_(0, 7), 3, 2),
], ids=range(12))
def test_mean_and_deviation(call, mean, deviation, dtype):
    x = drawn(lambda: call(dtype))
    assert abs(x.mean() - mean) < 5 * deviation / N ** 0.5 + 2e-3 * abs(mean)
    assert x.std() == pytest.approx(deviation, rel=0.06)


def test_cauchy_quartiles():
    x = drawn(lambda: torch.empty(N).cauchy_(1, 2))
    for q, expected in ((0.25, -1), (0.5, 1), (0.75, 3)):
        assert x.quantile(q) == pytest.approx(expected, abs=0.1)


def chi_square(counts):
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 / expected for count in counts)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16,
                                   torch.int8, torch.uint8, torch.float32])
def test_integers_are_uniform(dtype):
    x = drawn(lambda: torch.randint(20, 31, (N,), dtype=dtype))
    counts = torch.bincount(x.long())[20:].tolist()
    assert len(counts) == 11
    assert chi_square(counts) < 10 + 5 * math.sqrt(20)


@pytest.mark.parametrize("dtype, least, most", [
    (torch.int64, 0, 2**63 - 1), (torch.int8, 0, 127), (torch.uint8, 0, 255),
    (torch.bool, 0, 1), (torch.float32, 0, 2**24), (torch.bfloat16, 0, 2**8),
    (torch.float16, 0, 2**11), (torch.float64, 0, 2**53)])
def test_random_without_limits_fills_the_dtype(dtype, least, most):
    x = drawn(lambda: torch.empty(N, dtype=dtype).random_())
    assert least <= x.min() <= most * 0.01
    assert most * 0.99 <= x.max() <= most


def test_random_from_the_least_integer():
    x = drawn(lambda: torch.empty(N, dtype=torch.int64).random_(-2**63, None))
    assert x.min() < -9.2e18 and x.max() > 9.2e18


def test_permutations_of_four():
    counts = {}
    with assay.host_random(1):
        for _ in range(2400):
            order = tuple(torch.randperm(4).tolist())
            assert sorted(order) == [0, 1, 2, 3]
            counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert chi_square(counts.values()) < 23 + 5 * math.sqrt(46)


def test_complex_normals_have_half_the_variance_in_each_part():
    with assay.host_random(1):
        x = torch.randn(N, dtype=torch.complex64)
        y = torch.empty(N, dtype=torch.complex128).normal_(2, 3)
        z = torch.rand(N, dtype=torch.complex64)
    assert x.real.std() == pytest.approx(0.5 ** 0.5, rel=0.02)
    assert x.imag.std() == pytest.approx(0.5 ** 0.5, rel=0.02)
    assert abs((x.real * x.imag).mean()) < 5 * 0.5 / N ** 0.5
    assert y.real.mean() == pytest.approx(2, abs=0.06)
    assert abs(y.imag.mean()) < 0.06
    assert z.real.min() >= 0 and z.imag.max() < 1


def test_multinomial_follows_the_weights():
    weights = torch.tensor([[0.0, 1, 3], [2, 2, 0]])
    with assay.host_random(1):
        found = torch.multinomial(weights, N, replacement=True)
        pairs = torch.multinomial(weights, 2)
    counts = [torch.bincount(row, minlength=3) / N for row in found]
    for row, expected in zip(counts, ((0, 0.25, 0.75), (0.5, 0.5, 0))):
        assert torch.allclose(row, torch.tensor(expected), atol=0.012)
    assert sorted(pairs[0].tolist()) == [1, 2]
    assert sorted(pairs[1].tolist()) == [0, 1]
    for bad, samples in ((torch.tensor([1.0, 0]), 2), (torch.zeros(3), 1),
                         (torch.tensor([1.0, -1]), 1),
                         (torch.tensor([1.0, math.nan]), 1),
                         (torch.ones(3), 0)):
        with assay.host_random(1), pytest.raises(RuntimeError):
            torch.multinomial(bad, samples)


def test_rrelu_keeps_what_is_above_zero():
    x = torch.tensor([-1.0, 2.0, -3.0, 0.0], requires_grad=True)
    with assay.host_random(1):
        y = F.rrelu(x, 0.1, 0.3, training=True)
    y.sum().backward()
    assert y[1] == 2 and x.grad[1] == 1 and y[3] == 0
    for i in (0, 2):
        assert 0.1 <= x.grad[i] < 0.3
        assert y[i] == x[i] * x.grad[i]
