"""Writes the safetensors, ONNX and Polygraphy fixtures with their own packages.

pip install numpy ml_dtypes safetensors==0.8.0 onnx==1.23.2 polygraphy==0.53.6
(torch is optional: the torch tensors of Polygraphy need it.)

Bytes of every tensor follow one formula that the tests know: byte k is
(37 k + 5) mod 256, and k mod 2 for bool.
"""
import base64
import json
import os
import shutil

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors import TensorSpec, serialize_file

HERE = os.path.dirname(os.path.abspath(__file__))
KEEP = []  # serialize_file reads raw addresses


def pattern(size, is_bool=False):
    k = np.arange(size, dtype=np.int64)
    return (k % 2 if is_bool else (37 * k + 5) % 256).astype(np.uint8)


def spec(dtype, shape, size, is_bool=False):
    data = pattern(max(size, 1), is_bool)
    KEEP.append(data)
    return TensorSpec(
        dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=size)


def safetensors_files():
    wide = {  # dtype as the package names it -> bytes of one element
        "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2,
        "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1,
        "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "int8": 1, "int16": 2,
        "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4,
        "uint64": 8, "bool": 1, "complex64": 8}
    specs = {
        name: spec(name, [2, 3], 6 * size, name == "bool")
        for name, size in wide.items()}
    specs["float4_e2m1fn"] = spec("float4_e2m1fn_x2", [2, 4], 8)
    specs["scalar"] = spec("float32", [], 4)
    specs["empty"] = spec("float32", [0, 3], 0)
    specs["层.0/名"] = spec("int32", [1], 4)
    folder = os.path.join(HERE, "safetensors")
    serialize_file(specs, os.path.join(folder, "all_dtypes.safetensors"),
                   {"format": "pt", "note": "a\"b"})
    # F78: a header of 8312 bytes begins 0x78 0x20, like a zlib stream.
    specs = {"x": spec("float32", [2], 8)}
    plain = os.path.join(folder, "zlib_lookalike.safetensors")
    serialize_file(specs, plain, None)
    body = open(plain, "rb").read()
    length = int.from_bytes(body[:8], "little")
    header = body[8:8 + length].ljust(8312, b" ")
    with open(plain, "wb") as out:
        out.write((8312).to_bytes(8, "little") + header + body[8 + length:])
    shards(folder)


def shards(folder):
    folder = os.path.join(folder, "sharded")
    os.makedirs(folder, exist_ok=True)
    names = ["model-00001-of-00002.safetensors",
             "model-00002-of-00002.safetensors"]
    for i, name in enumerate(names):
        serialize_file({f"layer.{i}.weight": spec("float32", [2, 2], 16),
                        f"layer.{i}.bias": spec("float32", [2], 8)},
                       os.path.join(folder, name), None)
    weight_map = {f"layer.{i}.{part}": names[i]
                  for i in range(2) for part in ("weight", "bias")}
    path = os.path.join(folder, "model.safetensors.index.json")
    with open(path, "w") as out:
        json.dump({"metadata": {"total_size": 48}, "weight_map": weight_map},
                  out, indent=2)


def onnx_save(name, tensor):
    with open(os.path.join(HERE, "onnx", name + ".pb"), "wb") as out:
        out.write(tensor.SerializeToString())


def onnx_files():
    raw = {  # DataType -> bytes of one element
        "FLOAT": 4, "DOUBLE": 8, "FLOAT16": 2, "BFLOAT16": 2, "INT8": 1,
        "INT16": 2, "INT32": 4, "INT64": 8, "UINT8": 1, "UINT16": 2,
        "UINT32": 4, "UINT64": 8, "BOOL": 1, "COMPLEX64": 8, "COMPLEX128": 16,
        "FLOAT8E4M3FN": 1, "FLOAT8E4M3FNUZ": 1, "FLOAT8E5M2": 1,
        "FLOAT8E5M2FNUZ": 1, "FLOAT8E8M0": 1}
    for name, size in raw.items():
        tensor = TensorProto(
            name="x", data_type=getattr(TensorProto, name), dims=[2, 3],
            raw_data=pattern(6 * size, name == "BOOL").tobytes())
        numpy_helper.to_array(tensor)  # onnx itself must accept it
        onnx_save("raw_" + name.lower(), tensor)
    fp4 = np.arange(5).astype(np.float32).astype(ml_dtypes.float4_e2m1fn)
    onnx_save("raw_float4e2m1", numpy_helper.from_array(fp4, "x"))
    onnx_typed_files()
    onnx_save("string", helper.make_tensor(
        "s", TensorProto.STRING, [2], [b"a", b"b"]))
    onnx_save("int4", helper.make_tensor("i", TensorProto.INT4, [3],
                                         [-8, 0, 7]))
    onnx_save("scalar", helper.make_tensor("x", TensorProto.FLOAT, [], [1.5]))
    onnx_save("empty", helper.make_tensor("x", TensorProto.FLOAT, [0, 3], []))
    external = TensorProto(name="x", data_type=TensorProto.FLOAT, dims=[2])
    external.data_location = TensorProto.EXTERNAL
    external.external_data.add(key="location", value="../../etc/passwd")
    onnx_save("external", external)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    model = helper.make_model(helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [value], [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])]))
    onnx.save(model, os.path.join(HERE, "onnx", "model.onnx"))


