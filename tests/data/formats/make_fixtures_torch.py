"""Writes the .npy, .npz and .pt fixtures of tests/formats.

Needs numpy, ml_dtypes and torch==2.13.0:
    python make_fixtures_torch.py
The values are chosen so that a test can write them down by hand.
"""

import pathlib
import warnings

import ml_dtypes
import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
warnings.simplefilter("ignore")


def npy():
    out = HERE / "npy"
    out.mkdir(exist_ok=True)
    for name in ("f8 f4 f2 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16").split():
        values = np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
        if name[0] == "c":
            values = values + 1j * np.array(6).astype(values.real.dtype)
        np.save(out / f"{name}.npy", values.astype(name))
        if name not in ("i1", "u1", "b1"):
            np.save(out / f"big_{name}.npy", values.astype(">" + name))
    np.save(out / "fortran.npy", np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)))
    np.save(out / "scalar.npy", np.float32(2.5))
    np.save(out / "empty.npy", np.zeros((0, 3), np.float32))
    for name in ("bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1fn").split():
        values = np.array([[0.5, 1.0, -2.0], [3.0, -4.0, 6.0]])
        np.save(out / f"{name}.npy", values.astype(getattr(ml_dtypes, name)))
    np.save(out / "big_void.npy", np.array([1, 2], ">u2").view(">V2"))
    array = np.arange(6, dtype=np.float32)
    for version in ((2, 0), (3, 0)):
        with open(out / f"v{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=version)
    np.save(out / "object.npy", np.array([{}, None], dtype=object))
    np.save(out / "text.npy", np.array(["ab", "c"]))
    np.save(out / "date.npy", np.array(["2026-01-01"], "M8[ns]"))
    np.save(out / "longdouble.npy", np.zeros(2, np.longdouble))
    np.save(out / "struct.npy", np.zeros(2, [("a", "<f4"), ("b", "<i2", (2,))]))
    np.save(out / "struct_object.npy", np.zeros(2, [("a", "<f4"), ("b", "O")]))


def npz():
    out = HERE / "npz"
    out.mkdir(exist_ok=True)
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.asfortranarray(np.arange(6, dtype=">i4").reshape(3, 2))
    c = np.zeros(20000, np.float32)
    np.savez(out / "stored.npz", a=a, b=b, **{"dir/x": a[0], "": np.int64(7)})
    np.savez_compressed(out / "deflated.npz", a=a, b=b, zeros=c)
    np.savez(out / "void.npz", h=np.array([1, -2]).astype(ml_dtypes.bfloat16))


TORCH_DTYPES = (
    "float64 float32 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 "
    "uint32 uint64 bool complex64 complex128 float8_e4m3fn float8_e5m2 "
    "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()


def pt():
    out = HERE / "torch"
    out.mkdir(exist_ok=True)

    def save(value, name, **options):
        torch.save(value, out / f"{name}.pt", **options)

    six = torch.arange(6, dtype=torch.float32)
    for name in TORCH_DTYPES:
        source = [0.5, 1.0, 2.0] if "e8m0" in name else [0, 1, 2]
        save(torch.tensor(source).to(getattr(torch, name)), name)
    fp4 = torch.tensor([[0x21, 0x43], [0x65, 0x87]], dtype=torch.uint8)
    save(fp4.view(torch.float4_e2m1fn_x2), "float4_e2m1fn_x2")
    save(torch.tensor(2.5), "scalar")
    save(torch.zeros(0, 3), "empty")
    save(six.view(2, 3).T, "transposed")
    save(six[1:4], "offset")
    save(six[::2], "every_second")
    save(six[:2].unsqueeze(0).expand(3, 2), "expanded")
    save({"a": six, "b": six.view(2, 3)[1]}, "shared")
    save(torch.nn.Parameter(six.clone()), "parameter")
    parameter = torch.nn.Parameter(six.clone())
    parameter.partition_dim = 1
    save(parameter, "parameter_with_state")
    tensor = six.clone()
    tensor.tag = "x"
    save(tensor, "tensor_with_state")
    save(torch.ones(2, dtype=torch.complex64).conj(), "conjugate")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for number, value in enumerate(model.parameters()):
            value.fill_(number)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.125)
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 7,
        "rate": 0.125,
        "done": True,
        "name": "run",
        "none": None,
        "shape": torch.Size([2, 3]),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
        "z": 1 + 2j,
        "huge": 1 << 70,
        "negative": -3,
        "list": [six[:1], (six[1:2], -70000)],
        3: six[3:4],
    }
    save(checkpoint, "checkpoint")
    save(checkpoint, "checkpoint_protocol4", pickle_protocol=4)
    save(torch.quantize_per_tensor(six, 0.1, 0, torch.qint8), "quantised")
    save({"s": torch.eye(2).to_sparse(), "d": six}, "sparse")
    save("just text", "text")
    save(six.untyped_storage(), "storage")
    save(six, "legacy", _use_new_zipfile_serialization=False)
    save({1, 2}, "set")
    torch.jit.script(torch.nn.Linear(2, 2)).save(out / "script.pt")


if __name__ == "__main__":
    npy()
    npz()
    pt()
