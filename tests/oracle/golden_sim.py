#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NumPy simulation of the golden Llama models: what rounding activations and the KV cache costs in logits.

Needs numpy and the gguf package. Usage: golden_sim.py SHARED/golden
Prints the NMSE against the exact logits (1) for llama-gqa-F16 with each type of KV cache: the limits of tests/golden/golden.c come
from here; (2) for each block-quantized model with several ways of rounding activations to 8 bits: what chose the blocks of src/cpu/kernel/act.h.
"""
import json
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

F32 = np.float32


def divide(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def symmetric(block):
    """One scale a block, largest magnitude to 127."""
    def f(x):
        b = x.astype(F32).reshape(x.shape[0], -1, block)
        d = np.abs(b).max(-1, keepdims=True) / F32(127)
        return (np.clip(np.rint(divide(b, d)), -127, 127) * d).astype(np.float64).reshape(x.shape)
    return f


def asymmetric(block):
    """Scale and whole zero point: [min(x,0), max(x,0)] cut into 254 steps. What qn_act32 and qn_act256 are."""
    def f(x):
        b = x.astype(F32).reshape(x.shape[0], -1, block)
        lo, hi = np.minimum(b.min(-1, keepdims=True), 0), np.maximum(b.max(-1, keepdims=True), 0)
        d = (hi - lo) / F32(254)
        zero = np.rint(-127 - divide(lo, d))
        q = np.clip(np.rint(divide(b, d)) + zero, -127, 127)
        return ((q - zero) * d).astype(np.float64).reshape(x.shape)
    return f


def kv_f16(x):
    return x.astype(np.float16).astype(np.float64)


def kv_bf16(x):
    u = x.astype(F32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000).astype(np.uint32).view(F32).astype(np.float64)


def kv_q8_0(x):
    b = x.reshape(-1, 32).astype(F32)
    d = np.abs(b).max(-1, keepdims=True) / F32(127)
    q = np.rint(b * divide(np.ones_like(d), d))
    return (q * d.astype(np.float16).astype(F32)).astype(np.float64).reshape(x.shape)


def kv_blocks(name):
    """As the gguf package packs and unpacks blocks of that type."""
    def f(x):
        rows = x.reshape(x.shape[0], -1).astype(F32)
        return dequantize(quantize(rows, Type[name]), Type[name]).astype(np.float64).reshape(x.shape)
    return f


class Model:
    def __init__(self, folder, name):
        reader = gguf.GGUFReader(f"{folder}/{name}.gguf")
        get = lambda key: reader.fields["llama." + key].contents()
        self.n_layer, self.n_head, self.n_kv = get("block_count"), get("attention.head_count"), get("attention.head_count_kv")
        self.eps, self.base = get("attention.layer_norm_rms_epsilon"), get("rope.freq_base")
        self.head = get("attention.key_length")
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1]) for t in reader.tensors}
        self.type = {t.name: t.tensor_type.name for t in reader.tensors}
        self.tokens = json.load(open(f"{folder}/tokens.json"))
        self.exact = np.load(f"{folder}/{name}.logits.npy").astype(np.float64)

    def forward(self, act, kv):
        w, head, n = self.w, self.head, len(self.tokens)

        def product(x, name):
            return (x if self.type[name] in ("F32", "F16", "BF16") else act(x)) @ w[name].T

        def norm(x, name):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * w[name]

        angle = np.arange(n)[:, None] * self.base ** (-np.arange(0, head, 2) / head)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

        def rope(x):
            y = np.empty_like(x)
            y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
            y[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
            return y

        mask = np.where(np.tri(n) > 0, 0, -np.inf)
        h = w["token_embd.weight"][self.tokens]
        for i in range(self.n_layer):
            p = f"blk.{i}."
            x = norm(h, p + "attn_norm.weight")
            q = rope(product(x, p + "attn_q.weight").reshape(n, self.n_head, head))
            k = kv(rope(product(x, p + "attn_k.weight").reshape(n, self.n_kv, head)))
            v = kv(product(x, p + "attn_v.weight").reshape(n, self.n_kv, head))
            group = self.n_head // self.n_kv
            s = np.einsum("qhd,khd->hqk", q, k.repeat(group, 1)) / np.sqrt(head) + mask
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            o = np.einsum("hqk,khd->qhd", s, v.repeat(group, 1)).reshape(n, -1)
            h = h + product(o, p + "attn_output.weight")
            x = norm(h, p + "ffn_norm.weight")
            gate, up = product(x, p + "ffn_gate.weight"), product(x, p + "ffn_up.weight")
            h = h + product(gate / (1 + np.exp(-gate)) * up, p + "ffn_down.weight")
        return product(norm(h, "output_norm.weight"), "output.weight")

    def nmse(self, act, kv):
        y = self.forward(act, kv)
        return ((y - self.exact) ** 2).sum() / (self.exact ** 2).sum()


def main():
    folder = sys.argv[1]
    same = lambda x: x
    model = Model(folder, "llama-gqa-F16")
    for name, kv in (("F32", same), ("F16", kv_f16), ("BF16", kv_bf16), ("Q8_0", kv_q8_0), *((t, kv_blocks(t)) for t in ("Q5_1", "Q5_0", "Q4_1", "Q4_0"))):
        print(f"KV {name:5} {model.nmse(same, kv):.3g}")
    print("\nmodel    symmetric 256          32          16  asymmetric 256      32")
    for name in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "IQ4_XS", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K"):
        model = Model(folder, "llama-gqa-" + name)
        figures = [model.nmse(f, kv_f16) for f in (symmetric(256), symmetric(32), symmetric(16), asymmetric(256), asymmetric(32))]
        print(f"{name:8}", "  ".join(f"{x:10.3g}" for x in figures))


if __name__ == "__main__":
    main()
