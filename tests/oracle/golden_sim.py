#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NumPy simulation of the golden Llama models: what rounding activations and the KV cache costs in logits.

Needs numpy and the gguf package. Usage: golden_sim.py SHARED/golden
Prints the NMSE against the exact logits (1) for llama-gqa-F16 with each type of KV cache: the limits of tests/golden/shared.c come
from here; (2) for each block-quantized model with several ways of rounding activations to 8 bits: what chose the blocks of src/backend/numbers/act.h.
"""
import json
import sys

import numpy as np

from golden_model import KV_TYPES, Model, asymmetric, f16, nmse, same, symmetric


def block_types(rounding):
    """Activations that meet blocks are rounded, others stay."""
    return lambda weight: same if weight in ("F32", "F16", "BF16") else rounding


def main():
    folder = sys.argv[1]
    tokens = json.load(open(folder + "/tokens.json"))

    def error(name, act, kv):
        exact = np.load(f"{folder}/{name}.logits.npy").astype(np.float64)
        return nmse(Model(f"{folder}/{name}.gguf").forward(tokens, block_types(act), kv), exact)

    for name, kv in KV_TYPES.items():
        print(f"KV {name:5} {error('llama-gqa-F16', same, kv):.3g}")
    print("\nmodel    symmetric 256          32          16  asymmetric 256      32")
    for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K"):
        figures = [error("llama-gqa-" + name, f, f16) for f in (symmetric(256), symmetric(32), symmetric(16), asymmetric(256), asymmetric(32))]
        print(f"{name:8}", "  ".join(f"{x:10.3g}" for x in figures))


if __name__ == "__main__":
    main()
