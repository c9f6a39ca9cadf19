# SPDX-License-Identifier: MIT
"""What tests/unit/engine/tap.c compares values with: the forward pass of a Llama and of a mixture, every value of it by its name
(docs/TRACING.md), in NumPy in float64, from the papers; and logits after a value was changed.

    build/t_engine_tap --write DIR && python tests/oracle/taps.py DIR STORIES.gguf > tests/unit/engine/tap_figures.inc
"""
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

FOLDS = 4


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        field = {name: f.contents() for name, f in reader.fields.items()}
        self.arch = field["general.architecture"]
        self.get = lambda key, default=None: field.get(self.arch + "." + key, default)
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64) for t in reader.tensors}
        self.n_layer, self.n_head = self.get("block_count"), self.get("attention.head_count")
        self.n_kv = self.get("attention.head_count_kv", self.n_head)
        self.head = self.get("attention.key_length", self.get("embedding_length") // self.n_head)
        self.eps, self.base = self.get("attention.layer_norm_rms_epsilon"), self.get("rope.freq_base", 1e4)

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w[name]

    def turn(self, x):
        """Pairs of neighbours (llama), or of the two halves."""
        pos, half = np.arange(x.shape[0]), self.head // 2
        angle = pos[:, None] * self.base ** (-np.arange(half) / half)
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        a, b = (x[..., 0::2], x[..., 1::2]) if self.arch == "llama" else (x[..., :half], x[..., half:])
        y = np.empty_like(x)
        first, second = a * cos - b * sin, a * sin + b * cos
        if self.arch == "llama":
            y[..., 0::2], y[..., 1::2] = first, second
        else:
            y[..., :half], y[..., half:] = first, second
        return y

    def forward(self, tokens, change=lambda name, x: x):
        """Every value by name; change(name, x) is what a tap makes of one."""
        values = {}
        self.weights = []  # of each layer what heads give tokens to look at: [n_head, n, n]

        def named(role, i, x):
            name = role if i < 0 else f"{role}-{i}"
            values[name] = change(name, x)
            return values[name]

        n, w = len(tokens), self.w
        x = named("embd", -1, w["token_embd.weight"][tokens])
        for i in range(self.n_layer):
            p = f"blk.{i}."
            h = named("attn_norm", i, self.norm(x, p + "attn_norm.weight"))
            q = (h @ w[p + "attn_q.weight"].T).reshape(n, self.n_head, self.head)
            k = (h @ w[p + "attn_k.weight"].T).reshape(n, self.n_kv, self.head)
            if p + "attn_q_norm.weight" in w:
                q, k = self.norm(q, p + "attn_q_norm.weight"), self.norm(k, p + "attn_k_norm.weight")
            q, k = named("q", i, self.turn(q)), named("k", i, self.turn(k))
            v = named("v", i, h @ w[p + "attn_v.weight"].T)
            scores = np.einsum("nhd,mhd->hnm", q, np.repeat(k, self.n_head // self.n_kv, 1)) / np.sqrt(self.head)
            scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            v = np.repeat(v.reshape(n, self.n_kv, self.head), self.n_head // self.n_kv, 1)
            self.weights.append(e / e.sum(-1, keepdims=True))
            y = named("attn", i, np.einsum("hnm,mhd->nhd", self.weights[i], v).reshape(n, -1))
            x = named("attn_res", i, x + named("attn_out", i, y @ w[p + "attn_output.weight"].T))
            h = named("ffn_norm", i, self.norm(x, p + "ffn_norm.weight"))
            x = named("ffn_res", i, x + self.feed_forward(named, i, p, h))
        x = named("norm", -1, self.norm(x, "output_norm.weight"))
        named("logits", -1, x @ w.get("output.weight", w["token_embd.weight"]).T)
        return values

    def feed_forward(self, named, i, p, h):
        silu = lambda x: x / (1 + np.exp(-x))
        w = self.w
        if p + "ffn_gate_inp.weight" not in w:
            gate, up = named("ffn_gate", i, h @ w[p + "ffn_gate.weight"].T), named("ffn_up", i, h @ w[p + "ffn_up.weight"].T)
            return named("ffn_out", i, named("ffn_act", i, silu(gate) * up) @ w[p + "ffn_down.weight"].T)
        logits = named("ffn_moe_logits", i, h @ w[p + "ffn_gate_inp.weight"].T)
        e = np.exp(logits - logits.max(-1, keepdims=True))
        probs = named("ffn_moe_probs", i, e / e.sum(-1, keepdims=True))
        ids = named("ffn_moe_topk", i, np.argsort(-probs, -1, kind="stable")[:, :self.get("expert_used_count")])
        gates = np.take_along_axis(probs, ids, -1)
        gates = named("ffn_moe_weights", i, gates / gates.sum(-1, keepdims=True))
        of = lambda kind, x: np.einsum("nuk,numk->num", x, w[p + kind + "_exps.weight"][ids])
        x = np.repeat(h[:, None, :], ids.shape[1], 1)
        gate, up = named("ffn_moe_gate", i, of("ffn_gate", x)), named("ffn_moe_up", i, of("ffn_up", x))
        y = named("ffn_moe_down", i, of("ffn_down", named("ffn_moe_act", i, silu(gate) * up)))
        return named("ffn_moe_out", i, (gates[..., None] * y).sum(1))


def fold(x):
    """Of every token the sums f, f + FOLDS, f + 2 FOLDS .., added and taken away in turn."""
    x = x.reshape(x.shape[0], -1)
    sign = np.where(np.arange(x.shape[1]) // FOLDS % 2, -1.0, 1.0)
    return np.stack([(x * sign)[:, f::FOLDS].sum(-1) for f in range(FOLDS)], -1)


def vector(n):
    return ((np.arange(n) * 37) % 19 - 9) / 8


def rows(n, width):
    return (((np.arange(n)[:, None] * width + np.arange(width)) * 29) % 23 - 11) / 16


def only(name, f):
    return lambda at, x: f(x) if at == name else x


def some(first, last, f):
    def g(x):
        y = x.copy()
        y[first:last + 1] = f(x[first:last + 1])
        return y
    return g


def changes(model, tokens):
    """The taps that tap.c sets, by the same texts."""
    n, width = len(tokens), model.get("embedding_length")
    other = model.forward([(t * 7 + 3) % 320 for t in tokens])
    yield "ffn_out-0=zero", only("ffn_out-0", np.zeros_like)
    yield "z-1=scale=-1.5", only("attn-1", lambda x: x * -1.5)
    yield "v-0@1-2=zero", only("v-0", some(1, 2, np.zeros_like))
    yield "resid_post-0@3-=add=vector.npy:2", only("ffn_res-0", some(3, n, lambda x: x + 2 * vector(width)))
    yield "resid_mid-1=replace=rows.npy", only("attn_res-1", lambda x: rows(n, width))
    yield "resid_pre-1@2=patch=other", only("ffn_res-0", some(2, 2, lambda x: other["ffn_res-0"][2:3]))


def show(numbers):
    return ", ".join(f"{x:.9g}f" if "." in f"{x:.9g}" or "e" in f"{x:.9g}" else f"{x:.9g}.0f" for x in numbers)


def wrapped(head, numbers, end="})"):
    line = head
    for number in show(numbers).split(", "):
        if len(line) + len(number) + 2 > 118:
            print(line.rstrip())
            line = "     "
        line += number + ", "
    print(line.rstrip(", ") + end)


def main(folder, stories):
    tokens = [(i * i * 31 + i * 97 + 1) % 320 for i in range(6)]
    print("/* tests/unit/engine/tap_figures.inc -- written by tests/oracle/taps.py.")
    print(" * VALUES(model, name, sums of each token); CHANGED(model, tap, the same of the logits). */")
    for name, path in (("dense", f"{folder}/dense.gguf"), ("experts", f"{folder}/experts.gguf"), ("stories", stories)):
        model = Model(path)
        for value, x in model.forward(tokens).items():
            wrapped(f'VALUES({name}, "{value}", {{', fold(x.astype(np.float64)).ravel())
        for tap, change in changes(model, tokens) if name == "dense" else ():
            wrapped(f'CHANGED({name}, "{tap}", {{', fold(model.forward(tokens, change)["logits"]).ravel())


if __name__ == "__main__":
    main(*sys.argv[1:])
