#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpus of fuzz_tokenizer: corpus/fuzz_tokenizer/*. Run it after changing it; needs no package.

text-*   byte 0 even: vocabulary number, options, text
vocab-*  byte 0 odd: a GGUF file with a tokenizer, good or bad in one way
"""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "fuzz_tokenizer")
U8, U32, I32, F32, BOOL, STR, ARR = 0, 4, 5, 6, 7, 8, 9
PACK = {U8: "B", U32: "I", I32: "i", F32: "f", BOOL: "B"}
KEY = "tokenizer.ggml."
B = "\u2581"

TEXTS = {
    "plain": b"Hello world, the cat's 12345 aaaa\n\n\tend ",
    "unicode": "\u00e9\u20ac\U0001f680 \u4e2d\u6587 \ud55c\uad6d \u0939\u093f \ufb01 \u2460\u00c5 e\u0301\u3000\u200b\u2026 ".encode(),
    "broken": b"a\x80\xff\xe2\x96 \xf0\x9f\x9a \xc0\x80\xed\xa0\x80\xf4\x90\x80\x80 z",
    "special": b"<s>a</s> <sep>[U1][U12]<unk>[CLS] b [SEP]<turn|>",
    "spaces": b"   a  \n \r\n \t\t x" + b" " * 40 + b"\n" * 20 + b"'s 'LL",
}
N_VOCABS = 30


def string(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    return string(v) if kind == STR else struct.pack("<" + PACK[kind], v)


def gguf(pairs):
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs))
    for key, kind, v in pairs:
        out += string(key)
        if isinstance(v, (list, tuple)):
            out += struct.pack("<IIQ", ARR, kind, len(v)) + b"".join(value(kind, x) for x in v)
        else:
            out += struct.pack("<I", kind) + value(kind, v)
    return out


def vocab(model, tokens, types=None, scores=None, merges=None, pre=None, more=()):
    pairs = [(KEY + "model", STR, model)]
    if pre is not None:
        pairs.append((KEY + "pre", STR, pre))
    pairs.append((KEY + "tokens", STR, tokens))
    if types is not None:
        pairs.append((KEY + "token_type", I32, types))
    if scores is not None:
        pairs.append((KEY + "scores", F32, scores))
    if merges is not None:
        pairs.append((KEY + "merges", STR, merges))
    return gguf(pairs + list(more))


def charsmap(nodes, replacements):
    return list(struct.pack("<I", 4 * len(nodes)) + struct.pack("<%dI" % len(nodes), *nodes) + replacements)


def files():
    spm = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", B, "a", "b", "ab", B + "a", "[INST]", "<|im_end|>"]
    types = [2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1, 4, 1]
    scores = [0.0] * 6 + [-float(i) for i in range(7)]
    yield "spm", vocab("llama", spm, types, scores)
    yield "spm-no-types", vocab("llama", spm)
    yield "spm-phi3", vocab("llama", spm, types, scores, more=[("general.name", STR, "phi-3"), (KEY + "eos_token_id", U32, 12)])
    yield "spm-tiny", vocab("llama", ["a"])
    yield "spm-nan", vocab("llama", spm, types, [float("nan")] * 13)
    yield "spm-short", vocab("llama", spm, types[:-1], scores)
    yield "spm-byte-names", vocab("llama", spm, [6] * 13, scores)
    yield "spm-bad-utf8", vocab("llama", [b"\xff", b"\xe2\x96", b"\x81", b"\xe2\x96\x81\xff", b"a\xc3"], [1, 1, 1, 4, 3])
    yield "spm-empty-piece", vocab("llama", ["", "a", ""], [1, 1, 3])
    bpe = ["<|endoftext|>", "a", "b", "ab", "\u0120", "\u0120a", "\u010a", "\u00c3", "\u00a9", "\u4e2d"]
    merges = ["a b", "\u0120 a"]
    for pre in ("gpt-2", "llama-bpe", "deepseek-llm", "tiny_aya", "superbpe", "gemma4", "sarvam-moe", "whitespace", "kimi-k2", "nope"):
        yield "bpe-" + pre, vocab("gpt2", bpe, [3] + [1] * 9, merges=merges, pre=pre, more=[(KEY + "eos_token_id", U32, 0)])
    yield "bpe-no-pre", vocab("gpt2", bpe, merges=merges)
    yield "bpe-twice", vocab("gpt2", bpe + ["a"], merges=merges, pre="gpt-2")
    yield "bpe-no-token", vocab("gpt2", bpe, merges=["a b", "a zz"], pre="gpt-2")
    yield "bpe-no-space", vocab("gpt2", bpe, merges=["ab"], pre="gpt-2")
    yield "bpe-id", vocab("gpt2", bpe, merges=merges, pre="gpt-2", more=[(KEY + "bos_token_id", U32, 10)])
    yield "gemma4", vocab("gemma4", ["<bos>", B, "a", B + "a", "\n", "\n\n", "<0xFF>", "</s>", "<|tool_response>"],
                          [3, 1, 1, 1, 1, 1, 6, 3, 3], merges=[B + " a"], more=[(KEY + "bos_token_id", U32, 0)])
    yield "whitespace", vocab("whitespace", ["a", "b", "ab", "A"], merges=["a b"], pre="whitespace",
                              more=[(KEY + "normalizer.lowercase", BOOL, 1)])
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", B + "hello", B + "the", "a", B + "a", B + ",", "'", B + "'", "s"]
    yield "bert", vocab("bert", bert, [3, 2, 3, 3] + [1] * 8, more=[(KEY + "unknown_token_id", U32, 1), (KEY + "cls_token_id", U32, 2),
                                                                 (KEY + "seperator_token_id", U32, 3)])
    yield "bert-no-unknown", vocab("bert", bert)
    t5 = ["<pad>", "</s>", "<unk>", B, "a", "b", "ab", B + "the", "[INST]"]
    flags = [(KEY + "add_space_prefix", BOOL, 1), (KEY + "remove_extra_whitespaces", BOOL, 1)]
    nodes = [0] * 128
    nodes[ord("a")] = ord("a") | 1 << 8 | 1 << 10
    nodes[ord("a") ^ 1] = 1 << 31 | 2
    t5_types, t5_scores = [3, 3, 2, 1, 1, 1, 5, 1, 4], [0.0, 0.0, 0.0, -2.0, -3.0, -4.0, -3.5, -1.0, 0.0]
    yield "t5", vocab("t5", t5, t5_types, t5_scores, more=flags + [(KEY + "precompiled_charsmap", U8, charsmap(nodes, b"x\0b b\0"))])
    yield "t5-no-map", vocab("t5", t5, t5_types, t5_scores, more=flags[:1])
    yield "t5-map-index", vocab("t5", t5, t5_types, t5_scores, more=[(KEY + "precompiled_charsmap", U8, charsmap([200 << 10], b"x\0"))])
    yield "t5-map-open", vocab("t5", t5, t5_types, t5_scores, more=[(KEY + "precompiled_charsmap", U8, charsmap(nodes, b"xyz"))])
    yield "t5-map-size", vocab("t5", t5, t5_types, t5_scores, more=[(KEY + "precompiled_charsmap", U8, [255, 255, 255, 255, 0, 0])])
    yield "t5-no-normal", vocab("t5", t5, [3] * 9, t5_scores)
    yield "rwkv", vocab("rwkv", ["<s>", "a", "\\n", "\\x00", "\\xff", "ab", "\\", "\\x", "\\xg", "\\\\"])
    yield "unknown-model", vocab("abacus", spm)
    yield "no-tokens", gguf([(KEY + "model", STR, "llama")])
    yield "cut", vocab("llama", spm, types, scores)[:150]


def main():
    os.makedirs(HERE, exist_ok=True)
    for name in os.listdir(HERE):
        os.remove(os.path.join(HERE, name))
    for v in range(N_VOCABS):
        for i, (name, text) in enumerate(sorted(TEXTS.items())):
            if v >= 6 and i != v % len(TEXTS):
                continue  # every text for every family, one for each further pre-tokenizer
            open(os.path.join(HERE, "text-%02d-%s" % (v, name)), "wb").write(bytes([0, v, 3 if i % 2 else v % 16]) + text)
    for name, data in files():
        open(os.path.join(HERE, "vocab-" + name), "wb").write(b"\1" + data)


main()
