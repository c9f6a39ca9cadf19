#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpus of fuzz_gguf: corpus/fuzz_gguf/*.gguf, and beside it corpus/fuzz_gguf.expect.

Every file is built here from nothing but the format's description, so that each differs from a good one in exactly one way.
  good-*   must open
  bad-*    must not; the expect file says with which status, and what the message must name
  tok-*    good GGUF files whose tokenizer is bad in one way: for whoever reads tokenizers
The expect file has one line a corpus file: name, status ("ok" opens), then substrings of the message, separated by tabs.
Run it after changing it: python3 tests/fuzz/make_corpus.py. Needs no package; the output does not depend on the machine.
"""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FORMAT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
# name, id in the file, elements a block, bytes a block
DTYPES = [("F32", 0, 1, 4), ("F16", 1, 1, 2), ("BF16", 30, 1, 2), ("F64", 28, 1, 8), ("I8", 24, 1, 1), ("I16", 25, 1, 2),
          ("I32", 26, 1, 4), ("I64", 27, 1, 8), ("Q4_0", 2, 32, 18), ("Q4_1", 3, 32, 20), ("Q5_0", 6, 32, 22),
          ("Q5_1", 7, 32, 24), ("Q8_0", 8, 32, 34), ("Q2_K", 10, 256, 84), ("Q3_K", 11, 256, 110), ("Q4_K", 12, 256, 144),
          ("Q5_K", 13, 256, 176), ("Q6_K", 14, 256, 210), ("IQ2_XXS", 16, 256, 66), ("IQ2_XS", 17, 256, 74),
          ("IQ3_XXS", 18, 256, 98), ("IQ1_S", 19, 256, 50), ("IQ4_NL", 20, 32, 18), ("IQ3_S", 21, 256, 110),
          ("IQ2_S", 22, 256, 82), ("IQ4_XS", 23, 256, 136), ("IQ1_M", 29, 256, 56), ("TQ1_0", 34, 256, 54),
          ("TQ2_0", 35, 256, 66), ("MXFP4", 39, 32, 17), ("NVFP4", 40, 64, 36)]


class Raw(bytes):
    """Bytes that go into the file as they are, in place of a value or a description."""


class Gguf:
    """A GGUF file under construction. Fields left None are computed; setting them makes the file lie."""

    def __init__(self, version=3, big=False):
        self.version, self.big = version, big
        self.magic = b"GGUF"
        self.kvs, self.tensors = [], []
        self.n_kv = self.n_tensors = None
        self.align = 32
        self.data = None
        self.marks = {}

    def p(self, fmt, *values):
        return struct.pack((">" if self.big else "<") + fmt, *values)

    def string(self, text, length=None):
        raw = text if isinstance(text, bytes) else text.encode()
        return self.p("Q", len(raw) if length is None else length) + raw

    def value(self, kind, value):
        if isinstance(value, Raw):
            return bytes(value)
        if kind == STR:
            return self.string(value)
        if kind == ARR:
            elem, items = value
            return self.p("IQ", elem, len(items)) + b"".join(self.value(elem, x) for x in items)
        return self.p(FORMAT[kind], value)

    def kv(self, key, kind, value):
        self.kvs.append((key, kind, value))
        return self

    def tensor(self, name, dims, dtype=0, offset=None, size=None):
        """dims as in the file: innermost first. size: bytes of data that follow, for files that don't lie about it."""
        self.tensors.append((name, dims, dtype, offset, size))
        return self

    def bytes(self):
        out = bytearray(self.magic + self.p("I", self.version))
        out += self.p("QQ", len(self.tensors) if self.n_tensors is None else self.n_tensors,
                      len(self.kvs) if self.n_kv is None else self.n_kv)
        for key, kind, value in self.kvs:
            self.marks["key " + (key if isinstance(key, str) else "raw")] = len(out)
            out += (bytes(key) if isinstance(key, Raw) else self.string(key)) + self.p("I", kind) + self.value(kind, value)
        at = 0
        data = bytearray()
        for name, dims, dtype, offset, size in self.tensors:
            self.marks["tensor " + (name if isinstance(name, str) else "raw")] = len(out)
            out += bytes(name) if isinstance(name, Raw) else self.string(name)
            out += self.p("I", len(dims)) + b"".join(self.p("Q", d) for d in dims)
            out += self.p("IQ", dtype, at if offset is None else offset)
            size = 0 if size is None else size
            data += bytes(size) + bytes(-size % self.align)
            at = len(data)
        self.marks["header end"] = len(out)
        if self.tensors:
            out += bytes(-len(out) % self.align)
        self.marks["data"] = len(out)
        out += data if self.data is None else self.data
        return bytes(out)


