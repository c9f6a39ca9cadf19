# SPDX-License-Identifier: MIT
"""What tests/golden/lens.c compares the lens with: what each layer of a Llama says at each token, where its heads look, and what one
value of another text does to the difference of two logits; in NumPy in float64 (the forward pass of taps.py).

    build/t_golden_lens --write MODEL.gguf && python tests/oracle/lens.py MODEL.gguf > tests/golden/lens_figures.inc
"""
import sys

import numpy as np
from taps import Model, some, wrapped

N = 6


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def main(path):
    model = Model(path)
    tokens = [(i * i * 31 + i * 97 + 1) % 320 for i in range(N)]
    other = [(t * 7 + 3) % 320 for t in tokens]
    values = model.forward(tokens)
    weights = model.weights
    out = model.w.get("output.weight", model.w["token_embd.weight"])
    print("/* tests/golden/lens_figures.inc -- written by tests/oracle/lens.py. */")
    print("/* PLACE(layer, token, most likely, rank of what came, entropy in bits, p of these two, rms, channel) */")
    came = tokens[1:] + [int(values["logits"][-1].argmax())]
    for i in range(model.n_layer):
        x = values[f"ffn_res-{i}"]
        logits = model.norm(x, "output_norm.weight") @ out.T
        p = softmax(logits)
        for t in range(N):
            rank = 1 + int((logits[t] > logits[t, came[t]]).sum())
            entropy = -(p[t] * np.log2(p[t])).sum()
            print(f"PLACE({i}, {t}, {logits[t].argmax()}, {rank}, {entropy:.9g}, {p[t].max():.9g}, {p[t, came[t]]:.9g}, "
                  f"{np.sqrt((x[t] ** 2).mean()):.9g}, {np.abs(x[t]).argmax()})")
    print("/* HEAD(layer, head, rows of tokens) */")
    for i in range(model.n_layer):
        for h in range(model.n_head):
            wrapped(f"HEAD({i}, {h}, {{", weights[i][h].ravel())
    theirs = model.forward(other)
    a, b = int(theirs["logits"][-1].argmax()), int(values["logits"][-1].argmax())
    diff = lambda v: v["logits"][-1, a] - v["logits"][-1, b]
    print("/* GRID(value, words, of the other text, of this one, layer by token) */")
    for value, role in (("resid_post", "ffn_res"), ("mlp_out", "ffn_out")):
        grid = []
        for i in range(model.n_layer):
            for t in range(N):
                at = f"{role}-{i}"
                change = lambda name, x: some(t, t, lambda y: theirs[at][t:t + 1])(x) if name == at else x
                grid.append(diff(model.forward(tokens, change)))
        wrapped(f'GRID("{value}", {{{a}, {b}}}, {diff(theirs):.9g}, {diff(values):.9g}, {{', grid)


main(*sys.argv[1:])
