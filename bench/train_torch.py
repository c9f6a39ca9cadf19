#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The training step of quern train in PyTorch, for comparison: the same model, batch, loss, clipping and AdamW, float32 on the processor.

    python3 bench/train_torch.py --layers 4 --embd 192 --heads 6 --ff 512 --vocab-size 1024 --ctx 256 --batch 8 --threads 2 [--compile]
    build/quern train TEXT -o /tmp/x.gguf (the same options) --steps 20

Prints tokens a second (the median step) and the peak of resident memory beyond what importing torch took."""
import argparse
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.kv, self.size = o.heads, o.kv_heads or o.heads, o.embd // o.heads
        self.norm1, self.norm2 = nn.RMSNorm(o.embd, eps=1e-5), nn.RMSNorm(o.embd, eps=1e-5)
        self.q, self.o = nn.Linear(o.embd, o.embd, bias=False), nn.Linear(o.embd, o.embd, bias=False)
        self.k, self.v = (nn.Linear(o.embd, self.kv * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(o.embd, o.ff, bias=False) for _ in range(2))
        self.down = nn.Linear(o.ff, o.embd, bias=False)

    def turn(self, x, cosine, sine):
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cosine - b * sine, a * sine + b * cosine), -1).flatten(-2)

    def forward(self, x, cosine, sine):
        batch, n, width = x.shape
        h = self.norm1(x)
        q = self.turn(self.q(h).view(batch, n, self.heads, self.size), cosine, sine).transpose(1, 2)
        k = self.turn(self.k(h).view(batch, n, self.kv, self.size), cosine, sine).transpose(1, 2)
        v = self.v(h).view(batch, n, self.kv, self.size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.o(y.transpose(1, 2).reshape(batch, n, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embedding = nn.Embedding(o.vocab_size, o.embd)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.norm, self.output = nn.RMSNorm(o.embd, eps=1e-5), nn.Linear(o.embd, o.vocab_size, bias=False)
        if o.tied:
            self.output.weight = self.embedding.weight
        half = o.embd // o.heads // 2
        angles = torch.outer(torch.arange(o.ctx), 10000.0 ** (-torch.arange(half) / half))[:, None]
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.cosine, self.sine)
        return F.cross_entropy(self.output(self.norm(x)).flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    for name, value in dict(layers=4, embd=128, heads=4, kv_heads=0, ff=352, vocab_size=1024, ctx=256, batch=8, threads=2, steps=20).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--compile", action="store_true")
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = Model(o)
    step_of = torch.compile(model) if o.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    times = []
    for step in range(o.steps):
        ids, targets = (torch.randint(o.vocab_size, (o.batch, o.ctx)) for _ in range(2))
        start = time.perf_counter()
        loss = step_of(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{o.batch * o.ctx / statistics.median(times[5:]):.0f} tokens/s, {(peak - before) / 1024:.0f} MiB beyond import, {peak / 1024:.0f} MiB in all")


main()
