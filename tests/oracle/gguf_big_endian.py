#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes unit/format/big_endian_blocks.h: blocks as a big-endian file has them, and the values that they stand for.

The witness is the gguf package's numpy decoder, made to run as if on a big-endian machine: its source is loaded with every
`.view(np.uint16)` and the like reading big-endian numbers. So the expected values depend on which fields that decoder loads
as 16- or 32-bit numbers, not on our table of them. Needs the gguf package (0.19 was used) and numpy; the tests need neither.
"""
import os
import re
import types

import gguf.quants
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

NAMES = """BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS IQ1_M
TQ1_0 TQ2_0 MXFP4 NVFP4""".split()


def big_endian_decoder():
    with open(gguf.quants.__file__) as f:
        source = f.read()
    kinds = {"float16": ">f2", "uint16": ">u2", "int16": ">i2", "uint32": ">u4"}
    head, tail = source.split("class IQ1_M(")
    iq1_m, tail = tail.split("class IQ4_NL(")
    turn = lambda text, names: re.sub(r"\.view\(np\.(%s)\)" % names, lambda m: f'.view(np.dtype("{kinds[m[1]]}"))', text)
    # IQ1_M puts its scale together from bits of the (already loaded) numbers: that view is of a computed value.
    source = turn(head, "float16|uint16|int16|uint32") + "class IQ1_M(" + turn(iq1_m, "uint16|uint32") + "class IQ4_NL(" + turn(
        tail, "float16|uint16|int16|uint32")
    module = types.ModuleType("gguf.quants_big_endian")
    module.__package__ = "gguf"
    exec(compile(source, "quants_big_endian", "exec"), module.__dict__)
    return module


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def main():
    big = big_endian_decoder()
    rng = np.random.default_rng(20240229)
    rows = []
    for name in NAMES:
        kind = GGMLQuantizationType[name]
        block, size = GGML_QUANT_SIZES[kind]
        n_blocks = 8 if name == "BF16" else 2
        while True:
            data = rng.integers(0, 256, n_blocks * size, dtype=np.uint8)
            with np.errstate(all="ignore"):
                values = big.dequantize(data.reshape(1, -1), kind).astype("<f4").ravel()
                native = gguf.quants.dequantize(data.reshape(1, -1), kind).astype("<f4").ravel()
            if np.isfinite(values).all() and np.abs(values).max() > 0:
                break
        if name not in ("MXFP4", "NVFP4"):
            assert values.tobytes() != native.tobytes(), name  # the order matters, so the test can fail
        first = ", ".join(re.sub(r"\.?0*p", "p", float(v).hex()) + "f" for v in values[:4])
        lines = [", ".join(f"0x{b:02x}" for b in data[i:i + 20]) for i in range(0, len(data), 20)]
        rows.append(f"    {{QN_DTYPE_{name}, {n_blocks}, UINT64_C(0x{fnv(values.tobytes()):016x}), {{{first}}},\n     {{"
                    + ",\n      ".join(lines) + "}},\n")
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "unit", "format", "big_endian_blocks.h"), "w", newline="\n") as f:
        f.write("/* SPDX-License-Identifier: MIT */\n"
                "/* tests/unit/format/big_endian_blocks.h -- written by tests/oracle/gguf_big_endian.py: blocks in big-endian order; the\n"
                " * FNV-1a hash of the float32 values (little-endian bytes) that they stand for; the first four of those. */\n"
                "static const struct { qn_dtype dtype; int n_blocks; uint64_t hash; float first[4]; uint8_t bytes[420]; } "
                "big_endian_blocks[] = {\n" + "".join(rows) + "};\n")


if __name__ == "__main__":
    main()