def base(**args):
    """The good file that most bad ones differ from: two keys and a tensor of 8 floats."""
    return Gguf(**args).kv("general.architecture", STR, "llama").kv("general.name", STR, "corpus")


def with_tensor(**args):
    return base(**args).tensor("a.weight", [4, 2], 0, size=32)


FILES = []


def add(name, data, status="format", *expect):
    data = data.bytes() if isinstance(data, Gguf) else data
    assert all(name != other[0] for other in FILES), name
    FILES.append((name + ".gguf", data, status, expect))


def good():
    for version in (2, 3):
        for big in (False, True):
            add(f"good-v{version}-{'big' if big else 'little'}", with_tensor(version=version, big=big), "ok")
    add("good-empty", Gguf(), "ok")
    add("good-no-tensors", base(), "ok")
    for big in (False, True):
        g = Gguf(big=big)
        for kind, value in ((U8, 255), (I8, -128), (U16, 65535), (I16, -32768), (U32, 4294967295), (I32, -2147483648),
                            (F32, 1.5), (BOOL, 1), (STR, "gr\u00fc\u00df \u4f60\u597d \U0001f600"), (U64, 2**64 - 1), (I64, -2**63),
                            (F64, -0.1)):
            g.kv(f"scalar.{kind}", kind, value)
            if kind != STR:
                g.kv(f"array.{kind}", ARR, (kind, [value, 0, 1]))
        g.kv("array.8", ARR, (STR, ["", "one", "zw\u00f6lf"])).kv("array.empty", ARR, (STR, []))
        g.kv("array.nested", ARR, (ARR, [(U16, [1, 2]), (STR, ["x", ""]), (ARR, [(ARR, [(I8, [-1])])])]))
        add("good-every-value-" + ("big" if big else "little"), g, "ok")
        g = Gguf(big=big)
        for i, (name, number, block, size) in enumerate(DTYPES):
            g.tensor("t." + name.lower(), [block], number, size=size)
        add("good-every-type-" + ("big" if big else "little"), g, "ok")
    g = base().kv("general.alignment", U32, 64)
    g.align = 64
    add("good-alignment-64", g.tensor("a", [3], 0, size=12).tensor("b", [5], 0, size=20), "ok")
    g = base().tensor("last", [4], 0, offset=64).tensor("first", [4], 0, offset=0).tensor("middle", [4], 0, offset=32)
    g.data = bytes(96)
    add("good-data-out-of-order", g, "ok")
    g = base().tensor("eight", [1, 2, 1, 2, 1, 2, 1, 2], 0, size=64)
    add("good-eight-dimensions", g, "ok")
    split = lambda n: with_tensor().kv("split.no", U16, 0).kv("split.count", U16, n).kv("split.tensors.count", I32, 1)
    add("good-split-of-one", split(1), "ok")
    add("good-split-merged", split(0), "ok")
    add("good-alignment-as-u64", base().kv("general.alignment", U64, 32), "ok")


