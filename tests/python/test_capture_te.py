"""Quantised tensors as TransformerEngine has them: codes, scales, values."""

from __future__ import annotations

import json
import types

import pytest
import torch

import assay
from capturing import compared, rows
from test_capture import tensor

VALUES = torch.tensor([[1.0, -2.0, 0.5, 448.0], [3.0, 0.0, -1.5, 6.0]])


class Quantised(torch.Tensor):
    """A tensor whose elements are in other tensors, by attributes of the
    names that TransformerEngine's have; any function dequantises."""

    @staticmethod
    def __new__(cls, values, **attributes):
        self = torch.Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=values.dtype, device=values.device)
        self._values = values
        for name, value in attributes.items():
            setattr(self, name, value)
        return self

    def dequantize(self, *, dtype=None):
        return self._values.to(dtype or self.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.detach.default:
            return args[0]
        args = [a.dequantize() if isinstance(a, cls) else a for a in args]
        return func(*args, **(kwargs or {}))


class Storage:
    """The same without being a tensor."""

    def __init__(self, values, **attributes):
        self._values = values
        self.__dict__.update(attributes)

    def dequantize(self, *, dtype=None):
        if self._values is None:
            raise NotImplementedError("columnwise data alone")
        return self._values


def captured(folder, value) -> dict[str, str]:
    with assay.capture(folder, level="api", mode="tensor") as capture:
        assay.save(value, "it")
    assert capture.faults == []
    stem = "it.0.debug.tensor"
    return {name[len(stem):]: rest for name, rest in rows(folder).items()
            if name.startswith(stem)}


def line(folder, leaf: str) -> dict:
    text = (folder / "step0/rank0/trace.jsonl").read_text()
    return next(found for found in map(json.loads, text.splitlines())
                if found.get("leaf") == leaf)


def fp8(kind=Quantised, **more):
    codes = VALUES.to(torch.float8_e4m3fn).view(torch.uint8)
    return kind(VALUES, _data=codes, _transpose=codes.t().contiguous(),
                _transpose_invalid=True, _scale_inv=torch.ones(1),
                _fp8_dtype="DType.kFloat8E4M3",
                _quantizer=types.SimpleNamespace(
                    scale=torch.ones(1), amax=torch.tensor([448.0])), **more)


def test_codes_scales_and_the_value_of_a_float8_tensor(tmp_path):
    found = captured(tmp_path, fp8())
    assert found[""] == "float32 [2, 4]"
    assert found[".rowwise_data"] == "float8_e4m3fn [2, 4]"
    assert found[".scale_inv"] == "float32 [1]"
    assert found[".amax"] == "float32 [1]"
    assert ".columnwise_data" not in found  # it is stale
    # statistics are those of the codes' values, saturation too
    codes = line(tmp_path, "tensor.rowwise_data")
    assert (codes["max"], codes["min"]) == (448, -2)
    assert codes["saturated"] == 1
    assert tensor(tmp_path, "it.0.debug.tensor.rowwise_data").dtype == (
        torch.float8_e4m3fn)


def test_one_code_that_differs_is_found(tmp_path):
    captured(tmp_path / "a", fp8())
    other = fp8()
    other._data = other._data.clone()
    other._data[0, 3] ^= 0x80  # 448: its sign
    captured(tmp_path / "b", other)
    assert compared(tmp_path / "a", tmp_path / "b") == 1


def test_padding_of_mxfp8_scales_is_not_read(tmp_path):
    values = torch.ones(64, 96)
    scales = torch.full((128, 4), 255, dtype=torch.uint8)  # 255: NaN
    scales[:64, :3] = 127  # 2^0
    columns = torch.full((4, 128), 255, dtype=torch.uint8)
    columns[:2, :96] = 128
    codes = values.to(torch.float8_e4m3fn).view(torch.uint8)
    value = Quantised(values, _rowwise_data=codes, _columnwise_data=codes,
                      _rowwise_scale_inv=scales,
                      _columnwise_scale_inv=columns,
                      _fp8_dtype="DType.kFloat8E4M3",
                      _with_gemm_swizzled_scales=False)
    found = captured(tmp_path, value)
    assert found[".rowwise_scale_inv"] == "float8_e8m0fnu [64, 3]"
    assert found[".columnwise_scale_inv"] == "float8_e8m0fnu [2, 96]"
    assert line(tmp_path, "tensor.rowwise_scale_inv")["max"] == 1
    assert line(tmp_path, "tensor.columnwise_scale_inv")["max"] == 2
    assert found[".columnwise_data"] == "float8_e4m3fn [64, 96]"


@pytest.mark.parametrize("two_d, rowwise, columnwise", [
    (True, (2, 1), (1, 2)), (False, (1, 200), (2, 128))])
def test_scales_of_blocks(tmp_path, two_d, rowwise, columnwise):
    values = torch.ones(200, 128)
    codes = values.to(torch.float8_e5m2).view(torch.uint8)
    value = Quantised(values, _rowwise_data=codes,
                      _columnwise_data=codes.t().contiguous(),
                      _rowwise_scale_inv=torch.ones(8, 204),
                      _columnwise_scale_inv=torch.ones(8, 204),
                      _fp8_dtype="DType.kFloat8E5M2", _is_2D_scaled=two_d)
    found = captured(tmp_path, value)
    assert found[".rowwise_scale_inv"] == f"float32 {list(rowwise)}"
    assert found[".columnwise_scale_inv"] == f"float32 {list(columnwise)}"
    assert found[".rowwise_data"] == "float8_e5m2 [200, 128]"


def test_nvfp4_in_two_codes_a_byte(tmp_path):
    packed = torch.tensor([[0x42, 0x71]] * 16, dtype=torch.uint8)
    packed = packed.repeat(1, 8)  # 16 x 32: 1.0 2.0 0.5 6.0 ...
    scales = torch.full((128, 4), 0x38, dtype=torch.uint8)  # 1.0
    value = Quantised(torch.ones(16, 32), _rowwise_data=packed,
                      _rowwise_scale_inv=scales,
                      _amax_rowwise=torch.tensor([6.0]),
                      _fp4_dtype="DType.kFloat4E2M1")
    found = captured(tmp_path, value)
    assert found[".rowwise_data"] == "float4_e2m1fn [16, 32]"
    assert found[".rowwise_scale_inv"] == "float8_e4m3fn [16, 2]"
    codes = line(tmp_path, "tensor.rowwise_data")
    assert (codes["min"], codes["max"], codes["mean"]) == (0.5, 6, 2.375)
    assert line(tmp_path, "tensor.amax_rowwise")["max"] == 6


def test_storages_that_are_no_tensors(tmp_path):
    found = captured(tmp_path / "whole", [fp8(Storage)])
    assert found[".0"] == "float32 [2, 4]"
    assert found[".0.rowwise_data"] == "float8_e4m3fn [2, 4]"
    part = fp8(Storage)
    part._values = None
    found = captured(tmp_path / "part", part)
    assert "columnwise data alone" in line(tmp_path / "part",
                                           "tensor")["unreadable"]
    assert found[".rowwise_data"] == "float8_e4m3fn [2, 4]"


def test_other_objects_stay_what_they_are(tmp_path):
    found = captured(tmp_path, [types.SimpleNamespace(_data=torch.ones(1)),
                                torch.ones(2)])
    assert set(found) == {".0", ".1"}


class Linear(torch.nn.Linear):
    """With the state of delayed scaling, and quantised inputs."""

    def __init__(self):
        super().__init__(4, 3)
        self.fp8_meta = {
            "scaling_fwd": types.SimpleNamespace(
                scale=torch.tensor([2.0]), amax_history=torch.ones(16, 1)),
            "scaling_bwd": types.SimpleNamespace(scale=torch.tensor([4.0])),
            "num_gemms": 1}

    def forward(self, x):
        return super().forward(x.dequantize())


def test_delayed_scaling_state_and_inputs_of_a_module(tmp_path):
    net = Linear()
    with assay.capture(tmp_path, net, level="module", mode="tensor"):
        net(fp8()).sum().backward()
    stem = "Module.Linear.forward.0"
    for key, value in (("scaling_fwd.scale", 2), ("scaling_bwd.scale", 4),
                       ("scaling_fwd.amax_history", 1)):
        assert tensor(tmp_path, f"{stem}.parameters.fp8_meta.{key}"
                      ).eq(value).all()
    found = rows(tmp_path)
    assert found[f"{stem}.input.0.rowwise_data"] == "float8_e4m3fn [2, 4]"
    assert tensor(tmp_path, f"{stem}.input.0").equal(VALUES)
