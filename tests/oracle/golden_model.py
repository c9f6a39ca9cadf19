# SPDX-License-Identifier: MIT
"""A model as NumPy computes it: weights from a GGUF file by the `gguf` package, everything after that in float64.

Written from the architectures' papers and from what the file says, without a look at src/. Rounding of activations and of keys and
values can be put in, to see what it costs.
"""
import math

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

import golden_moe
from golden_latent import head_size, latent, score_factor
from golden_moe import mixture

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

# Pairs of elements that RoPE turns together are one of each half; else neighbours.
HALVES = set("""qwen2 qwen3 gemma gemma2 gemma3 phi3 olmo2 exaone exaone4 starcoder2 codeshell gptneox falcon stablelm qwen bitnet openelm paddleocr
    pangu-embedded hunyuan-dense jais2 nemotron orion phi2 plamo plamo3 seed_oss cogvlm
    nomic-bert nomic-bert-moe jina-bert-v3 modern-bert eurobert gemma-embedding
    dream qwen2vl qwen3vl hunyuan_vl apertus talkie gemma4 gemma3n minicpm3""".split())
# The activation of the feed-forward: silu unless named; PLAIN: act(up) instead of act(gate) * up.
ACTS = {"gelu_tanh": "gemma gemma2 gemma3 gemma3n gemma4 gemma-embedding starcoder2 codeshell gpt2 starcoder phi2 grok bloom", "relu": "smallthinker", "gelu": "gptneox falcon bert nomic-bert-moe jina-bert-v2 jina-bert-v3 modern-bert mpt", "relu2": "arcee jais2 nemotron plm", "xielu": "apertus"}
PLAIN = set("apertus starcoder2 codeshell gpt2 starcoder gptneox falcon arcee jais2 nemotron phi2 bert nomic-bert-moe jina-bert-v3 plm bloom mpt".split())
PARALLEL = set("falcon command-r cohere2 cohere2moe phi2 plamo".split())
# Every n-th layer sees all, the others a window; whether the others rotate as if there were no scaling.
PERIOD = {"gemma2": 2, "gemma3": 6, "olmo2": 4, "exaone4": 4, "cohere2": 4, "plamo3": 2, "phi3": 0, "gemma-embedding": 6, "modern-bert": 3, "gemma4": 6, "gemma3n": 5}
# Tokens see both ways; of some, norms come after the sums; which hidden state a head of scores takes unless the first.
ENCODERS = set("bert nomic-bert nomic-bert-moe jina-bert-v2 jina-bert-v3 modern-bert neo-bert eurobert llama-embed gemma-embedding".split())
SUMS = set("bert nomic-bert nomic-bert-moe jina-bert-v2 jina-bert-v3".split())
RANK_OF = {"modern-bert": "mean", "qwen3": "last"}
POOLINGS = ["none", "mean", "first", "last", "rank"]
AFTER_TURN = set("hunyuan-dense hunyuan_vl maincoder talkie".split())  # norms of heads come after rotation

ALIBI = set("bloom refact jais jina-bert-v2".split())  # mpt where a key says so, baichuan of 40 layers

POST_IS_NEXT = {"seed_oss"} | golden_moe.POST_IS_NEXT  # post_attention_norm is the norm before the feed-forward
HALVES |= golden_moe.HALVES
PERIOD.update(golden_moe.PERIOD)
AFTER_TURN |= golden_moe.AFTER_TURN


def slopes(n_head, most):
    """ALiBi's (Press et al. 2022), as the authors' get_slopes has them for 8: what scores lose a step of distance."""
    n = 1 << (n_head.bit_length() - 1)
    return np.array([2 ** (-most * (h + 1) / n) for h in range(n)] + [2 ** (-most * (2 * h + 1) / (2 * n)) for h in range(n_head - n)])


def erf(x):
    return np.vectorize(math.erf)(x)


ACT = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
}


