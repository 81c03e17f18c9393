"""Products of the torch provider in fp32, against fp64."""

from __future__ import annotations


import pytest

torch = pytest.importorskip("torch")

from assay.worker.torch_provider.recipes import product  # noqa: E402


def factors(exponent_a: int, exponent_b: int) -> tuple:
    """Small integers times a power of two: fp64 has their sums exactly."""
    generator = torch.Generator().manual_seed(5)

    def small(*shape: int) -> torch.Tensor:
        return torch.randint(-8, 9, shape, generator=generator).float()

    return (small(7, 96) * 2.0**exponent_a, small(96, 5) * 2.0**exponent_b)


@pytest.mark.parametrize("exponents", [
    (-120, -29), (-29, -120), (-75, -75), (-77, -77), (-149, 0), (-64, -60),
    (3, 4), (-149, 120), (120, -149), (-140, -140)])
def test_is_the_exact_sum_rounded_once(exponents):
    a, b = factors(*exponents)
    assert torch.equal(product(a, b), (a.double() @ b.double()).float())


def test_of_nothing():
    assert product(torch.empty(0, 4), torch.ones(4, 3)).shape == (0, 3)
    assert torch.equal(product(torch.empty(2, 0), torch.empty(0, 3)),
                       torch.zeros(2, 3))
