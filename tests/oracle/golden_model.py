# SPDX-License-Identifier: MIT
"""A model as NumPy computes it: weights from a GGUF file by the `gguf` package, everything after that in float64.

Written from the architectures' papers and from what the file says, without a look at src/. Rounding of activations and of keys and
values can be put in, to see what it costs.
"""
import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

F32 = np.float32


def divide(a, b):
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def same(x):
    return x


def symmetric(block):
    """8 bits, one scale a block, largest magnitude to 127."""
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


def f16(x):
    return x.astype(np.float16).astype(np.float64)


def bf16(x):
    u = np.ascontiguousarray(x, F32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7fff + ((u >> 16) & 1)) & 0xffff0000).astype(np.uint32).view(F32).astype(np.float64)


def q8_0(x):
    b = x.reshape(-1, 32).astype(F32)
    d = np.abs(b).max(-1, keepdims=True) / F32(127)
    q = np.rint(b * divide(np.ones_like(d), d))
    return (q * d.astype(np.float16).astype(F32)).astype(np.float64).reshape(x.shape)


def blocks(name):
    """As the gguf package packs and unpacks blocks of that type."""
    def f(x):
        rows = x.reshape(x.shape[0], -1).astype(F32)
        return dequantize(quantize(rows, Type[name]), Type[name]).astype(np.float64).reshape(x.shape)
    return f


KV_TYPES = {"F32": same, "F16": f16, "BF16": bf16, "Q8_0": q8_0, **{t: blocks(t) for t in ("Q5_1", "Q5_0", "Q4_1", "Q4_0")}}

# Pairs of elements that RoPE turns together: neighbours, or one of each half.
HALVES = {"llama": False, "qwen2": True, "qwen3": True}


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        field = {name: f.contents() for name, f in reader.fields.items()}
        self.arch = field["general.architecture"]
        get = lambda key, default=None: field.get(self.arch + "." + key, default)
        self.field = field
        self.n_layer, self.n_head = get("block_count"), get("attention.head_count")
        self.n_kv = get("attention.head_count_kv", self.n_head)
        self.eps = get("attention.layer_norm_rms_epsilon")
        self.head = get("attention.key_length", get("embedding_length") // self.n_head)
        self.head_v = get("attention.value_length", get("embedding_length") // self.n_head)
        self.n_rot = get("rope.dimension_count", self.head)
        self.base = get("rope.freq_base", 1e4 if self.arch == "llama" else 1e6)
        self.scaling = get("rope.scaling.type", "linear" if get("rope.scaling.factor") else "none")
        self.factor = get("rope.scaling.factor", 0) or 1
        self.attn_factor = get("rope.scaling.attn_factor", 1)
        self.n_ctx = get("context_length")
        self.ctx_orig = get("rope.scaling.original_context_length", self.n_ctx)
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1]) for t in reader.tensors}
        self.type = {t.name: t.tensor_type.name for t in reader.tensors}
        if "output.weight" not in self.w:
            self.w["output.weight"], self.type["output.weight"] = self.w["token_embd.weight"], self.type["token_embd.weight"]
        self.n_vocab = self.w["token_embd.weight"].shape[0]

    def angles(self, positions):
        """Cosine and sine of every pair at every position: linear scaling, or YaRN (Peng et al. 2023)."""
        half = np.arange(self.n_rot // 2)
        turn = self.base ** (-2 * half / self.n_rot) / self.w.get("rope_freqs.weight", np.ones(len(half)))
        size = self.attn_factor
        if self.scaling == "linear":
            turn = turn / self.factor
        if self.scaling == "yarn":
            # the dimension whose wave fits the original context `turns` times
            at = lambda turns: self.n_rot * np.log(self.ctx_orig / (turns * 2 * np.pi)) / (2 * np.log(self.base))
            low, high = max(0, np.floor(at(32))), min(self.n_rot - 1, np.ceil(at(1)))
            kept = 1 - np.clip((half - low) / max(0.001, high - low), 0, 1)
            turn = turn / self.factor * (1 - kept) + turn * kept
            size *= 1 + 0.1 * np.log(self.factor)
        angle = np.asarray(positions)[:, None] * turn
        return np.cos(angle)[:, None] * size, np.sin(angle)[:, None] * size

    def rope(self, x, cos, sin):
        y, n = x.copy(), self.n_rot
        first, second = (slice(0, n // 2), slice(n // 2, n)) if HALVES[self.arch] else (slice(0, n, 2), slice(1, n, 2))
        y[..., first] = x[..., first] * cos - x[..., second] * sin
        y[..., second] = x[..., first] * sin + x[..., second] * cos
        return y

    def forward(self, tokens, act=None, kv=same):
        """Logits [n, n_vocab]. act: what a product's input is rounded to, by the type of its weight."""
        w, n = self.w, len(tokens)

        def product(x, name):
            bias = w.get(name[:-len("weight")] + "bias", 0)
            return (act(self.type[name])(x) if act else x) @ w[name].T + bias

        def norm(x, name):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * w[name]

        def heads(x, count, name):
            x = x.reshape(n, count, -1)
            return norm(x, name) if name in w else x

        cos, sin = self.angles(np.arange(n))
        mask = np.where(np.tri(n) > 0, 0, -np.inf)
        h = w["token_embd.weight"][tokens]
        for i in range(self.n_layer):
            p = f"blk.{i}."
            x = norm(h, p + "attn_norm.weight")
            q = self.rope(heads(product(x, p + "attn_q.weight"), self.n_head, p + "attn_q_norm.weight"), cos, sin)
            k = kv(self.rope(heads(product(x, p + "attn_k.weight"), self.n_kv, p + "attn_k_norm.weight"), cos, sin))
            v = kv(product(x, p + "attn_v.weight").reshape(n, self.n_kv, self.head_v))
            group = self.n_head // self.n_kv
            s = np.einsum("qhd,khd->hqk", q, k.repeat(group, 1)) / np.sqrt(self.head) + mask
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            o = np.einsum("hqk,khd->qhd", s, v.repeat(group, 1)).reshape(n, -1)
            h = h + product(o, p + "attn_output.weight")
            x = norm(h, p + "ffn_norm.weight")
            gate, up = product(x, p + "ffn_gate.weight"), product(x, p + "ffn_up.weight")
            h = h + product(gate / (1 + np.exp(-gate)) * up, p + "ffn_down.weight")
        return product(norm(h, "output_norm.weight"), "output.weight")


def nmse(a, b):
    return ((a - b) ** 2).sum() / (b ** 2).sum()
