# SPDX-License-Identifier: MIT
"""Prints tests/unit/quant/unpack_figures.h: hashes of what random blocks unpack to, and of conversions to 16-bit floats.

    python tests/oracle/quant_unpack.py > tests/unit/quant/unpack_figures.h

Witnesses: the NumPy code of the `gguf` package (the committed figures are from 0.19.0 with NumPy 2.4) for block formats and
bfloat16, NumPy itself for binary16.
"""
import sys

import gguf
import numpy as np

RANDOM_BLOCKS = 1024

# Offsets of the high bytes of binary16 scales in a block: bit 14 is cleared there, so that every scale is finite and below 2.
SCALE_BYTES = {
    "Q4_0": [1], "Q4_1": [1, 3], "Q5_0": [1], "Q5_1": [1, 3], "Q8_0": [1], "Q2_K": [81, 83], "Q3_K": [109], "Q4_K": [1, 3],
    "Q5_K": [1, 3], "Q6_K": [209], "IQ2_XXS": [1], "IQ2_XS": [1], "IQ2_S": [1], "IQ3_XXS": [1], "IQ3_S": [1], "IQ1_S": [1],
    "IQ1_M": [55], "IQ4_NL": [1], "IQ4_XS": [1], "TQ1_0": [53], "TQ2_0": [65], "MXFP4": [], "NVFP4": [],
}


def splitmix(z: np.ndarray) -> np.ndarray:
    """The first number of the splitmix64 generators seeded with z."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def words(seed: int, n: int) -> np.ndarray:
    """The first n numbers of one generator."""
    return splitmix(np.uint64(seed) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def hash_bits(bits: np.ndarray) -> int:
    places = np.arange(bits.size, dtype=np.uint64) << np.uint64(32)
    return int(splitmix(bits.astype(np.uint64) | places).sum(dtype=np.uint64))


def block_line(name: str) -> str:
    qtype = gguf.GGMLQuantizationType[name]
    _, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    total = RANDOM_BLOCKS * block_bytes
    data = words(int(qtype), (total + 7) // 8).view(np.uint8)[:total].reshape(RANDOM_BLOCKS, block_bytes).copy()
    for offset in SCALE_BYTES[name]:
        data[:, offset] &= 0xBF
    values = gguf.quants.dequantize(data, qtype).astype(np.float32).ravel()
    return '    {"%s", 0x%016xu},' % (name, hash_bits(values.view(np.uint32)))


def main() -> None:
    np.seterr(all="ignore")

    halves = np.arange(65536, dtype=np.uint16)
    not_nan = (halves & 0x7FFF) <= 0x7C00
    widened = np.where(not_nan, halves, 0).astype(np.uint16).view(np.float16).astype(np.float32)
    # Random bits, and random bits with exponents near the range of binary16, NaNs replaced by 0.
    bits = words(5, 1 << 19).view(np.uint32).copy()
    bits[1::2] = (bits[1::2] & 0x8FFFFFFF) | 0x30000000
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0
    floats = bits.view(np.float32)
    bf16 = gguf.quants.quantize(floats.reshape(1, -1), gguf.GGMLQuantizationType.BF16).view(np.uint16).ravel()

    print("/* SPDX-License-Identifier: MIT */")
    print("/* tests/unit/quant/unpack_figures.h -- written by tests/oracle/quant_unpack.py, which says what was hashed. */")
    print("static const struct unpack_figure {\n    const char *name;\n    uint64_t hash;\n} unpack_figures[] = {")
    for name in SCALE_BYTES:
        print(block_line(name))
    print("};")
    print("#define HASH_F16_TO_F32 0x%016xu" % hash_bits(widened.view(np.uint32)))
    print("#define HASH_F32_TO_F16 0x%016xu" % hash_bits(floats.astype(np.float16).view(np.uint16)))
    print("#define HASH_F32_TO_BF16 0x%016xu" % hash_bits(bf16))


if __name__ == "__main__":
    sys.exit(main())