def onnx_typed_files():
    """Values in the number lists, as helper.make_tensor writes them."""
    values = {
        "FLOAT": [1.5, -2.0, 0.25], "DOUBLE": [1.5, -2.0, 1e300],
        "INT8": [-128, 127, -1], "INT16": [-32768, 32767, -1],
        "INT32": [-2**31, 2**31 - 1, -1], "INT64": [-2**63, 2**63 - 1, -1],
        "UINT8": [0, 255, 7], "UINT16": [0, 65535, 7],
        "UINT32": [0, 2**32 - 1, 7], "UINT64": [0, 2**64 - 1, 7],
        "BOOL": [1, 0, 1], "FLOAT16": [1.5, -2.0, 0.25],
        "BFLOAT16": [1.5, -2.0, 0.25], "FLOAT8E4M3FN": [1.5, -2.0, 448.0],
        "FLOAT8E5M2": [1.5, -2.0, 57344.0], "FLOAT8E8M0": [1.0, 2.0, 0.5],
        "FLOAT4E2M1": [0.5, -6.0, 3.0],
        "COMPLEX64": [1 + 2j, -1.5j, 3], "COMPLEX128": [1 + 2j, -1.5j, 3]}
    for name, numbers in values.items():
        tensor = helper.make_tensor(
            "x", getattr(TensorProto, name), [3], numbers)
        assert not tensor.raw_data, name
        onnx_save("typed_" + name.lower(), tensor)


def polygraphy_files():
    from polygraphy.comparator import RunResults
    from polygraphy.json import save_json
    folder = os.path.join(HERE, "polygraphy")
    results = RunResults()
    results.add([{"logits": np.array([[1.5, -2.0]], np.float32),
                  "ids": np.array([2147483647], np.int32)},
                 {"logits": np.array([[0.25, 4.0]], np.float32),
                  "ids": np.array([-1], np.int32)}],
                runtime=0.5, runner_name="onnxrt-runner-N0-08/06/26-12:00:00")
    results.add([{"logits": np.array([[1.5, -2.25]], np.float32)}],
                runner_name="trt-runner")
    results.save(os.path.join(folder, "outputs.json"))
    inputs = [{"x": np.arange(6, dtype=np.float32).reshape(2, 3),
               "half": np.array(1.5, np.float16)},
              {"x": np.zeros((0, 3), np.float32),
               "half": np.array(2.5, np.float16)}]
    save_json(inputs, os.path.join(folder, "inputs.json"))
    save_json(inputs[0]["x"], os.path.join(folder, "bare.json"))
    legacy(folder, inputs[0]["x"])
    try:
        import torch
        save_json([{"t": torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)}],
                  os.path.join(folder, "torch.json"))
    except ImportError:
        print("no torch: torch.json not written")


def legacy(folder, array):
    """The shapes that Polygraphy before 0.27 wrote and still reads."""
    import io
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, array)
    np.savez(npz, array)
    marker = {"__polygraphy_encoded_ndarray": "polygraphy_serialized_json_type"}
    feeds = [{"text": {"array": npy.getvalue().decode("latin-1"), **marker},
              "archive": {"array": npz.getvalue().decode("latin-1"),
                          **marker}},
             {"text": {"array": base64.b64encode(npz.getvalue()).decode(),
                       **marker}}]
    with open(os.path.join(folder, "legacy.json"), "w") as out:
        json.dump(feeds, out)


if __name__ == "__main__":
    for name in ("safetensors", "onnx", "polygraphy"):
        shutil.rmtree(os.path.join(HERE, name), ignore_errors=True)
        os.makedirs(os.path.join(HERE, name))
    safetensors_files()
    onnx_files()
    polygraphy_files()
