"""Writes the reference vectors beside this file.

    python make_fixtures.py [ORACLE_DIR]

Needs numpy and ml_dtypes. ORACLE_DIR holds fmt_*.npz and
mxfp8_scale_table.npz, made with the CUDA 13 host conversion headers; without
it only the ml_dtypes vectors are rewritten.

oracle_<file>.<array>.bin   the arrays as they are, little-endian
decode_<dtype>.bin          float32 value of every code, from ml_dtypes
grid_<source>_<dtype>.txt   all 65,536 codes of the 16-bit source, converted:
                            "first nosat sat", hex, one line per run of equal
                            results, in the order of the source codes;
                            the test names the codes that are left out
random_<dtype>.bin          float64 inputs; .code.bin their codes (not
                            saturating), from ml_dtypes or numpy
checksum.txt                per 16-bit dtype: sum over codes of (code + 1) *
                            float32 bits of its value, modulo 2^64; NaN
                            counts as 7fc00000
"""

import pathlib
import sys

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
SMALL = {
    "e4m3fn": (ml_dtypes.float8_e4m3fn, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 0x7F),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 0x80),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 0x80),
    "e2m1": (ml_dtypes.float4_e2m1fn, None),
    "e8m0": (ml_dtypes.float8_e8m0fnu, 0xFF),
}
WIDE = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def write_oracle(directory):
    for path in [*sorted(directory.glob("fmt_*.npz")),
                 directory / "mxfp8_scale_table.npz"]:
        for name, array in np.load(path, allow_pickle=False).items():
            array.tofile(HERE / f"oracle_{path.stem}.{name}.bin")


def write_decode():
    for name, (dtype, _) in SMALL.items():
        count = 16 if name == "e2m1" else 256
        codes = np.arange(count, dtype=np.uint8).view(dtype)
        codes.astype(np.float32).tofile(HERE / f"decode_{name}.bin")


def encode(x, name, saturate):
    """Codes of float64 x; a NaN gives the NaN code without sign."""
    dtype, nan_code = SMALL[name]
    nan = np.isnan(x)
    if saturate:
        info = ml_dtypes.finfo(dtype)
        low = info.smallest_normal if name == "e8m0" else -float(info.max)
        x = np.where(nan, x, np.clip(x, float(low), float(info.max)))
    codes = x.astype(dtype).view(np.uint8)
    if nan_code is not None:
        codes = np.where(nan, np.uint8(nan_code), codes)
    return codes


def write_grid(source):
    x = np.arange(65536, dtype=np.uint16).view(WIDE[source])
    x = x.astype(np.float64)
    keep = np.ones(65536, bool)
    for name in SMALL:
        if name == "e2m1":
            keep = ~np.isnan(x)  # ml_dtypes and CUDA disagree on its NaN
        if name == "e8m0":
            # Negative is no scale; and in the lowest binade ml_dtypes 0.6
            # rounds everything up, 1.01 * 2^-127 too.
            keep = ~(x < 0) & ~((x > 2.0**-127) & (x < 2.0**-126))
        pairs = np.stack([encode(x, name, False), encode(x, name, True)], 1)
        lines, last = [], None
        for code in np.flatnonzero(keep):
            pair = tuple(int(v) for v in pairs[code])
            if pair != last or not keep[code - 1]:
                lines.append(f"{code:04x} {pair[0]:02x} {pair[1]:02x}\n")
            last = pair
        (HERE / f"grid_{source}_{name}.txt").write_text("".join(lines))
        keep = np.ones(65536, bool)


def write_random(rng):
    for name in [*SMALL, "f16"]:
        dtype = np.float16 if name == "f16" else SMALL[name][0]
        info = ml_dtypes.finfo(dtype)
        low = np.log2(float(info.smallest_subnormal))
        low = -126 if name == "e8m0" else low - 2
        high = np.log2(float(info.max)) + 1
        x = np.exp2(rng.uniform(low, high, 400))
        if name != "e8m0":
            x *= rng.choice([-1.0, 1.0], 400)
        codes = (x.astype(dtype).view(np.uint16) if name == "f16"
                 else encode(x, name, False))
        x.tofile(HERE / f"random_{name}.bin")
        codes.tofile(HERE / f"random_{name}.code.bin")


def write_checksums():
    lines = []
    for name, dtype in WIDE.items():
        value = np.arange(65536, dtype=np.uint16).view(dtype)
        value = value.astype(np.float32)
        bits = np.where(np.isnan(value), 0x7FC00000, value.view(np.uint32))
        total = sum((i + 1) * int(b) for i, b in enumerate(bits))
        lines.append(f"{name} {total % 2**64:016x}\n")
    (HERE / "checksum.txt").write_text("".join(lines))


if __name__ == "__main__":
    np.seterr(all="ignore")
    if len(sys.argv) > 1:
        write_oracle(pathlib.Path(sys.argv[1]))
    write_decode()
    for wide in WIDE:
        write_grid(wide)
    write_random(np.random.default_rng(20260101))
    write_checksums()
