#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What models/shakespeare.gguf says, by NumPy in float64 (golden_model.py) and a tokenizer of a few lines.

    python3 tests/oracle/shakespeare.py models/shakespeare.gguf tests/text/sonnets.txt tests/e2e/shakespeare

Writes DIR/greedy.txt, the likeliest continuation of a prompt, which tests/e2e/run.sh and install.sh expect word for word, and prints the
bits per byte on the text, which tests/e2e/shipped.c expects. No choice on the way is closer than 0.02 between two logits.
"""
import sys

import numpy as np

from golden_model import Model

PROMPT = "Good morrow"
N = 60


class Tokenizer:
    """SentencePiece BPE: of all neighbours that make a piece, those of the best score are joined first."""

    def __init__(self, field):
        self.pieces = field["tokenizer.ggml.tokens"]
        self.scores = field["tokenizer.ggml.scores"]
        self.ids = {p: i for i, p in enumerate(self.pieces)}
        self.prefix = field.get("tokenizer.ggml.add_space_prefix", True)
        self.bos = field["tokenizer.ggml.bos_token_id"]

    def encode(self, text):
        parts = list((("\u2581" if self.prefix else "") + text).replace(" ", "\u2581"))
        while True:
            best = None
            for i in range(len(parts) - 1):
                id = self.ids.get(parts[i] + parts[i + 1])
                if id is not None and (best is None or self.scores[id] > best[0]):
                    best = (self.scores[id], i)
            if best is None:
                break
            parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
        out = []
        for p in parts:
            out += [self.ids[p]] if p in self.ids else [self.ids["<0x%02X>" % b] for b in p.encode()]
        return out

    def decode(self, ids):
        data = b""
        for p in (self.pieces[i] for i in ids):
            data += bytes([int(p[3:5], 16)]) if len(p) == 6 and p.startswith("<0x") else p.encode()
        return data.decode("utf-8", "replace").replace("\u2581", " ")


def surprise(model, tok, ids):
    """In bits; windows of the model's context, each after a beginning-of-sequence token."""
    total = 0.0
    for at in range(0, len(ids), model.n_ctx):
        part = ids[at:at + model.n_ctx]
        y = model.forward([tok.bos] + part[:-1])
        top = y.max(-1)
        total += (top + np.log(np.exp(y - top[:, None]).sum(-1)) - y[np.arange(len(part)), part]).sum()
    return total / np.log(2)


def greedy(model, tok, prompt):
    ids, margin = [tok.bos] + tok.encode(prompt), np.inf
    for _ in range(N):
        y = model.forward(ids)[-1]
        second, first = np.argsort(y)[-2:]
        margin = min(margin, y[first] - y[second])
        ids.append(int(first))
    return tok.decode(ids[1:]), margin


def main():
    path, text_path, folder = sys.argv[1:4]
    model = Model(path)
    tok = Tokenizer(model.field)
    text = open(text_path, encoding="utf-8").read()
    ids = tok.encode(text)
    print("%.4f bits per byte" % (surprise(model, tok, ids) / len(text.encode())))
    said, margin = greedy(model, tok, PROMPT)
    print("the closest choice is %.4f ahead" % margin)
    with open(folder + "/greedy.txt", "w") as f:
        f.write(said + "\n")


main()
