#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Gradients by PyTorch, in double precision, of the cases in tests/unit/array/gradient_cases.inc: writes gradient_figures.inc beside it.

    python3 tests/oracle/gradients.py tests/unit/array

A line of figures belongs to one source of one case: FIGURES(case, source, value, value, ..)."""
import math
import re
import sys
import textwrap

import torch
import torch.nn.functional as F


def unit(k, s):
    return ((k * 37 + s * 11 + 5) % 101 + 0.3) / 101


REAL = {"r": (-2, 4), "f": (-2, 4), "u": (-1, 2), "p": (0.3, 2), "g": (1.2, 2), "k": (0.3, 2), "o": (0.1, 0.8)}


def fill(word, s):
    kind, rest = word[0], word[1:]
    shape, _, below = rest.partition(":")
    shape = [int(d) for d in shape.split(",")] if shape else []
    n = 1
    for d in shape:
        n *= d
    if kind in REAL:
        low, width = REAL[kind]
        x = torch.tensor([low + width * unit(k, s) for k in range(n)], dtype=torch.float32).double()
    elif kind == "z":
        x = torch.tensor([(k * 5 + s) % 3 - 1 for k in range(n)]).double()
    elif kind == "m":
        x = torch.tensor([(k * 5 + s) % 3 == 0 for k in range(n)])
    elif kind == "C":
        x = torch.tensor([k * int(below) for k in range(n)])
    elif kind == "P":
        x = torch.tensor([k * 3 + 1 for k in range(n)])
    else:
        x = torch.tensor([(k * 7 + s * 3 + 1) % int(below) for k in range(n)])
    x = x.reshape(shape)
    return x.requires_grad_() if kind == "z" or kind in REAL and kind != "k" else x


def rope(x, pos, base):
    """x [n, heads, d]: element i turns with element i + d/2."""
    half = x.shape[2] // 2
    angle = pos.double()[:, None] * base ** (-torch.arange(half).double() / half)
    c, s = angle.cos()[:, None, :], angle.sin()[:, None, :]
    lo, hi = x[..., :half], x[..., half:]
    return torch.cat([lo * c - hi * s, lo * s + hi * c], -1)


def sdpa(q, k, v, scale, mask=None, causal=False, softcap=0, sinks=None, window=0):
    """Rows as [batch, n, heads, size], then the logarithms of the sums of exponentials, in one vector."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(2, 3) * scale
    if softcap:
        s = softcap * (s / softcap).tanh()
    n, m = s.shape[2:]
    if causal:
        mask = torch.ones(n, m).bool().tril()
        mask = mask.triu(1 - window) if window else mask
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf)
    if sinks is not None:
        s = torch.cat([s, sinks[None, :, None, None].expand(s.shape[0], -1, n, 1)], 3)
    lse = s.logsumexp(3)
    y = (s - lse[..., None]).exp()[..., :m] @ v
    return torch.cat([y.transpose(1, 2).flatten(), lse.flatten()])


def rope_apply(x, table, n_rot, neox):
    """x [.., n, heads, d]: its first n_rot elements by cosines and sines, pair by pair."""
    c, s = table[..., None, 0::2], table[..., None, 1::2]
    y, rest = x[..., :n_rot], x[..., n_rot:]
    if neox:
        lo, hi = y[..., :n_rot // 2], y[..., n_rot // 2:]
        return torch.cat([lo * c - hi * s, hi * c + lo * s, rest], -1)
    lo, hi = y[..., 0::2], y[..., 1::2]
    return torch.cat([torch.stack([lo * c - hi * s, hi * c + lo * s], -1).flatten(-2), rest], -1)


def ce(x, ids, weight=None, **options):
    """The losses, and behind them the logarithms of the sums."""
    return torch.cat([F.cross_entropy(x, ids.long(), weight, **options).reshape(-1), x.logsumexp(1)])


def main():
    folder = sys.argv[1]
    text = open(folder + "/gradient_cases.inc").read()
    out = ["/* Made by tests/oracle/gradients.py with PyTorch %s. */" % torch.__version__.split("+")[0]]
    for case, m in enumerate(re.finditer(r'^CASE\((\w+),\s+"([^"]*)",\s+"([^"]*)"', text, re.M)):
        sources = [fill(w, s) for s, w in enumerate(m[2].split())]
        y = eval(m[3], {"torch": torch, "F": F, "rope": rope, "sdpa": sdpa, "rope_apply": rope_apply, "ce": ce, **dict(zip("abcdef", sources))})
        dy = torch.tensor([-2 + 4 * unit(k, 9) for k in range(y.numel())], dtype=torch.float32).double().reshape(y.shape)
        if y.requires_grad:
            y.backward(dy)
        for s, x in enumerate(sources):
            if x.requires_grad:
                g = x.grad if x.grad is not None else torch.zeros_like(x)
                line = "FIGURES(%d, %d, %s)" % (case, s, ", ".join("%.9g" % v for v in g.flatten().tolist()))
                out += textwrap.wrap(line, 119, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    open(folder + "/gradient_figures.inc", "w").write("\n".join(out) + "\n")


main()
