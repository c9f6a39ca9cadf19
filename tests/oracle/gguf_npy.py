#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unit/format/npy_files.h: whole .npy files as NumPy saves them, for tests/unit/format/npy.c. Needs numpy and ml_dtypes."""
import io
import os

import ml_dtypes
import numpy as np


def saved(array, version=None):
    f = io.BytesIO()
    np.lib.format.write_array(f, array, version=version)
    return f.getvalue()


def main():
    values = np.array([1.5, -0.25, 3e38, 0, 7, -1])
    whole = np.array([1, -2, 2147483647, 0, -2147483648, 77])
    files = [
        ("f32_2x3", saved(values.astype("<f4").reshape(2, 3))),
        ("f32_big", saved(values.astype(">f4").reshape(2, 3))),
        ("f32_v2", saved(values.astype("<f4").reshape(2, 3), (2, 0))),
        ("f32_v3", saved(values.astype("<f4").reshape(2, 3), (3, 0))),
        ("i32_6", saved(whole.astype("<i4"))),
        ("i32_big", saved(whole.astype(">i4"))),
        ("i64_1x6x1", saved(whole.astype("<i8").reshape(1, 6, 1))),
        ("i64_big", saved(whole.astype(">i8").reshape(1, 6, 1))),
        ("f32_scalar", saved(np.array(2.5, "<f4"))),
        ("f32_empty", saved(np.zeros((3, 0, 2), "<f4"))),
        ("f32_rank8", saved(values.astype("<f4").reshape(1, 1, 2, 1, 3, 1, 1, 1))),
        ("fortran", saved(np.asfortranarray(values.astype("<f4").reshape(2, 3)))),
        ("fortran_rank3", saved(np.asfortranarray(np.arange(24, dtype="<i2").reshape(2, 3, 4)))),
        ("f64", saved(values)),
        ("f64_big", saved(values.astype(">f8"))),
        ("f16", saved(values.clip(-9, 9).astype("<f2"))),
        ("bf16", saved(values.astype(ml_dtypes.bfloat16))),
        ("i8", saved((whole % 251 - 100).astype("<i1"))),
        ("i16", saved((whole % 30011).astype("<i2"))),
        ("u8", saved((whole % 251).astype("u1"))),
        ("bools", saved(np.array([True, False, False, True, True, True]))),
        ("complex", saved(np.zeros(2, "<c8"))),
        ("u2", saved(np.zeros(2, "<u2"))),
        ("record", saved(np.zeros(2, [("a", "<f4"), ("b", "<i4")]))),
        ("rank9", saved(np.zeros((1,) * 9, "<f4"))),
    ]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "unit", "format", "npy_files.h"), "w", newline="\n") as f:
        f.write("/* SPDX-License-Identifier: MIT */\n/* tests/unit/format/npy_files.h -- written by tests/oracle/gguf_npy.py: "
                "files as NumPy %s saves them. */\n" % np.__version__)
        for name, data in files:
            lines = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
            f.write(f"static const uint8_t npy_{name}[] = {{\n    " + ",\n    ".join(lines) + "};\n")


if __name__ == "__main__":
    main()
