#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bench/layers.c times, in PyTorch, eager: layers.py [THREADS]   (needs torch)"""
import sys

import torch
import torch.nn.functional as F

from torch_timing import measure

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
BATCH, CONTEXT, EMBD, FF, VOCAB, HEADS = 8, 256, 256, 768, 2048, 8
TOKENS, D = BATCH * CONTEXT, EMBD // HEADS


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


x, w, b, h, h2 = leaf(TOKENS, EMBD), leaf(EMBD), leaf(EMBD), leaf(TOKENS, FF), leaf(TOKENS, FF)
logits, table, heads = leaf(TOKENS, VOCAB), leaf(VOCAB, EMBD), leaf(BATCH, CONTEXT, HEADS, D)
ids = torch.randint(VOCAB, (TOKENS,))
angle = torch.arange(CONTEXT)[:, None] * 10000 ** (-torch.arange(0, D, 2) / D)
cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
cos2, sin2 = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)


def rope():
    p, q = heads[..., 0::2], heads[..., 1::2]
    return torch.stack([p * cos - q * sin, q * cos + p * sin], -1).flatten(-2)


def rope_neox():
    return heads * cos2 + torch.cat([-heads[..., D // 2:], heads[..., :D // 2]], -1) * sin2


ROWS = [('rms_norm', lambda: F.rms_norm(x, (EMBD,), w, 1e-5)), ('layer_norm', lambda: F.layer_norm(x, (EMBD,), w, b)), ('rope', rope),
        ('rope neox', rope_neox), ('swiglu', lambda: F.silu(h) * h2), ('gelu', lambda: F.gelu(h)),
        ('cross_entropy', lambda: F.cross_entropy(logits, ids)), ('embedding', lambda: F.embedding(ids, table)), ('add', lambda: x + x),
        ('mse_loss', lambda: F.mse_loss(h, h2)), ('softmax', lambda: logits.softmax(-1))]


print('%-16s %10s %10s' % ('us', 'forward', 'both'))
LEAVES = (x, w, b, h, h2, logits, table, heads)
for name, fn in ROWS:
    dy = torch.randn_like(fn()) if fn().dim() else torch.tensor(1.0)
    print('%-16s %10.0f %10.0f' % (name, measure(fn, None, LEAVES), measure(fn, dy, LEAVES)))
