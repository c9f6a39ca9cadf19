#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Losses of a small Llama in F32, and in BF16 and F16 with master weights in F32, by PyTorch: writes tests/unit/lm/mixed_figures.inc.
# Usage: mixed.py > tests/unit/lm/mixed_figures.inc
import math
import torch
import torch.nn.functional as F

VOCAB, EMBD, LAYERS, HEADS, KV, FF = 40, 16, 2, 4, 2, 24
BATCH, N, STEPS, LR, SCALE = 4, 12, 40, 1e-2, 1024.0
HEAD = EMBD // HEADS


def number(k, s):
    """As `unit` of tests/unit/nn/rig.h."""
    return ((k * 37 + s * 11 + 5) % 101 + 0.3) / 101


def matrix(s, *shape):
    n = math.prod(shape)
    return torch.tensor([0.3 * (2 * number(k, s) - 1) for k in range(n)], dtype=torch.float64).float().reshape(shape)


def parameters():
    """In the order of qn_module_parameters."""
    p = [matrix(1, VOCAB, EMBD)]
    for i in range(LAYERS):
        s = 10 * (i + 1)
        p += [torch.ones(EMBD), matrix(s, EMBD, EMBD), matrix(s + 1, KV * HEAD, EMBD), matrix(s + 2, KV * HEAD, EMBD), matrix(s + 3, EMBD, EMBD),
              torch.ones(EMBD), matrix(s + 4, FF, EMBD), matrix(s + 5, FF, EMBD), matrix(s + 6, EMBD, FF)]
    return p + [torch.ones(EMBD), matrix(2, VOCAB, EMBD)]


def rope(x):  # [batch, heads, n, head], neighbours turn together
    angle = torch.arange(N).float()[:, None] * 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    c, s, a, b = angle.cos(), angle.sin(), x[..., 0::2].float(), x[..., 1::2].float()
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2).to(x.dtype)


def heads(x, n):
    return x.view(BATCH, N, n, HEAD).transpose(1, 2)


def forward(p, ids):
    x = F.embedding(ids, p[0])
    for i in range(LAYERS):
        an, q, k, v, o, fn, gate, up, down = p[1 + 9 * i:10 + 9 * i]
        h = F.rms_norm(x, (EMBD,), an, 1e-5)
        y = F.scaled_dot_product_attention(rope(heads(F.linear(h, q), HEADS)), rope(heads(F.linear(h, k), KV)), heads(F.linear(h, v), KV),
                                           is_causal=True, enable_gqa=True)
        x = x + F.linear(y.transpose(1, 2).reshape(BATCH, N, EMBD), o)
        h = F.rms_norm(x, (EMBD,), fn, 1e-5)
        x = x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)
    return F.linear(F.rms_norm(x, (EMBD,), p[-2], 1e-5), p[-1])


def losses(dtype):
    master = [t.clone().requires_grad_() for t in parameters()]
    p = [t.detach().to(dtype).requires_grad_() for t in master]
    o = torch.optim.AdamW(master, lr=LR, betas=(0.9, 0.95), weight_decay=0.1)
    scale = SCALE if dtype == torch.float16 else 1.0
    out = []
    for step in range(STEPS):
        ids = torch.tensor([[(b * 7 + i + step * 3) % VOCAB for i in range(N)] for b in range(BATCH)])
        loss = F.cross_entropy(forward(p, ids).float().view(-1, VOCAB), ((ids + 1) % VOCAB).view(-1))
        for t in p:
            t.grad = None
        (loss * scale).backward()
        for m, t in zip(master, p):
            m.grad = t.grad.float() / scale
        torch.nn.utils.clip_grad_norm_(master, 1.0)
        o.step()
        with torch.no_grad():
            for m, t in zip(master, p):
                t.copy_(m)
        out.append(loss.item())
    return out


print("/* SPDX-License-Identifier: MIT */")
print("/* Written by tests/oracle/mixed.py with PyTorch %s: the loss of each step. */" % torch.__version__.split("+")[0])
for name, dtype in (("F32", torch.float32), ("BF16", torch.bfloat16), ("F16", torch.float16)):
    rows = ["%.7g" % v for v in losses(dtype)]
    print("MIXED(%s, VALUES(%s))" % (name, ",\n    ".join(", ".join(rows[i:i + 10]) for i in range(0, STEPS, 10))))
