#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Files between Quern and the `safetensors` package (0.8.0), both ways.

    python3 tests/oracle/safetensors_files.py make tests/unit/format/safetensors     writes theirs.safetensors and shards
    python3 tests/oracle/safetensors_files.py check FOLDER                           loads ours-*.safetensors from there

The unit test t_format_safetensors reads `theirs`, writes it again from what it read and asserts the very same bytes; it also
writes ours-mixed and ours-empty into its build folder and asserts that they are the committed files of that name. `check`
loads those (or fresh ones from a build folder) with the package and compares every value. Values are those of value() below.
"""
import ctypes
import json
import os
import struct
import sys

import numpy as np
from safetensors import TensorSpec, deserialize, serialize

# name in the package, NumPy type of the bytes
TYPES = {"BOOL": ("bool", "u1"), "U8": ("uint8", "u1"), "I8": ("int8", "i1"), "I16": ("int16", "<i2"), "F16": ("float16", "<f2"),
         "BF16": ("bfloat16", "<u2"), "I32": ("int32", "<i4"), "F32": ("float32", "<f4"), "F64": ("float64", "<f8"),
         "I64": ("int64", "<i8")}


def value(kind, n):
    """Element i is (7 i + 3) mod 61 - 30 as a number of the type; mod 2 for BOOL, mod 61 for U8."""
    i = np.arange(n, dtype=np.int64)
    v = (7 * i + 3) % 61
    if kind == "BOOL":
        return (v % 2).astype("u1")
    if kind == "U8":
        return v.astype("u1")
    if kind == "BF16":
        return ((v - 30).astype("<f4").view("<u4") >> 16).astype("<u2")
    return (v - 30).astype(TYPES[kind][1])


def pack(tensors, metadata=None):
    specs, keep = {}, []
    for name, (kind, shape) in tensors.items():
        data = value(kind, int(np.prod(shape, dtype=np.int64))).tobytes()
        buf = ctypes.create_string_buffer(data, max(len(data), 1))
        keep.append(buf)
        specs[name] = TensorSpec(dtype=TYPES[kind][0], shape=list(shape), data_ptr=ctypes.addressof(buf), data_len=len(data))
    return bytes(serialize(specs, metadata))


THEIRS = {f"t{i:02d}.{kind.lower()}": (kind, shape) for i, (kind, shape) in enumerate(
    [(k, s) for k in TYPES for s in ((3, 5), (), (0, 4))] + [("F32", (2, 1, 3, 1, 2)), ("I8", (7,)), ("BF16", (1, 9))])}
SHARDS = [{"a.weight": ("F32", (4, 3)), "b.weight": ("BF16", (8,))}, {"c.bias": ("F16", (5,)), "c.weight": ("I64", (2, 2))}]
OURS = {"ours-mixed": {"z": ("I8", (5,)), "y": ("F64", (2, 2)), "x\u00e9\u2581\"\\": ("BF16", (3,)), "m": ("BOOL", (4,)),
                       "f": ("F32", (2, 3)), "s": ("F32", ()), "e": ("F16", (0, 2)), "a": ("I64", (1,))},
        "ours-empty": {}}


def make(folder):
    def write(name, data):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)

    write("theirs.safetensors", pack(THEIRS, {"format": "pt \u00e9\n\"\\\x01"}))
    where = {}
    for i, tensors in enumerate(SHARDS):
        name = f"model-{i + 1:05d}-of-{len(SHARDS):05d}.safetensors"
        write(name, pack(tensors, {"format": "pt", "part": str(i)} if i else {"format": "pt"}))
        where.update({t: name for t in tensors})
    write("model.safetensors.index.json",
          json.dumps({"metadata": {"total_size": 104, "more": [1.5e-3, None]}, "weight_map": where}, indent=2).encode())


def check(folder):
    for name, want in OURS.items():
        raw = open(os.path.join(folder, name + ".safetensors"), "rb").read()
        length = struct.unpack("<Q", raw[:8])[0]
        got = dict(deserialize(raw))
        assert length % 8 == 0 and set(got) == set(want), name
        for t, (kind, shape) in want.items():
            assert got[t]["dtype"] == kind and list(got[t]["shape"]) == list(shape), (name, t, got[t])
            assert bytes(got[t]["data"]) == value(kind, int(np.prod(shape, dtype=np.int64))).tobytes(), (name, t)
        meta = json.loads(raw[8:8 + length]).get("__metadata__")
        assert meta == ({"format": "pt", "note": "line\n\u2581\u0007"} if want else None), meta
        print(name, "loads:", len(want), "tensors")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](sys.argv[2])