def truncated():
    g = with_tensor().kv("list", ARR, (STR, ["abc", "de"])).kv("number", U32, 7)
    whole = g.bytes()
    m = g.marks
    at = {"0-nothing": (0, "magic"), "1-in-magic": (3, "magic"), "2-in-version": (6, "version"), "3-in-counts": (20, "count"),
          "4-before-keys": (24, "keys"), "5-in-key-length": (m["key general.architecture"] + 5, "count"),
          "6-in-key": (m["key general.architecture"] + 20, "count"),
          "7-in-array": (m["key list"] + 8 + 4 + 4 + 12 + 5, "list", "array", "strings"),
          "8-in-array-count": (m["key list"] + 8 + 4 + 4 + 7, "list", "array"),
          "9-in-value": (m["key number"] + 8 + 6 + 4 + 2, "number", "4 bytes"),
          "10-in-name-length": (m["tensor a.weight"] + 3, "tensor", "length"),
          "11-in-name": (m["tensor a.weight"] + 12, "tensor", "bytes left"),
          "12-in-dimensions": (m["tensor a.weight"] + 8 + 8 + 4 + 9, "a.weight", "dimensions"),
          "13-in-type": (m["tensor a.weight"] + 8 + 8 + 4 + 16 + 2, "a.weight", "type"),
          "14-in-offset": (m["header end"] - 4, "a.weight", "offset"),
          "15-before-padding": (m["header end"], "a.weight", "end"),
          "16-before-data": (m["data"], "a.weight", "end"),
          "17-in-data": (m["data"] + 31, "a.weight", "end")}
    # A count that no longer fits the bytes left is found before the part that is missing, so those files carry smaller ones.
    for name, (size, *expect) in at.items():
        data = bytearray(whole[:size])
        if name.startswith(("7-", "8-")):
            data[8:24] = struct.pack("<QQ", 0, 3)
            expect = ("list", "array" if name.startswith("7-") else "array's")
        if name.startswith("9-"):
            data[8:24] = struct.pack("<QQ", 0, 4)
        if name.startswith(("10-", "11-", "12-", "13-")):
            data[8:24] = struct.pack("<QQ", 1, 4)
        if name.startswith(("5-", "6-")):
            expect = ("expected", "keys")
        add("bad-truncated-" + name, bytes(data), "format", "offset", "expected", *expect)
    add("bad-truncated-19-in-string", base().bytes()[:-3], "format", "general.name", "string", "expected")
    add("bad-truncated-20-in-first-name", struct.pack("<4sIQQQ", b"GGUF", 3, 0, 1, 60) + b"general.arch", "format", "key number 0",
        "60", "12")


def frame():
    add("bad-magic", b"GGML" + with_tensor().bytes()[4:], "format", "magic", "GGML", "GGUF")
    add("bad-magic-text", b"#!/bin/sh\necho this is no model\n" * 2, "format", "magic", "GGUF")
    add("bad-version-1", with_tensor(version=1), "unsupported", "version 1", "2 or 3")
    add("bad-version-1-big", with_tensor(version=1, big=True), "unsupported", "version 1", "2 or 3")
    add("bad-version-4", with_tensor(version=4), "unsupported", "version 4", "2 or 3")
    add("bad-version-huge", with_tensor(version=0x00ff00ff), "unsupported", "version", "2 or 3")
    for what, expect in (("n_kv", "keys"), ("n_tensors", "tensors")):
        for label, count in (("1000", 1000), ("2e63", 2**63), ("all-ones", 2**64 - 1)):
            g = with_tensor()
            setattr(g, what, count)
            add(f"bad-count-{what}-{label}", g, "format", "count", str(count), expect, "expected")
    g = with_tensor()
    g.n_kv = 3
    add("bad-count-one-key-more", g, "format", "expected")
    g = with_tensor()
    g.n_kv = 1
    add("bad-count-one-key-less", g, "format", "expected")
    g = with_tensor()
    g.n_tensors = 2
    add("bad-count-one-tensor-more", g, "format", "tensor", "expected")


