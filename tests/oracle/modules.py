#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Outputs and gradients of PyTorch's modules, in double precision, for the cases of tests/unit/nn/cases.inc: writes figures.inc beside it.

    python3 tests/oracle/modules.py tests/unit/nn

FIGURES(case, "y", ..) is the result; with a parameter's path or "x0", "x1" .. the gradient there of the sum of the result times fixed numbers.
The parameters of a case are numbered in order, and have the values of that number."""
import re
import sys

import torch
import torch.nn.functional as F
from torch.func import functional_call
from torch import nn


def unit(k, s):
    return ((k * 37 + s * 11 + 5) % 101 + 0.3) / 101


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def numbers(shape, s, grad=True):
    x = torch.tensor([2 * unit(k, s) - 1 for k in range(count(shape))], dtype=torch.float32).double().reshape(shape)
    return x.requires_grad_() if grad else x


def fill(word, s):
    if word == "-":
        return None
    shape, _, below = word[1:].partition(":")
    shape = [int(d) for d in shape.split(",")]
    if word[0] == "r":
        return numbers(shape, s)
    if word[0] == "m":
        return torch.tensor([(k * 5 + s) % 3 != 0 for k in range(count(shape))]).reshape(shape)
    return torch.tensor([(k * 7 + s * 3 + 1) % int(below) for k in range(count(shape))]).reshape(shape)






def same(module):
    """A module of PyTorch whose parameters have our names."""
    module = module.double()
    params = {n: list(p.shape) for n, p in module.named_parameters()}
    return params, lambda p, x: functional_call(module, p, tuple(x))


def mha_params(embd, k=None, v=None, kv=None, bias=True):
    p = {}
    for name, inner, outer in (("q_proj", embd, embd), ("k_proj", k or embd, kv or embd), ("v_proj", v or embd, kv or embd), ("out_proj", embd, embd)):
        p[name + ".weight"] = [outer, inner]
        if bias:
            p[name + ".bias"] = [outer]
    return p


def turn(x, positions, base, neox):
    """x [.., n, heads, d]"""
    d = x.shape[-1]
    angle = positions.double()[:, None] * base ** (-torch.arange(d // 2).double() * 2 / d)
    c, s = angle.cos()[:, None, :], angle.sin()[:, None, :]
    a, b = (x[..., :d // 2], x[..., d // 2:]) if neox else (x[..., 0::2], x[..., 1::2])
    u, v = a * c - b * s, a * s + b * c
    return torch.cat([u, v], -1) if neox else torch.stack([u, v], -1).flatten(-2)


def attend(q, k, v, heads, kv_heads, base, neox):
    b, n = q.shape[:2]
    q, k, v = q.reshape(b, n, heads, -1), k.reshape(b, n, kv_heads, -1), v.reshape(b, n, kv_heads, -1)
    at = torch.arange(n)
    q, k = turn(q, at, base, neox), turn(k, at, base, neox)
    y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=True)
    return y.transpose(1, 2).flatten(2)


def torch_mha(embd, heads, **more):
    module = nn.MultiheadAttention(embd, heads, batch_first=True, **more).double()

    def run(p, q, k, v, mask):
        bias = "q_proj.bias" in p
        given = {"out_proj.weight": p["out_proj.weight"]}
        if bias:
            given["in_proj_bias"] = torch.cat([p[n + "_proj.bias"] for n in "qkv"])
            given["out_proj.bias"] = p["out_proj.bias"]
        if module.in_proj_weight is not None:
            given["in_proj_weight"] = torch.cat([p[n + "_proj.weight"] for n in "qkv"])
        else:
            given.update({n + "_proj_weight": p[n + "_proj.weight"] for n in "qkv"})
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask  # there, true is left out
        return functional_call(module, given, (q, k, v), {"attn_mask": mask, "need_weights": False})[0]
    return run


def llama(vocab, embd, layers, heads, kv, head, ff, tied=False, base=10000.0, eps=1e-5):
    p = {"token_embd.weight": [vocab, embd]}
    for i in range(layers):
        b = "blk.%d." % i
        p[b + "attn_norm.weight"] = [embd]
        p[b + "attn_q.weight"] = [heads * head, embd]
        p[b + "attn_k.weight"] = [kv * head, embd]
        p[b + "attn_v.weight"] = [kv * head, embd]
        p[b + "attn_output.weight"] = [embd, heads * head]
        p[b + "ffn_norm.weight"] = [embd]
        p[b + "ffn_gate.weight"] = [ff, embd]
        p[b + "ffn_up.weight"] = [ff, embd]
        p[b + "ffn_down.weight"] = [embd, ff]
    p["output_norm.weight"] = [embd]
    if not tied:
        p["output.weight"] = [vocab, embd]

    def run(w, x):
        h = F.embedding(x[0], w["token_embd.weight"])
        for i in range(layers):
            b = "blk.%d." % i
            g = F.rms_norm(h, (embd,), w[b + "attn_norm.weight"], eps)
            q, k, v = (F.linear(g, w[b + "attn_%s.weight" % n]) for n in "qkv")
            h = h + F.linear(attend(q, k, v, heads, kv, base, False), w[b + "attn_output.weight"])
            g = F.rms_norm(h, (embd,), w[b + "ffn_norm.weight"], eps)
            g = F.silu(F.linear(g, w[b + "ffn_gate.weight"])) * F.linear(g, w[b + "ffn_up.weight"])
            h = h + F.linear(g, w[b + "ffn_down.weight"])
        h = F.rms_norm(h, (embd,), w["output_norm.weight"], eps)
        return F.linear(h, w["token_embd.weight" if tied else "output.weight"])
    return p, run


def ffn(dim, hidden, act, gated=False, bias=False):
    p = {}
    for name, i, o in (("up", dim, hidden), ("down", hidden, dim)) + ((("gate", dim, hidden),) if gated else ()):
        p[name + ".weight"] = [o, i]
        if bias:
            p[name + ".bias"] = [o]

    def run(w, x):
        def lin(n, v):
            return F.linear(v, w[n + ".weight"], w.get(n + ".bias"))
        h = act(lin("gate", x[0])) * lin("up", x[0]) if gated else act(lin("up", x[0]))
        return lin("down", h)
    return p, run


def cross(p, x):
    return torch_mha(8, 2, kdim=6, vdim=3)(p, *x)


CASES = {
    "linear": same(nn.Linear(4, 5)),
    "linear_plain": same(nn.Linear(4, 3, bias=False)),
    "embedding": same(nn.Embedding(5, 3)),
    "padded": same(nn.Embedding(3, 2, padding_idx=2)),
    "layer_norm": same(nn.LayerNorm((3, 4))),
    "layer_norm_nb": same(nn.LayerNorm(5, eps=1e-3, bias=False)),
    "layer_norm_no": same(nn.LayerNorm(5, elementwise_affine=False)),
    "rms_norm": same(nn.RMSNorm(6, eps=1e-6)),
    "group_norm": same(nn.GroupNorm(3, 6)),
    "conv1d": same(nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2)),
    "conv2d": same(nn.Conv2d(3, 4, (3, 2), stride=(1, 2), padding=(1, 0))),
    "convnet": same(nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 2), nn.GELU(), nn.AvgPool2d(2, 1),
                                  nn.Flatten(), nn.Dropout(0), nn.Linear(16, 3))),
    "activations": same(nn.Sequential(nn.Identity(), nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4),
                                      nn.GELU(approximate="tanh"), nn.Softplus(), nn.Linear(4, 4), nn.ELU(), nn.Linear(4, 4), nn.LeakyReLU(),
                                      nn.Softmax(-1), nn.LogSoftmax(-1))),
    "mha": (mha_params(8), lambda p, x: torch_mha(8, 2)(p, x[0], x[0], x[0], None)),
    "mha_cross": (mha_params(8, 6, 3), cross),
    "mha_added": (mha_params(8, bias=False), lambda p, x: torch_mha(8, 4, bias=False)(p, x[0], x[0], x[0], x[3])),
    "mha_gqa": (mha_params(16, kv=8, bias=False),
                lambda p, x: F.linear(attend(*(F.linear(x[0], p[n + "_proj.weight"]) for n in "qkv"), 4, 2, 10000.0, True), p["out_proj.weight"])),
    "rotary": ({}, lambda p, x: turn(x[0], torch.arange(5), 100.0, False)),
    "rotary_at": ({}, lambda p, x: turn(x[0], x[1], 10000.0, True)),
    "ffn": ffn(4, 6, F.silu, gated=True),
    "ffn_gelu": ffn(4, 6, F.gelu, bias=True),
    "ffn_gated": ffn(4, 3, torch.sigmoid, gated=True, bias=True),
    "llama": llama(11, 8, 2, 2, 2, 4, 12),
    "llama_tied": llama(7, 8, 1, 4, 2, 4, 6, tied=True, base=500.0, eps=1 / 1024),
}


def main():
    folder = sys.argv[1]
    text = open(folder + "/cases.inc").read()
    out = ["/* Made by tests/oracle/modules.py with PyTorch %s. */" % torch.__version__.split("+")[0]]

    def line(name, what, t):
        out.append("FIGURES(%s, \"%s\", %s)" % (name, what, ", ".join("%.11g" % v for v in t.detach().flatten().tolist())))
    for m in re.finditer(r'^CASE\((\w+), *"([^"]*)"', text, re.M):
        shapes, fn = CASES[m[1]]
        x = [fill(w, 50 + i) for i, w in enumerate(m[2].split())]
        p = {n: numbers(s, i + 1) for i, (n, s) in enumerate(shapes.items())}
        y = fn(p, x)
        line(m[1], "y", y)
        (y * numbers(list(y.shape), 99, False)).sum().backward()
        for n, t in p.items():
            line(m[1], n, t.grad)
        for i, t in enumerate(x):
            if t is not None and t.requires_grad:
                line(m[1], "x%d" % i, t.grad)
    open(folder + "/figures.inc", "w").write("\n".join(out) + "\n")


main()
