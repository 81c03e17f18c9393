"""The torch composites' quantisers against the reference vectors and
ml_dtypes, bit by bit."""

from __future__ import annotations

import fnmatch
import json

import ml_dtypes
import numpy as np
import pytest

from paths import ROOT

torch = pytest.importorskip("torch")

from assay.worker.call import Refused  # noqa: E402
from assay.worker.torch_provider import formats, nvfp4, quantize  # noqa: E402
from assay.worker.torch_provider.delayed import DelayedState  # noqa: E402

ORACLE = ROOT / "tests/data/oracle"
INDEX = {entry["file"]: entry["params"] for entry in json.loads(
    (ORACLE / "INDEX.json").read_text())["files"]}
NUMPY = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
         "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
         "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
         "e2m1": ml_dtypes.float4_e2m1fn}


def files(pattern):
    return [name for name in sorted(INDEX) if fnmatch.fnmatch(name, pattern)]


def load(name):
    return np.load(ORACLE / name), INDEX[name]


def tensor(array, params):
    """float32 as it is, bf16 and fp16 from their 16 bits."""
    bits = torch.from_numpy(array.copy())
    kind = params.get("input", "bf16 bits")
    if kind == "float32":
        return bits
    dtype = torch.float16 if kind == "fp16 bits" else torch.bfloat16
    return bits.view(torch.int16).view(dtype)


def same(ours, array, what, any_nan=()):
    """Equal bits; `any_nan`: codes that stand for one another."""
    ours = ours.contiguous().numpy()
    assert ours.dtype == array.dtype and ours.shape == array.shape, what
    if array.dtype == np.float32:
        np.testing.assert_array_equal(ours, array, what)
        return
    different = ours != array
    if any_nan:
        different &= ~(np.isin(ours, any_nan) & np.isin(array, any_nan))
    assert not different.any(), (
        f"{what}: {different.sum()} of {different.size} codes differ, first "
        f"at {np.argwhere(different)[0]}")


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_every_code_and_tie_of_a_format(name):
    source, dtype = formats.FORMATS[name], NUMPY[name]
    codes = np.arange(2 * source.sign_code, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float32)
    ours = formats.decode(torch.from_numpy(codes), source).numpy()
    np.testing.assert_array_equal(ours, values)
    grid = np.unique(values[np.isfinite(values)])
    middle = (grid[:-1] + grid[1:]) / 2
    probes = np.concatenate([
        grid, middle, np.nextafter(middle, np.float32(np.inf)),
        np.nextafter(middle, np.float32(-np.inf)), -np.zeros(1, np.float32)])
    probes = probes.astype(np.float32)
    expected = probes.astype(dtype).view(np.uint8)
    same(formats.encode(torch.from_numpy(probes), source), expected, name)


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_saturation_and_nan_of_a_format(name):
    source = formats.FORMATS[name]
    x = torch.tensor([float("inf"), float("-inf"), 3e38, -3e38, float("nan"),
                      -float("nan")])
    largest = int(formats.encode(torch.tensor([source.largest]), source))
    assert formats.encode(x, source).tolist() == [
        largest, largest | source.sign_code, largest,
        largest | source.sign_code, source.nan_code, source.nan_code]


def test_e8m0_rounds_up():
    table = np.load(ORACLE / "fmt_encode_e8m0.npz")
    same(formats.encode_e8m0_up(torch.from_numpy(table["x"])),
         table["code_up"], "code_up")
    scales = np.load(ORACLE / "mxfp8_scale_table.npz")
    for name, source in (("e4m3", formats.E4M3), ("e5m2", formats.E5M2)):
        amax = torch.from_numpy(scales["amax_" + name])
        inverse = formats.divide(1.0, torch.full_like(amax, source.largest))
        exponent = formats.encode_e8m0_up(amax * inverse)
        same(exponent, scales["exponent_" + name], name)
        same(formats.inverse_e8m0(exponent), scales["factor_" + name], name)


@pytest.mark.parametrize("name", files("cast_*"))
def test_per_tensor_cast(name):
    arrays, params = load(name)
    target = formats.FORMATS[params["format"]]
    x, scale = tensor(arrays["x"], params), torch.from_numpy(arrays["scale"])
    row = quantize.per_tensor(x, scale, target)
    column = quantize.per_tensor(x, scale, target, columnwise=True)
    same(row.codes, arrays["code"], "code", target.nan_codes)
    same(column.codes, arrays["code_t"], "code_t", target.nan_codes)
    same(row.amax, arrays["amax"], "amax")
    same(row.values(), arrays["dequant_f32"], "dequant_f32")


@pytest.mark.parametrize("name", files("current_*"))
def test_current_scaling(name):
    arrays, params = load(name)
    target = formats.FORMATS[params["format"]]
    x = tensor(arrays["x"], params)
    options = dict(pow2=params["force_pow_2_scales"],
                   epsilon=params["amax_epsilon"])
    row = quantize.current(x, target, **options)
    column = quantize.current(x, target, columnwise=True, **options)
    same(row.codes, arrays["code"], "code", target.nan_codes)
    same(column.codes, arrays["code_t"], "code_t", target.nan_codes)
    same(row.amax, arrays["amax"], "amax")
    same(row.scale_inv, arrays["scale_inv"], "scale_inv")
    if "dequant_f32" in arrays:
        same(row.values(), arrays["dequant_f32"], "dequant_f32")