def keys():
    add("bad-key-empty", base().kv("", U32, 1), "format", "key number 2", "nothing", "UTF-8")
    add("bad-key-utf8", base().kv(Raw(struct.pack("<Q", 4) + b"ab\xff\xfe"), U32, 1), "format", "ab", "UTF-8")
    add("bad-key-nul", base().kv("gen\0eral", U32, 1), "format", "gen", "control character")
    add("bad-key-huge", base().kv(Raw(struct.pack("<Q", 2**64 - 1) + b"abc"), U32, 1), "format", "key number 2", "18446744073709551615",
        "left")
    add("bad-key-twice", base().kv("x.y", U32, 1).kv("general.name", STR, "again"), "format", "general.name", "once")
    add("bad-value-type", base().kv("some.key", 13, Raw(b"\1\2\3\4")), "format", "some.key", "type 13", "0 (u8) to 12 (f64)")
    add("bad-value-type-huge", base().kv("some.key", 0xffffffff, Raw(b"\1\2\3\4")), "format", "some.key", "4294967295")
    add("bad-bool", base().kv("flag", BOOL, 2), "format", "flag", "found 2", "0 or 1")
    add("bad-bool-in-array", base().kv("flags", ARR, (BOOL, [0, 1, 255])), "format", "flags", "found 255", "0 or 1")
    add("bad-string-utf8", base().kv("text", STR, b"caf\xe9"), "format", "text", "0xe9", "UTF-8")
    add("bad-string-overlong", base().kv("text", STR, b"a\xc0\xafb"), "format", "text", "0xc0", "UTF-8")
    add("bad-string-surrogate", base().kv("text", STR, b"a\xed\xa0\x80b"), "format", "text", "0xed", "UTF-8")
    add("bad-string-past-unicode", base().kv("text", STR, b"\xf4\x90\x80\x80"), "format", "text", "0xf4", "UTF-8")
    add("bad-string-huge", base().kv("text", STR, Raw(struct.pack("<Q", 2**63) + b"abc")), "format", "text", "9223372036854775808",
        "left")
    add("bad-string-one-too-long", base().kv("text", STR, Raw(struct.pack("<Q", 4) + b"abc")), "format", "text", "found a string of 4",
        "3 bytes left")
    add("bad-array-utf8", base().kv("list", ARR, (STR, ["ok", b"\x80"])), "format", "list", "element 1", "UTF-8")
    add("bad-array-type", base().kv("list", ARR, Raw(struct.pack("<IQ", 77, 1) + b"abcd")), "format", "list", "element type 77")
    for elem in (U8, U64, STR, ARR):
        add(f"bad-array-count-{elem}", base().kv("list", ARR, Raw(struct.pack("<IQ", elem, 2**61) + bytes(24))), "format", "list",
            "2305843009213693952", "expected")
    add("bad-array-string-huge", base().kv("list", ARR, Raw(struct.pack("<IQQ", STR, 1, 2**40) + b"xy")), "format", "list",
        "element 0", "1099511627776")
    nest = lambda depth: (U8, [1]) if depth == 0 else (ARR, [nest(depth - 1)])
    add("good-array-four-deep", base().kv("deep", ARR, nest(3)), "ok")
    add("bad-array-five-deep", base().kv("deep", ARR, nest(4)), "limit", "deep", "4")
    add("bad-array-fifty-deep", base().kv("deep", ARR, nest(50)), "limit", "deep", "4")
    for value in (0, 1, 4, 7, 24, 2**21, 2**31):
        add(f"bad-alignment-{value}", with_tensor().kv("general.alignment", U32, value), "format", "general.alignment", str(value),
            "power of two")
    add("bad-alignment-negative", with_tensor().kv("general.alignment", I32, -32), "format", "general.alignment", "-32", "0 or more")
    add("bad-alignment-string", with_tensor().kv("general.alignment", STR, "32"), "format", "general.alignment", "str", "integer")


