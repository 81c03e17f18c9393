"""`assay.compare` and `error_stats` against numpy over many pairs; threads;
memory."""

import concurrent.futures
import gc
import resource

import ml_dtypes
import numpy as np
import pytest

import assay

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn",
          "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
            "uint64"]


def dtype_named(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def drawn(rng, dtype):
    """A pair of equal shape, often strided, partly equal."""
    shape = tuple(rng.integers(1, 7, rng.integers(0, 4)))
    wide = tuple(2 * size for size in shape)
    steps = [int(rng.choice([1, 2, -1, -2])) for _ in shape]
    cut = tuple(slice(None, None, step) if abs(step) == 2 else
                slice(None, size) if step == 1 else slice(size - 1, None, -1)
                for step, size in zip(steps, shape))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        make = lambda: rng.integers(info.min, info.max, wide, dtype,
                                    endpoint=True)
    else:
        make = lambda: np.asarray(rng.normal(0, 2, wide)).astype(dtype)
    x, y = np.asarray(make())[cut], np.asarray(make())[cut]
    y = np.where(rng.random(shape) < 0.3, x, y)
    order = rng.permutation(len(shape))
    return x.transpose(order), y.transpose(order)


def close(found, wanted, rel):
    assert found == pytest.approx(wanted, rel=rel, abs=1e-300)


@pytest.mark.parametrize("name", FLOATS)
def test_figures_of_floats_are_those_of_numpy(name):
    rng = np.random.default_rng(7)
    dtype = dtype_named(name)
    for _ in range(60):
        x, y = drawn(rng, dtype)
        a, b = x.astype(np.float64), y.astype(np.float64)
        d = b - a
        stats = assay.error_stats(x, y)
        assert stats.count == x.size == stats.finite
        assert stats.mismatches == np.count_nonzero(d)
        # fp32 chunk sums below fp32 (error_stats.h says how exact each is).
        rel = 1e-12 if name == "float64" else 2e-6
        close(stats.max_abs, np.abs(d).max(), 1e-6 if rel > 1e-9 else 1e-12)
        close(stats.mean_abs, np.abs(d).mean(), rel)
        close(stats.rmse, np.sqrt((d * d).mean()), rel)
        close(stats.golden.l2, np.sqrt((a * a).sum()), rel)
        assert stats.golden.min == a.min() and stats.target.max == b.max()
        if a.any():
            close(stats.norm_l2, np.linalg.norm(d) / np.linalg.norm(a), rel)
            # alpha - 1 cancels: as exact as the terms of its sum.
            scale = np.abs(a * b).sum() / (a * a).sum()
            assert abs(stats.alpha - (a * b).sum() / (a * a).sum()) <= (
                rel * max(scale, 1))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_compared_exactly(name):
    rng = np.random.default_rng(8)
    dtype = dtype_named(name)
    for _ in range(40):
        x, y = drawn(rng, dtype)
        row = assay.compare(x, y)
        differences = [abs(int(a) - int(b))
                       for a, b in zip(x.ravel(), y.ravel())]
        assert row.verdict == ("mismatch" if any(differences) else "match")
        if any(differences):
            assert row.max_abs_int == max(differences)
            assert row.mismatches == sum(map(bool, differences))
            assert differences[row.flat_index] == max(differences)


@pytest.mark.parametrize("name", FLOATS + ["complex64", "bool"])
def test_a_pair_matches_itself_and_nothing_else(name):
    """Under `exact`, equality of bits decides, whatever the layout."""
    rng = np.random.default_rng(9)
    dtype = dtype_named(name)
    for _ in range(40):
        x, y = drawn(rng, dtype)
        assert assay.compare(x, np.array(x), standard="exact").matched
        same = np.array_equal(x.astype(np.complex128), y.astype(np.complex128))
        assert assay.compare(x, y, standard="exact").matched == same


def test_one_non_finite_element_is_found_wherever_it_is():
    rng = np.random.default_rng(10)
    for value in (np.nan, np.inf, -np.inf):
        x, _ = drawn(rng, np.dtype("float32"))
        x = np.array(rng.normal(size=(5, 7)), np.float32)
        for place in np.ndindex(x.shape):
            y = x.copy()
            y[place] = value
            row = assay.compare(x, y)
            assert row.verdict == "mismatch" and row.nonfinite_mismatches == 1


def test_threads_that_compare_at_once_find_the_same_bits():
    rng = np.random.default_rng(11)
    pairs = [(x, x * (1 + 1e-6 * rng.normal(size=x.shape)).astype("f4"))
             for x in (rng.normal(size=(64, 257)).astype("f4")
                       for _ in range(8))]

    def figures(pair):
        fields = dict(assay.compare(*pair, op="linear").fields)
        return [assay.compare({"a": pair[0]}, {"a": pair[1]})[0].norm_l2,
                fields]

    alone = list(map(figures, pairs))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(figures, pairs)) == alone
        # One array, many readers.
        assert list(pool.map(figures, [pairs[0]] * 32)) == [alone[0]] * 32


def resident():
    """Bytes in memory now."""
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize()


def test_comparing_leaves_no_memory_behind():
    x = np.ones((16, 16), np.float32)
    y = x * np.float32(1.5)

    def work(count):
        for _ in range(count):
            assay.compare(x, y)
            assay.error_stats(x.astype("f8"), y.astype("f8"))
            with pytest.raises(TypeError):
                assay.error_stats("x", x)
        gc.collect()

    work(2000)
    before = resident()
    work(5000)
    # A leaked row would be 5,000 times some kilobytes.
    assert resident() - before < 8 << 20


def test_arrays_are_kept_only_while_they_are_compared():
    import sys
    x = np.ones(8)
    before = sys.getrefcount(x)
    row = assay.compare(x, x)
    found = assay.compare([x], [x])
    assert sys.getrefcount(x) == before
    assert row.matched and found.matched