def test_scale_of_every_amax():
    arrays, params = load("scale_from_amax_table.npz")
    amax = torch.from_numpy(arrays["amax"])
    for name, largest in (("e4m3", 448.0), ("e5m2", 57344.0)):
        for mode, pow2 in (("fp32", False), ("pow2", True)):
            for eps, epsilon in (("eps0", 0.0), ("eps", params["eps"])):
                scale = quantize.compute_scale(amax, largest, pow2, epsilon)
                what = f"{name}_{mode}_{eps}"
                same(scale, arrays["scale_" + what], what)
                same(formats.divide(1.0, scale), arrays["scale_inv_" + what],
                     what)


@pytest.mark.parametrize("name", files("block128_*"))
def test_block128(name):
    arrays, params = load(name)
    x = tensor(arrays["x"], params)
    for side, columnwise in (("row", False), ("col", True)):
        q = quantize.block128(x, formats.FORMATS[params["format"]],
                              2 if params["block"] == "128x128" else 1,
                              columnwise, params["pow2_scales"],
                              params["eps"])
        same(q.codes, arrays["code_" + side], side)
        same(q.scale_inv, arrays["scale_inv_" + side], side)
        if not columnwise:
            same(q.values(), arrays["dequant_row_f32"], "dequant")


@pytest.mark.parametrize("name", [n for n in files("mxfp8_*")
                                  if "fused" not in n and "table" not in n])
def test_mxfp8(name):
    arrays, params = load(name)
    x = tensor(arrays["x"], params)
    target = formats.FORMATS[params["format"]]
    for side, columnwise in (("row", False), ("col", True)):
        q = quantize.mxfp8(x, target, columnwise, "2D" in params.get(
            "block", ""))
        same(q.codes, arrays["code_" + side], side)
        same(q.scale_inv, arrays["scale_" + side], side)
        if f"dequant_{side}_f32" in arrays:
            same(q.values(), arrays[f"dequant_{side}_f32"], side)


def test_a_nan_takes_its_mxfp8_block():
    x = torch.ones(32, 64)
    x[3, 40] = float("nan")
    row = quantize.mxfp8(x, formats.E4M3)
    assert row.scale_inv[3].tolist() == [0x77, 0xFF]
    assert (row.codes[3, 32:] == 0x7F).all() and (row.codes[3, :32] != 0x7F
                                                  ).all()
    column = quantize.mxfp8(x, formats.E4M3, columnwise=True)
    assert (column.codes[:, 40] == 0x7F).all()
    assert (column.scale_inv[0] == 0xFF).sum() == 1


@pytest.mark.parametrize("name", [n for n in files("nvfp4_*")
                                  if "underflow" not in n])
def test_nvfp4(name):
    arrays, params = load(name)
    x = tensor(arrays["x"], params)
    options = dict(two_d=params.get("tile") == "16x16",
                   four_six=params.get("err_mode"),
                   scale_max=float(params.get("e4m3_max", 448)),
                   row_scaled="rowscaled" in name)
    for side, columnwise in (("row", False), ("col", True)):
        if "code_" + side not in arrays:
            continue
        if columnwise and "rht" in name:
            options.update(rht=True, signs=None if params["random_sign_mask"]
                           else [1] * 16)
        q = nvfp4.nvfp4(x, columnwise, **options)
        same(q.packed(), arrays["code_" + side], side)
        same(q.scale_inv, arrays["scale_" + side], side)
        for amax in ("global_amax", "row_amax", "amax_" + side):
            if amax in arrays:
                same(q.amax, arrays[amax], amax)
        if not columnwise and "dequant_f32" in arrays:
            same(q.values(), arrays["dequant_f32"], "dequant")


def test_an_nvfp4_scale_that_underflows():
    arrays, params = load("nvfp4_scale_underflow_disputed.npz")
    q = nvfp4.nvfp4(tensor(arrays["x"], params))
    same(q.scale_inv, arrays["scale_row"], "scale")
    same(q.packed(), arrays["code_row_python"], "codes")


@pytest.mark.parametrize("name", [n for n in files("delayed_*")
                                  if "single" not in n and "bulk" not in n])
def test_delayed_update(name):
    arrays, params = load(name)
    state = DelayedState(params["history_len"], params["slots"],
                         params["fp8_max"], params["margin"],
                         params["amax_compute_algo"])
    state.history = torch.from_numpy(arrays["history_init"].copy())
    state.scale = torch.from_numpy(arrays["scale_init"].copy())
    for step, amax in enumerate(arrays["amax_in"]):
        state.history[0] = torch.from_numpy(amax)
        state.update() if params["semantics"] == "fused" else (
            state.update_unfused())
        same(state.history, arrays["history_after"][step], f"step {step}")
        same(state.scale, arrays["scale_after"][step], f"step {step}")


@pytest.mark.parametrize("call", [
    lambda: quantize.mxfp8(torch.ones(32, 33), formats.E4M3),
    lambda: quantize.mxfp8(torch.ones(31, 32), formats.E4M3),
    lambda: quantize.block128(torch.ones(2, 2), formats.E4M3, 3),
    lambda: nvfp4.nvfp4(torch.ones(16, 24)),
    lambda: nvfp4.nvfp4(torch.ones(16, 16), columnwise=True, rht=True),
    lambda: nvfp4.nvfp4(torch.ones(16, 16), two_d=True, row_scaled=True),
])
def test_refusals(call):
    with pytest.raises(Refused):
        call()