def tensors():
    add("bad-tensor-name-empty", base().tensor("", [4], size=16), "format", "tensor number 0", "nothing")
    add("bad-tensor-name-utf8", base().tensor(Raw(struct.pack("<Q", 3) + b"w\xc3("), [4], size=16), "format", "UTF-8")
    add("bad-tensor-name-long", base().tensor("n" * 256, [4], size=16), "format", "tensor", "256", "255")
    add("bad-tensor-name-huge", base().tensor(Raw(struct.pack("<Q", 2**62) + b"w"), [4], size=16), "format", "tensor number 0",
        "4611686018427387904")
    add("bad-tensor-twice", base().tensor("a.weight", [4], size=16).tensor("b", [4], size=16).tensor("a.weight", [4], size=16),
        "format", "a.weight", "once")
    add("bad-tensor-no-dimensions", base().tensor("scalar", [], size=4).tensor("pad", [1], size=4), "format", "scalar",
        "0 dimensions", "1 to 8")
    add("bad-tensor-nine-dimensions", base().tensor("nine", [1] * 9, size=4), "format", "nine", "9 dimensions", "1 to 8")
    add("bad-tensor-many-dimensions", base().tensor(Raw(struct.pack("<Q4sI", 4, b"many", 2**32 - 1)), [1]), "format", "many",
        "4294967295")
    add("bad-tensor-zero-dimension", base().tensor("hollow", [4, 0], size=16), "format", "hollow", "found 0 as dimension 1")
    add("bad-tensor-negative-dimension", base().tensor("minus", [2**64 - 4], size=16), "format", "minus", "dimension 0")
    add("bad-tensor-elements-overflow", base().tensor("wide", [2**32, 2**32], size=16), "format", "wide", "2^63")
    add("bad-tensor-elements-wrap", base().tensor("wrap", [2**62, 4, 2], size=16), "format", "wrap", "2^63")
    add("bad-tensor-bytes-overflow", base().tensor("fat", [2**61, 2], size=16), "format", "fat", "2^63")
    add("bad-tensor-type-99", base().tensor("odd", [4], 99, size=16), "unsupported", "odd", "type 99", "Q4_K")
    add("bad-tensor-type-removed", base().tensor("odd", [32], 4, size=32), "unsupported", "odd", "Q4_2", "Q4_K")
    add("bad-tensor-type-internal", base().tensor("odd", [256], 15, size=292), "unsupported", "odd", "Q8_K", "Q4_K")
    add("bad-tensor-type-all-ones", base().tensor("odd", [4], 2**32 - 1, size=16), "unsupported", "odd", "4294967295", "Q4_K")
    add("bad-tensor-row-q4_0", base().tensor("ragged", [33], 2, size=36), "format", "ragged", "33", "multiple of 32")
    add("bad-tensor-row-q4_k", base().tensor("ragged", [128, 2], 12, size=144), "format", "ragged", "128", "multiple of 256")
    add("bad-offset-unaligned", base().tensor("a", [4], offset=4, size=32), "format", '"a"', "at 4", "alignment 32")
    add("bad-offset-past-end", base().tensor("far", [4], offset=4096, size=16), "format", "far", "4096", "end")
    add("bad-offset-all-ones", base().tensor("far", [4], offset=2**64 - 32, size=16), "format", "far", "18446744073709551584")
    add("bad-offset-wraps", base().tensor("far", [4], offset=2**63, size=16), "format", "far", "end")
    add("bad-data-one-byte-short", base().tensor("a", [8, 2], size=63).bytes()[:-1], "format", '"a"', "64 bytes long")
    add("bad-overlap-same", base().tensor("one", [8], offset=0, size=32).tensor("two", [8], offset=0, size=32), "format", "two",
        "one", "overlap")
    add("bad-overlap-part", base().tensor("one", [16], offset=0, size=64).tensor("two", [8], offset=32), "format", "two", "one",
        "overlap")
    g = base().tensor("late", [8], offset=32).tensor("early", [16], offset=0)
    g.data = bytes(64)
    add("bad-overlap-out-of-order", g, "format", "late", "early", "overlap")
    g = base().tensor("outer", [32], offset=0).tensor("x", [4], offset=96).tensor("inner", [4], offset=32)
    g.data = bytes(128)
    add("bad-overlap-inside", g, "format", "inner", "outer", "overlap")