def a_layer(value, n):
    return list(value) if isinstance(value, (list, np.ndarray)) else [value] * n


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        field = {name: f.contents() for name, f in reader.fields.items()}
        self.arch = field["general.architecture"]
        get = lambda key, default=None: field.get(self.arch + "." + key, default)
        self.field, self.get = field, get
        self.n_layer = get("block_count")
        self.n_head = a_layer(get("attention.head_count"), self.n_layer)
        self.n_kv = a_layer(get("attention.head_count_kv", self.n_head), self.n_layer)
        self.n_embd = get("embedding_length")
        self.layer_norm = get("attention.layer_norm_rms_epsilon") is None
        self.eps = get("attention.layer_norm_epsilon") if self.layer_norm else get("attention.layer_norm_rms_epsilon")
        self.head = get("attention.key_length", self.n_embd // max(self.n_head))
        self.head_v = get("attention.value_length", self.n_embd // max(self.n_head))
        self.n_rot = get("rope.dimension_count", self.head) // (2 if self.arch == "step35" else 1)
        self.n_rot_window = get("rope.dimension_count_swa", get("attention.key_length_swa", self.n_rot * (2 if self.arch == "step35" else 1)))
        self.base = get("rope.freq_base", 1e6 if self.arch in ("qwen2", "qwen3", "qwen2moe", "qwen3moe", "seed_oss", "gemma3") else 1e4)
        if self.arch == "cogvlm":
            self.base = 1e4
        if get("rope.scaling.alpha"):
            self.base *= get("rope.scaling.alpha") ** (self.n_rot / (self.n_rot - 2))
        self.window_base = self.base if self.arch in ("olmo2", "mellum") else get("rope.freq_base_swa", 1e4 if self.arch in ("gemma3", "gemma3n", "gemma4", "gemma-embedding") else self.base)
        self.scaling = get("rope.scaling.type", "linear" if get("rope.scaling.factor") else "none")
        self.factor = get("rope.scaling.factor", 0) or 1
        self.attn_factor = get("rope.scaling.attn_factor", 1)
        self.n_ctx = get("context_length")
        self.ctx_orig = get("rope.scaling.original_context_length", self.n_ctx)
        self.window = get("attention.sliding_window", 0) and golden_moe.WINDOW.get(self.arch) or get("attention.sliding_window", 0)
        period = get("attention.sliding_window_pattern", PERIOD.get(self.arch, 0))
        full = 0 if self.arch in golden_moe.FULL_FIRST | {"modern-bert"} or isinstance(period, list) else period - 1  # of so many layers this one sees all
        self.windowed = [bool(self.window) and (bool(period[i]) if isinstance(period, list) else period == 0 or i % period != full)
                         for i in range(self.n_layer)]
        self.loops = get("num_loops", 1)
        self.n_kv_shared = get("attention.shared_kv_layers", max(0, self.n_layer - 20) if self.arch == "gemma3n" else 0)
        small = [(get("attention.key_length_swa"), get("attention.value_length_swa")) if w else (None, None) for w in self.windowed]
        self.heads = [(k or self.head, v or self.head_v) for k, v in small]
        self.act = next((a for a, names in ACTS.items() if self.arch in names.split()), "silu")
        self.act = get("hidden_activation", self.act)
        self.w = {t.name: dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1]) for t in reader.tensors}
        self.type = {t.name: t.tensor_type.name for t in reader.tensors}
        if "output.weight" not in self.w and self.arch not in ENCODERS:
            self.w["output.weight"], self.type["output.weight"] = self.w["token_embd.weight"], self.type["token_embd.weight"]
        self.n_vocab = self.w["token_embd.weight"].shape[0]

    def axes(self, positions, pairs):
        """What each pair's angle is a multiple of, [n, pairs]: M-RoPE (Qwen2-VL) has numbers for sections of the pairs. Those of a
        text's token are its position three times, then 0."""
        sections = self.get("rope.dimension_sections")
        of_text = np.repeat(np.asarray(positions)[:, None], pairs, 1)
        if not sections or not sum(sections):
            return of_text
        which = np.concatenate([[k] * s for k, s in enumerate(sections)])
        if self.arch.startswith("qwen3vl"):  # interleaved: t h w t h w .., then what is left over
            which = np.full(len(which), 3)
            for k in range(3):
                which[k:3 * sections[k]:3] = k
        return of_text * (which[np.arange(pairs) % len(which)] != 3)

    def angles(self, positions, base, scaled, n_rot):
        """Cosine and sine of every pair at every position: linear scaling, or YaRN (Peng et al. 2023)."""
        half = np.arange(n_rot // 2)
        # the longest a sequence of the test may become is beyond any context of training but the file's own
        factors = self.w.get("rope_freqs.weight", self.w.get("rope_factors_long.weight" if self.n_ctx > self.ctx_orig else "rope_factors_short.weight"))
        if self.arch == "gemma4" and not scaled:
            factors = None  # of layers that see all
        turn = base ** (-2 * half / n_rot) / (np.ones(len(half)) if factors is None else factors)
        size = self.attn_factor if scaled else 1
        if self.scaling == "linear" and scaled:
            turn = turn / self.factor
        if self.scaling == "yarn" and scaled:
            # the dimension whose wave fits the original context `turns` times
            at = lambda turns: n_rot * np.log(self.ctx_orig / (turns * 2 * np.pi)) / (2 * np.log(base))
            fast, slow = self.get("rope.scaling.yarn_beta_fast", 32), self.get("rope.scaling.yarn_beta_slow", 1)
            low, high = max(0, np.floor(at(fast))), min(n_rot - 1, np.ceil(at(slow)))
            if self.arch in golden_moe.EXACT_BOUNDS:
                low, high = max(0, at(fast)), min(n_rot - 1, at(slow))
            kept = 1 - np.clip((half - low) / max(0.001, high - low), 0, 1)
            turn = turn / self.factor * (1 - kept) + turn * kept
            size *= 1 if self.get("attention.kv_lora_rank") and score_factor(self) else (1 + 0.1 * np.log(self.factor)) / (1 + 0.1 * self.get("rope.scaling.yarn_log_multiplier", 0) * np.log(self.factor))
        angle = self.axes(positions, len(half)) * turn
        return np.cos(angle)[:, None] * size, np.sin(angle)[:, None] * size

    def rope(self, x, turn):
        if turn is None:
            return x
        y, n = x.copy(), 2 * turn[0].shape[-1]
        first, second = (slice(0, n // 2), slice(n // 2, n)) if self.arch in HALVES else (slice(0, n, 2), slice(1, n, 2))
        y[..., first] = x[..., first] * turn[0] - x[..., second] * turn[1]
        y[..., second] = x[..., first] * turn[1] + x[..., second] * turn[0]
        return y

    def rotates(self, i):
        """The table that layer i rotates by: that of all layers, of windows, or none."""
        a, seen = self.arch, self.windowed[i]
        if a in ("gpt2", "starcoder", "bert", "mpt") or a in ALIBI or a == "smollm3" and i % 4 == 3 or a == "cohere2" and not seen:
            return None
        if a == "baichuan" and self.n_layer != 32:
            return None
        if a in ("exaone4", "exaone-moe") and self.window:
            return "all" if seen else None
        if a in ("afmoe", "llama4") and i % 4 == 3 or a == "smallthinker" and not seen or a == "cohere2moe" and not seen and i >= self.get("leading_dense_block_count"):
            return None
        return "window" if seen and a not in ("cohere2", "cohere2moe", "gpt-oss") else "all"

    def factors(self):
        """Of embeddings, of what is added to the stream, of scores, of logits."""
        get, a = self.get, self.arch
        embd, residual, score, logit = (get(k, 0) or None for k in ("embedding_scale", "residual_scale", "attention.scale", "logit_scale"))
        if a == "grok":
            score = get("attention.output_scale")
        if a == "jais":
            score = 1 / self.head
        if a.startswith("gemma") or a == "afmoe":
            embd = np.sqrt(self.n_embd)
        if a == "minicpm3":
            embd, residual, logit = 12, 1.4 / np.sqrt(self.n_layer), 256 / self.n_embd
        if get("attention.kv_lora_rank"):
            score = (score_factor(self) or 1) / np.sqrt(head_size(self))
        if a in ("gemma3n", "gemma4"):
            score = 1
        if a == "minicpm":
            embd, residual, logit = embd or 12, residual or 1.4 / np.sqrt(self.n_layer), logit or self.n_embd / 256
        if a in ("granite", "granitemoe", "minicpm"):
            logit = 1 / logit if logit else None
        return embd or 1, residual or 1, score or 1 / np.sqrt(self.head), logit or 1

    def dense(self, x):
        return x @ self.w["dense_2.weight"].T @ self.w["dense_3.weight"].T if "dense_2.weight" in self.w else x

    def pooled(self, tokens):
        """What the file's pooling makes of a text: an embedding, or scores."""
        w, a = self.w, self.arch
        x, how = self.hidden(tokens), POOLINGS[self.get("pooling_type")]
        of = RANK_OF.get(a, "first") if how == "rank" else how
        x = {"mean": x.mean(0), "first": x[0], "last": x[-1]}[of]
        if how != "rank":
            return self.dense(x)
        if "cls.weight" in w:
            x = w["cls.weight"] @ x + w.get("cls.bias", 0)
            x = ACT["gelu"](x) if a == "modern-bert" else np.tanh(x)
        if "cls.norm.weight" in w:
            x = x - x.mean()
            x = x / np.sqrt((x * x).mean() + self.eps) * w["cls.norm.weight"]
        if "cls.output.weight" in w:
            x = w["cls.output.weight"] @ x + w.get("cls.output.bias", 0)
        return np.exp(x) / np.exp(x).sum() if a == "qwen3" else x

    def forward(self, tokens, act=None, kv=same):
        """Logits [n, n_vocab]; an encoder's hidden states [n, n_embd]; or with a pooling a row for each of the texts that tokens begin."""
        if self.get("pooling_type") is not None:
            return np.stack([self.pooled(tokens[:i + 1]) for i in range(len(tokens))])
        return self.dense(self.hidden(tokens, act, kv)) if self.arch in ENCODERS else self.logits(tokens, act, kv)

    def hidden(self, tokens, act=None, kv=same):
        return self.stream(tokens, act, kv)[0]

    def logits(self, tokens, act=None, kv=same):
        x, product, logit = self.stream(tokens, act, kv)
        y = product(x, "output.weight") * logit
        cap = self.get("final_logit_softcapping", 30 if self.arch in ("gemma2", "gemma3n") else 0)
        return cap * np.tanh(y / cap) if cap else y

    def stream(self, tokens, act, kv):
        """The stream after its last norm. act: what a product's input is rounded to, by the type of its weight."""
        w, n, a, get = self.w, len(tokens), self.arch, self.get
        pos = np.arange(n)

        def product(x, name):
            bias = w.get(name[:-len("weight")] + "bias", 0)
            return (act(self.type[name])(x) if act else x) @ w[name].T + bias

        def norm(x, name):
            bias = w.get(name[:-len("weight")] + "bias", 0) if name.endswith("weight") else 0
            if self.layer_norm:
                x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * w.get(name, 1) + bias

        def normed(x, name):
            return norm(x, name) if name in w else x

        def heads(x, count, name, turn):
            whole = name in w and w[name].shape == (x.shape[-1],) and x.shape[-1] != self.head and count > 1
            x = (norm(x, name) if whole else x).reshape(n, count, -1)
            if a not in AFTER_TURN and not whole:
                x = normed(x, name)
            x = self.rope(x, turn)
            if a == "talkie" or a == "llama4" and turn is not None:
                return norm(x, name)
            return normed(x, name) if a in AFTER_TURN else x

        tables = {None: None, "all": self.angles(pos, self.base, True, self.n_rot), "window": self.angles(pos, self.window_base, False, self.n_rot_window)}
        see = np.tri(n) > 0
        near = see & (pos[None] > pos[:, None] - (self.window or n))
        if a in ("dream", "llada", "llada-moe", "rnd1"):  # diffusion: both ways
            see[:] = True
        if a in ENCODERS:
            see, near = np.ones((n, n)) > 0, abs(pos[None] - pos[:, None]) <= (self.window or 0) // 2
        masks = [np.where(m, 0, -np.inf) for m in (see, near)]
        embd, residual, scale, logit = self.factors()
        most = get("attention.max_alibi_bias", 8 if a in ALIBI or a == "baichuan" and self.n_layer == 40 else 0)
        far = abs(pos[None] - pos[:, None]) * slopes(max(self.n_head), most)[:, None, None] if most else 0
        clamp, cap = get("attention.clamp_kqv", 0), get("attn_logit_softcapping", 50 if a == "gemma2" else 0)
        heat = 1 + get("attention.temperature_scale", 0) * np.log(1 + pos // get("attention.temperature_length", self.ctx_orig))
        h = w["token_embd.weight"][tokens] * embd
        if "position_embd.weight" in w:
            h = h + w["position_embd.weight"][pos]
        if "token_types.weight" in w:
            h = h + w["token_types.weight"][0]
        h = norm(h, "") if a == "talkie" else normed(h, "token_embd_norm.weight")
        first_h, cache = h, {}
        own = self.layer_inputs(tokens, h, product, norm)
        altup = AltUp(self, product, norm) if a == "gemma3n" else None
        if altup:
            streams = altup.begin(h)
        for turn_of_loop in range(self.n_layer * self.loops):
            i = turn_of_loop % self.n_layer
            p = f"blk.{i}."
            n_head, n_kv, first, last = self.n_head[i], self.n_kv[i], p + "attn_norm.weight", p + "ffn_norm.weight"
            head, head_v = self.heads[i]
            post, post_ffn = ("" if a in POST_IS_NEXT else p + "post_attention_norm.weight"), p + "post_ffw_norm.weight"
            if a in POST_IS_NEXT:
                last = p + "post_attention_norm.weight"
            if a == "grok":
                post, post_ffn = p + "attn_output_norm.weight", p + "layer_output_norm.weight"
            if a == "dbrx":
                last = p + "attn_output_norm.weight"
            if a == "plamo3":
                post, post_ffn = p + "post_attention_norm", p + "post_ffw_norm"
            if p + "attn_norm_2.weight" in w and a == "falcon":
                first, last = p + "attn_norm_2.weight", first
            bare = a in ("olmo", "talkie")  # norms without weights
            if altup:
                guess = altup.predict(streams, p)
                h = guess[0]
            x = norm(h, first) if bare else normed(h, first)
            turn = tables[self.rotates(i)]
            if p + "attn_kv_a_mqa.weight" in w:
                q, k, v = latent(self, x, p, product, norm, turn)
                q, n_kv = q * heat[:, None, None], n_head
            elif p + "attn_qkv.weight" in w:
                sizes = np.cumsum([n_head * head, n_kv * head])
                q, k, v = np.split(product(x, p + "attn_qkv.weight"), sizes, axis=-1)
            else:
                q, k = (product(x, p + f"attn_{c}.weight") for c in "qk")
                v = product(x, p + "attn_v.weight") if p + "attn_v.weight" in w else k
            if clamp:
                q, k, v = (np.clip(y, -clamp, clamp) for y in (q, k, v))
            if p + "attn_kv_a_mqa.weight" not in w:
                q = heads(q, n_head, p + "attn_q_norm.weight", turn) * heat[:, None, None]
                k = kv(heads(k, n_kv, p + "attn_k_norm.weight", turn))
                v = v.reshape(n, n_kv, head_v)
                v = kv(norm(v, "") if a in ("gemma3n", "gemma4") else v)
            if i >= self.n_layer - self.n_kv_shared:  # those of the last layer before these that sees alike
                k, v = cache[self.windowed[i]]
            else:
                cache[self.windowed[i]] = k, v
            group = n_head // n_kv
            s = np.einsum("qhd,khd->hqk", q, k.repeat(group, 1)) * scale
            s = (cap * np.tanh(s / cap) if cap else s) - far + masks[self.windowed[i]]
            sink = w.get(p + "attn_sinks.weight", np.full(n_head, -np.inf))[:, None, None]
            top = np.maximum(s.max(-1, keepdims=True), sink)
            s = np.exp(s - top)
            s /= s.sum(-1, keepdims=True) + np.exp(sink - top)
            o = np.einsum("hqk,khd->qhd", s, v.repeat(group, 1)).reshape(n, -1)
            if p + "attn_gate.weight" in w:
                o = golden_moe.gate_attention(self, o, product(x, p + "attn_gate.weight"))
            o = product(normed(o, p + "attn_sub_norm.weight"), p + "attn_output.weight")
            o = normed(o, post) * residual * (get("attention.value_scale", 0) or 1)
            side_by_side = a in PARALLEL or get("use_parallel_residual", a == "gptneox") or a == "stablelm" and last not in w
            y = h if side_by_side else h + o
            if a in SUMS:
                y = norm(y, p + "attn_output_norm.weight")
                if p + "attn_norm_2.weight" in w:
                    y = norm(y + h, p + "attn_norm_2.weight")
            if altup:
                y = (y + altup.laurel(x, p)) / np.sqrt(2)
            x = norm(y, last) if bare or last in w else x if side_by_side else y
            mixed = 0
            if p + "ffn_gate_inp.weight" in w:
                of = norm(h, p + "ffn_norm_exps.weight") if a == "arctic" else normed(y, p + "pre_ffw_norm_2.weight") if a == "gemma4" else x
                router = norm(y, "") * w[p + "ffn_gate_inp.scale"] / np.sqrt(self.n_embd) if a == "gemma4" else h if a == "smallthinker" else None
                mixed = mixture(self, of, p, ACT[self.act], lambda y, name: act(self.type[name])(y) if act else y, router)
                mixed = normed(mixed, p + "post_ffw_norm_2.weight")
            if p + "ffn_up.weight" not in w:
                h = y + normed(mixed, post_ffn) * residual + (o if side_by_side else 0)
                h = norm(h, p + "layer_output_norm.weight") if a in SUMS else h
                continue
            f = product(x, p + "ffn_up.weight")
            if self.act == "xielu":
                f = self.xielu(f, i)
            elif a not in PLAIN and (a != "jina-bert-v2" or p + "ffn_gate.weight" in w):
                gate, f = (product(x, p + "ffn_gate.weight"), f) if p + "ffn_gate.weight" in w else np.split(f, 2, axis=-1)
                if altup:
                    gate = altup.sparse(gate, i)
                f = ACT[self.act](gate) * f
            else:
                f = ACT[self.act](f)
            f = product(normed(f, p + "ffn_sub_norm.weight"), p + "ffn_down.weight")
            f = (normed(f, p + "post_ffw_norm_1.weight") + mixed) * (np.sqrt(0.5) if a == "grok" else 1)
            h = y + normed(f, post_ffn) * residual + (o if side_by_side else 0)
            if a in SUMS:
                h = norm(h, p + "layer_output_norm.weight")
            if altup:
                streams = altup.correct(guess, h, own[:, i], p)
            elif own is not None:
                h = h + norm(product(ACT["gelu_tanh"](product(h, p + "inp_gate.weight")) * own[:, i], p + "proj.weight"), p + "post_norm.weight")
            if p + "layer_output_scale.weight" in w:
                factor = w[p + "layer_output_scale.weight"]
                h = h + first_h * factor if a == "talkie" else h * factor
            if i == self.n_layer - 1 and turn_of_loop + 1 < self.n_layer * self.loops and not get("skip_loop_final_norm", False):
                h = norm(h, "output_norm.weight")
        if altup:
            h = altup.end(streams)
        if a in SUMS:
            return h, product, logit
        return norm(h, "enc.output_norm.weight" if a == "neo-bert" else "output_norm.weight"), product, logit

    def layer_inputs(self, tokens, h, product, norm):
        """Gemma 3n and 4: an embedding for each layer, [n, n_layer, size], of the token and of what its embedding says."""
        if "per_layer_token_embd.weight" not in self.w:
            return None
        size = self.w["per_layer_proj_norm.weight"].shape[0]
        token = self.w["per_layer_token_embd.weight"][tokens].reshape(len(tokens), -1, size) * np.sqrt(size)
        context = product(h, "per_layer_model_proj.weight").reshape(token.shape) / np.sqrt(self.n_embd)
        return (norm(context, "per_layer_proj_norm.weight") + token) / np.sqrt(2)

    def xielu(self, x, i):
        """xIELU (Huang and Schlag 2024), as Apertus has it."""
        n, p, beta, eps = (a_layer(self.field["xielu." + k], self.n_layer)[i] for k in ("alpha_n", "alpha_p", "beta", "eps"))
        n, p = beta + np.log1p(np.exp(n)), np.log1p(np.exp(p))
        return np.where(x > 0, p * x * x, n * (np.expm1(np.minimum(x, eps)) - x)) + beta * x


class AltUp:
    """Gemma 3n: several versions of the stream, of which layers compute the first; Laurel; sparse activations."""

    def __init__(self, model, product, norm):
        self.m, self.w, self.product, self.norm = model, model.w, product, norm
        self.n = model.get("altup.num_inputs", 4)

    def like(self, x, of):
        size = lambda y: (y * y).mean(-1, keepdims=True)
        return x * np.sqrt(size(of) / np.maximum(size(x), 1e-5))

    def begin(self, h):
        return [h] + [self.like(h @ p.T, h) for p in self.w["altup_proj.weight"]]

    def end(self, streams):
        rest = [self.like(x @ p.T, streams[0]) for x, p in zip(streams[1:], self.w["altup_unembd_proj.weight"])]
        return sum([streams[0]] + rest) / self.n

    def modalities(self, x, p):
        return np.tanh(self.product(self.norm(x, p + "altup_router_norm.weight") / self.m.n_embd, p + "altup_router.weight"))

    def predict(self, x, p):
        c = self.product(self.modalities(x[0], p), p + "altup_predict_coef.weight").reshape(-1, self.n, self.n)
        return [x[j] + sum(c[:, j, k, None] * x[k] for k in range(self.n)) for j in range(self.n)]

    def correct(self, guess, y, own, p):
        c = self.product(self.modalities(y, p), p + "altup_correct_coef.weight") + 1
        x = [guess[j] + (y - guess[0]) * c[:, j, None] for j in range(self.n)]
        f = ACT["gelu_tanh"](self.product(x[0] * self.w[p + "altup_correct_scale.weight"], p + "inp_gate.weight")) * own
        f = self.norm(self.product(f, p + "proj.weight"), p + "post_norm.weight")
        return x[:1] + [y + f for y in x[1:]]

    def laurel(self, x, p):
        return x + self.norm(self.product(self.product(x, p + "laurel_l.weight"), p + "laurel_r.weight"), p + "laurel_post_norm.weight")

    def sparse(self, gate, i):
        scales = self.m.get("activation_sparsity_scale")
        scale = (1.6448533535003662 if i < 10 else 0) if scales is None else a_layer(scales, self.m.n_layer)[i]
        if scale == 0:
            return gate
        return np.maximum(gate - gate.mean(-1, keepdims=True) - scale * gate.std(-1, ddof=1, keepdims=True), 0)


def nmse(a, b):
    return ((a - b) ** 2).sum() / (b ** 2).sum()
