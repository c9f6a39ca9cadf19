#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Embeddings of texts of 128 tokens in PyTorch, for the shapes of `quern synth --preset bge-small` and `nomic-embed`.

    quern synth bge.gguf --preset bge-small --type F16 && quern bench bge.gguf -p 128 -b 64 -t 1
    bench/embed_torch.py bge-small 1 64

The arguments are the shape, threads and texts. Weights are random: what they are changes no speed. Prints tokens a second, the median
of five, of F32 as written, not compiled, four texts at a time (what Quern does) and all at once.
"""
import statistics
import sys
import time

import torch
import torch.nn.functional as F

SHAPES = {"bge-small": (12, 384, 12, 1536, 30522, 512, False), "nomic-embed": (12, 768, 12, 3072, 30528, 2048, True)}


class Layer(torch.nn.Module):
    def __init__(self, n_embd, n_head, n_ff, nomic):
        super().__init__()
        self.qkv = torch.nn.Linear(n_embd, 3 * n_embd, bias=not nomic)
        self.out = torch.nn.Linear(n_embd, n_embd, bias=not nomic)
        self.up = torch.nn.Linear(n_embd, n_ff, bias=not nomic)
        self.gate = torch.nn.Linear(n_embd, n_ff, bias=False) if nomic else None
        self.down = torch.nn.Linear(n_ff, n_embd, bias=not nomic)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(n_embd) for _ in range(2))
        self.n_head = n_head

    def forward(self, x, turn):
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (y.view(*x.shape[:2], self.n_head, -1).transpose(1, 2) for y in (q, k, v))
        if turn is not None:
            cos, sin = turn
            q, k = (y * cos + torch.cat((-y[..., y.shape[-1] // 2:], y[..., :y.shape[-1] // 2]), -1) * sin for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = self.norms[0](x + self.out(y))
        y = F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x)
        return self.norms[1](x + self.down(y))


class Encoder(torch.nn.Module):
    def __init__(self, n_layer, n_embd, n_head, n_ff, n_vocab, n_ctx, nomic):
        super().__init__()
        self.tokens, self.types = torch.nn.Embedding(n_vocab, n_embd), torch.nn.Embedding(2, n_embd)
        self.positions = None if nomic else torch.nn.Embedding(n_ctx, n_embd)
        self.norm = torch.nn.LayerNorm(n_embd)
        self.layers = torch.nn.ModuleList(Layer(n_embd, n_head, n_ff, nomic) for _ in range(n_layer))
        self.head = n_embd // n_head

    def forward(self, ids):
        x, turn = self.tokens(ids) + self.types.weight[0], None
        pos = torch.arange(ids.shape[1])
        if self.positions is not None:
            x = x + self.positions(pos)
        else:
            angle = pos[:, None] * 1000.0 ** (-torch.arange(0, self.head, 2) / self.head)
            turn = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, turn)
        return F.normalize(x.mean(1), dim=-1)


def speed(model, ids, batch):
    speeds = []
    for _ in range(6):  # the first one warms up
        start = time.perf_counter()
        for part in ids.split(batch):
            model(part)
        speeds.append(ids.numel() / (time.perf_counter() - start))
    return statistics.median(speeds[1:])


def main():
    shape, threads, texts = SHAPES[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    with torch.inference_mode():
        model = Encoder(*shape).eval()
        ids = torch.randint(0, shape[4], (texts, 128))
        for batch in (4, texts):
            print(f"{sys.argv[1]}, {batch} texts at a time: {speed(model, ids, batch):.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
