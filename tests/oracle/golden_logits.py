#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/golden/figures.inc: the exact logits of the models of tests/golden/models.def, and what to stay under.

    build/t_golden_golden --write DIR && python3 tests/oracle/golden_logits.py DIR [NAME..] [--keep OLD] > tests/golden/figures.inc
    python3 tests/oracle/golden_logits.py --check FOLDER [NAME..]

With --keep, what a figures.inc of before has for the same bytes is taken from there, and only the rest is computed.

The witness is NumPy in float64 (golden_model.py) on weights that the `gguf` package reads and unpacks (0.19, NumPy 2.4). It was itself
checked with --check against the 17 models that an independent engine computed in float32, on the same tokens: the largest NMSE
between the two is 1.5e-13, which is float32's rounding.

A row of logits is folded to 16 sums, in which every logit stands once, with a sign: sum f has the logits f, f + 16, f + 32 .., added
and taken away in turn. Errors of independent logits add up in it as their squares do, so the NMSE of sums is that of logits, at a
twentieth of the size.

The limit of a model is what rounding costs elsewhere, on the very same file: the mean NMSE, over 8 sequences of tokens, of a simulation
that rounds a product's input to 8 bits in symmetric blocks (32 or 256, by format) or to the 16 bits of its weights, and keys and
values to F16; and a quarter, since one sequence strays by a tenth from the mean. LIMITS has the exceptions. KV_FIGURES are the same
for llama_F16 with nothing but keys and values rounded, by type. `crc` and `size` say which bytes of a file the figures belong to.
"""
import json
import os
import re
import sys
import zlib

import numpy as np

from golden_model import KV_TYPES, Model, bf16, f16, nmse, same, symmetric

FOLDS = 16
BLOCKS_OF_32 = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4", "NVFP4")
# BF16: Quern's products keep 16 bits of both sides.
LIMITS = {"BF16": lambda x: min(x, 5e-6)}
SEQUENCES = 8
EXACT = 1e-11  # float32 in place of float64, and nothing else: 4e-13 to 4e-12


def rounding(weight_type):
    """What a product with weights of this type rounds its other side to elsewhere."""
    if weight_type in ("F32", "F16", "BF16"):
        return {"F32": same, "F16": f16, "BF16": bf16}[weight_type]
    return symmetric(32 if weight_type in BLOCKS_OF_32 else 256)


def fold(logits):
    n = -(-logits.shape[1] // FOLDS) * FOLDS
    padded = np.zeros((logits.shape[0], n))
    padded[:, :logits.shape[1]] = logits
    rows = padded.reshape(logits.shape[0], -1, FOLDS)
    return (rows * (1 - 2 * (np.arange(rows.shape[1]) % 2))[None, :, None]).sum(1)


def cost(model, n_tokens, act, kv):
    """NMSE of logits when this is rounded: the mean over some sequences."""
    random = np.random.default_rng(model.n_layer + model.n_vocab)
    errors = []
    for _ in range(SEQUENCES):
        tokens = random.integers(0, model.n_vocab, n_tokens)
        errors.append(nmse(model.forward(tokens, act, kv), model.forward(tokens)))
    return 1.25 * np.mean(errors)


def check(folder):
    tokens = json.load(open(folder + "/tokens.json"))
    for name in sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".gguf")):
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        model = Model(f"{folder}/{name}.gguf")
        embeds = os.path.exists(f"{folder}/{name}.embd.npy")
        exact = np.load(f"{folder}/{name}.embd.npy" if embeds else f"{folder}/{name}.logits.npy").astype(np.float64)
        have = model.dense(model.hidden(tokens)) if embeds else model.logits(tokens)
        if embeds and model.get("pooling_type"):
            exact_pooled = np.load(f"{folder}/{name}.pool{model.get('pooling_type')}.npy").astype(np.float64)
            print(f"{name:20} NMSE of what is pooled {nmse(model.pooled(tokens), exact_pooled.ravel()):.2g}")
        print(f"{name:20} NMSE of all logits {nmse(have, exact):.2g}, of the sums {nmse(fold(have), fold(exact)):.2g}")


def kept(path):
    """What a figures.inc has, by name, CRC and size: the text of FIGURES and of what follows up to the next."""
    parts = re.split(r"^(?=FIGURES\()", open(path).read(), flags=re.M)[1:]
    return {re.match(r"FIGURES\((\w+), (\w+), (\d+),", part).groups(): part for part in parts}


def main():
    if sys.argv[1] == "--check":
        return check(sys.argv[2])
    folder = sys.argv[1]
    names, have = sys.argv[2:], {}
    if "--keep" in names:
        have = kept(names[names.index("--keep") + 1])
        del names[names.index("--keep"):]
    order = json.load(open(folder + "/models.json"))
    print("/* SPDX-License-Identifier: MIT */")
    print("/* tests/golden/figures.inc -- written by tests/oracle/golden_logits.py with NumPy %s. */" % np.__version__)
    for name in names or order["names"]:
        path = f"{folder}/{name}.gguf"
        data = open(path, "rb").read()
        part = have.get((name, "0x%08xu" % zlib.crc32(data), str(len(data))))
        if part:
            print(part, end="")
            continue
        model = Model(path)
        sums = fold(model.forward(order["tokens"]))
        n = len(order["tokens"])
        limit = EXACT if name in order["exact"] else LIMITS.get(model.type.get("blk.0.ffn_up.weight", model.type.get("blk.0.ffn_up_exps.weight")), same)(cost(model, n, rounding, f16))
        print("FIGURES(%s, 0x%08xu, %d, %.2g," % (name, zlib.crc32(data), len(data), limit))
        for row in sums.reshape(-1, 8):
            print("    " + " ".join("%.7g," % x for x in row))
        print(")")
        if name == "llama_F16":
            for kv, f in KV_TYPES.items():
                print("KV_FIGURES(%s, %.2g)" % (kv, cost(model, n, None, f)))


if __name__ == "__main__":
    main()