def split():
    def part(no=(U16, 0), count=(U16, 2), total=(I32, 1)):
        g = with_tensor()
        for key, value in (("split.no", no), ("split.count", count), ("split.tensors.count", total)):
            if value:
                g.kv(key, *value)
        return g
    add("bad-split-alone", part(), "format", "split.count", "found a count of 2", "expected")
    add("bad-split-huge", part(count=(U64, 2**63)), "format", "split.count", "9223372036854775808", "512")
    add("bad-split-not-first", part(no=(U16, 1)), "format", "split.no", "index 1", "00001")
    add("bad-split-no-number", part(no=None), "format", "split.no", "no such key")
    add("bad-split-count-string", part(count=(STR, "2")), "format", "split.count", "str", "integer")
    add("bad-split-count-negative", part(count=(I16, -2)), "format", "split.count", "-2")
    add("bad-split-tensor-count", part(count=(U16, 1), total=(I32, 5)), "format", "split.tensors.count", "5", "1 that the parts hold")
    add("bad-split-no-tensor-count", part(count=(U16, 1), total=None), "format", "split.tensors.count", "no such key")


def tokenizers():
    byte_tokens = [f"<0x{i:02X}>" for i in range(4)]

    def spm(tokens=("<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a"), scores=None, types=None, **extra):
        g = Gguf().kv("general.architecture", STR, "llama").kv("tokenizer.ggml.model", STR, "llama")
        tokens = list(tokens) + byte_tokens
        g.kv("tokenizer.ggml.tokens", ARR, (STR, tokens))
        g.kv("tokenizer.ggml.scores", ARR, scores or (F32, [-float(i) for i in range(len(tokens))]))
        g.kv("tokenizer.ggml.token_type", ARR, types or (I32, [2, 3, 3] + [1] * (len(tokens) - 7) + [6] * 4))
        for key, (kind, value) in extra.items():
            g.kv("tokenizer.ggml." + key, kind, value)
        return g

    def bpe(tokens=("a", "b", "ab", "\u0120a"), merges=("a b", "\u0120 a"), pre="gpt-2", **extra):
        g = Gguf().kv("general.architecture", STR, "llama").kv("tokenizer.ggml.model", STR, "gpt2")
        g.kv("tokenizer.ggml.pre", STR, pre)
        tokens = list(tokens) + ["\u0120", "<|end|>"]
        g.kv("tokenizer.ggml.tokens", ARR, (STR, tokens))
        g.kv("tokenizer.ggml.token_type", ARR, (I32, [1] * (len(tokens) - 1) + [3]))
        if merges is not None:
            g.kv("tokenizer.ggml.merges", ARR, merges if isinstance(merges, tuple) and merges and merges[0] == U32
                 else (STR, list(merges)))
        for key, (kind, value) in extra.items():
            g.kv("tokenizer.ggml." + key, kind, value)
        return g

    add("tok-good-spm", spm(), "ok")
    add("tok-good-bpe", bpe(), "ok")
    add("tok-bpe-merge-names-no-token", bpe(merges=("a b", "b zz")), "ok")
    add("tok-bpe-merge-makes-no-token", bpe(merges=("a b", "b a")), "ok")
    add("tok-bpe-merge-without-space", bpe(merges=("a b", "ab")), "ok")
    add("tok-bpe-merge-empty", bpe(merges=("", "a b")), "ok")
    add("tok-bpe-merge-half", bpe(merges=("a ", " b")), "ok")
    add("tok-bpe-merges-missing", bpe(merges=None), "ok")
    add("tok-bpe-merges-not-strings", bpe(merges=(U32, [1, 2])), "ok")
    add("tok-bpe-pre-unknown", bpe(pre="nobody-knows"), "ok")
    add("tok-bpe-token-twice", bpe(tokens=("a", "b", "a", "ab", "\u0120a")), "ok")
    add("tok-bpe-eos-out-of-range", bpe(eos_token_id=(U32, 6000)), "ok")
    add("tok-spm-scores-short", spm(scores=(F32, [0.0] * 9)), "ok")
    add("tok-spm-scores-long", spm(scores=(F32, [0.0] * 11)), "ok")
    add("tok-spm-scores-integers", spm(scores=(I32, [0] * 10)), "ok")
    add("tok-spm-scores-strings", spm(scores=(STR, ["0"] * 10)), "ok")
    add("tok-spm-scores-nan", spm(scores=(F32, [float("nan")] * 10)), "ok")
    add("tok-spm-types-short", spm(types=(I32, [1] * 9)), "ok")
    add("tok-spm-types-long", spm(types=(I32, [1] * 11)), "ok")
    add("tok-spm-type-out-of-range", spm(types=(I32, [2, 3, 3, 1, 1, 99, 6, 6, 6, 6])), "ok")
    add("tok-spm-type-negative", spm(types=(I32, [2, 3, 3, 1, 1, -1, 6, 6, 6, 6])), "ok")
    add("tok-spm-bos-out-of-range", spm(bos_token_id=(U32, 10)), "ok")
    add("tok-spm-bos-string", spm(bos_token_id=(STR, "<s>")), "ok")
    add("tok-spm-byte-name", spm(tokens=("<unk>", "<s>", "</s>", "\u2581", "a", "<0xZZ>"), types=(I32, [2, 3, 3, 1, 1] + [6] * 5)), "ok")
    add("tok-tokens-missing", Gguf().kv("general.architecture", STR, "llama").kv("tokenizer.ggml.model", STR, "llama"), "ok")
    add("tok-tokens-empty", Gguf().kv("tokenizer.ggml.model", STR, "llama").kv("tokenizer.ggml.tokens", ARR, (STR, [])), "ok")
    add("tok-tokens-one-string", Gguf().kv("tokenizer.ggml.model", STR, "llama").kv("tokenizer.ggml.tokens", STR, "a b c"), "ok")
    add("tok-tokens-numbers", Gguf().kv("tokenizer.ggml.model", STR, "llama").kv("tokenizer.ggml.tokens", ARR, (U32, [1, 2])), "ok")
    add("tok-model-missing", Gguf().kv("tokenizer.ggml.tokens", ARR, (STR, ["a", "b"])), "ok")
    add("tok-model-unknown", Gguf().kv("tokenizer.ggml.model", STR, "abacus").kv("tokenizer.ggml.tokens", ARR, (STR, ["a", "b"])), "ok")
    add("tok-model-number", Gguf().kv("tokenizer.ggml.model", U32, 7).kv("tokenizer.ggml.tokens", ARR, (STR, ["a", "b"])), "ok")
    add("tok-wordpiece-no-unknown", Gguf().kv("tokenizer.ggml.model", STR, "bert").kv("tokenizer.ggml.tokens", ARR, (STR, ["a", "##b"])),
        "ok")


def main():
    good()
    truncated()
    frame()
    keys()
    tensors()
    split()
    tokenizers()
    folder = os.path.join(HERE, "corpus", "fuzz_gguf")
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".gguf"):
            os.remove(os.path.join(folder, name))
    with open(os.path.join(HERE, "corpus", "fuzz_gguf.expect"), "w", newline="\n") as expect:
        for name, data, status, substrings in FILES:
            with open(os.path.join(folder, name), "wb") as f:
                f.write(data)
            expect.write("\t".join((name, status) + tuple(substrings)) + "\n")
    bad = sum(name.startswith("bad-") for name, _, _, _ in FILES)
    print(f"{len(FILES)} files, {bad} bad, {sum(len(d) for _, d, _, _ in FILES)} bytes")


if __name__ == "__main__":
    main()
