#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_trace_corpus.py QUERN MODEL: writes tests/fuzz/corpus/fuzz_trace: small recordings, and their payloads as fuzz_trace takes them."""
import os
import struct
import subprocess
import sys
import tempfile
import zlib

quern, model = sys.argv[1:3]
to = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "fuzz_trace")
os.makedirs(to, exist_ok=True)


def blocks(data):
    at = 16
    while at + 40 <= len(data):
        kind, method, _, rows, _, packed = struct.unpack_from("<HHIIII", data, at + 4)
        payload = data[at + 40 : at + 40 + packed]
        yield kind, rows, zlib.decompress(payload) if method else payload
        at += 40 + packed


with tempfile.TemporaryDirectory() as work:
    for name, options in (("plain", ["-t", "1"]), ("threads", ["-t", "2", "--trace-no-tokens"]), ("ops", ["--trace-ops", "attention"])):
        path = os.path.join(work, name + ".qtr")
        subprocess.run([quern, "run", model, "a b", "-n", "3", "--temp", "0", "--quiet", "--trace", path, *options],
                       check=True, stdout=subprocess.DEVNULL)
        data = open(path, "rb").read()
        open(os.path.join(to, name + ".qtr"), "wb").write(data)
        out, first = b"", True
        for kind, rows, payload in blocks(data):
            if len(payload) < 4000 and rows < 256:
                out += struct.pack("<BBH", kind, rows, len(payload)) + payload
        open(os.path.join(to, name + ".payloads"), "wb").write(out)
# A plan of one node, a step of one token and its event.
text = lambda s: bytes([len(s)]) + s
plan = bytes([1, 1]) + text(b"cpu") + bytes([9, 1]) + text(b"add") + text(b"x") + text(b"F32") + bytes(
    [0, 0, 8, 1, 4, 0, 0, 0, 16, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 1])
step = bytes([1, 10, 1, 1, 2, 1, 1, 1, 1, 14, 2, 0, 5, 5])
events = bytes([20, 1, 0]) + b"".join(bytes([len(c)]) + c for c in (b"\0\1\3", b"\0\0\0", b"\0\0\0", b"\0\5\6", b"\1\2\1"))
pieces = [(7, 1, bytes([1, 2])), (3, 1, plan), (4, 1, step), (10, 1, bytes([1, 0, 2, 2, 2])),
          (11, 1, bytes([1, 0, 2]) + struct.pack("<2f", 0.75, 0.25)), (12, 1, bytes([1, 0, 2, 0, 1]) + struct.pack("<2Q", 1 << 63, 7)),
          (16, 1, bytes([1, 0, 4, 2]) + bytes([0]) + struct.pack("<4f4i", -1, 2, 0.5, 1.2, 1, 0, 2, 3) + bytes([0]) + struct.pack("<4f4I", 0, 0, 0, 0, 0, 4, 0, 2**32 - 1)),
          (5, 3, events),
          (6, 1, bytes([3, 4]) + text(b"mark")), (9, 1, bytes([5, 2, 4, 6, 8, 2, 1, 1])), (7, 1, bytes([100, 101])),
          (8, 1, text(b"stopped") + bytes([1, 0, 1]))]
with open(os.path.join(to, "one.payloads"), "wb") as f:
    for kind, rows, payload in pieces:
        f.write(struct.pack("<BBH", kind, rows, len(payload)) + payload)
# What the kernel said of a file: a table that is looked up and a matrix, looks at the file, samples, and counts.


def v(x):
    out = b""
    while x > 127: out, x = out + bytes([x & 127 | 128]), x >> 7
    return out + bytes([x])


def z(x): return v(2 * x if x >= 0 else -2 * x - 1)


def node(op, name, srcs, bytes_, space, offset, weight_bytes, shape, id_, computes):
    return (text(op) + text(name) + text(b"F32") + z(-1) + z(0) + v(8 if computes else 0) + v(len(shape)) + b"".join(map(v, shape)) +
            v(len(srcs)) + b"".join(z(id_ - s) for s in srcs) + z(0) + z(3) + v(bytes_) + v(space) + v(1 if space == 2 else 0) +
            v(offset) + v(0) + v(0) + v(weight_bytes) + bytes(9))


FILE = 0  # its number, so that file + 1 is 1
plan = v(2) + v(1) + text(b"cpu") + v(0) + v(5) + node(b"param", b"w", [], 40960, 2, 4096, 0, [10, 1024], 0, False) + \
    node(b"input", b"tokens", [], 8, 1, 0, 0, [2], 1, False) + node(b"get_rows", b"embd", [0, 1], 8192, 1, 64, 8192, [2, 1024], 2, True) + \
    node(b"param", b"m", [], 65536, 2, 49152, 0, [64, 256], 3, False) + node(b"linear", b"y", [2, 3], 64, 1, 0, 65536, [2, 8], 4, True)
steps = b"".join(v(n) + v(10 * n) + v(2) + v(0) + v(2) + v(2) + v(1) + v(0) + v(1) + z(n) + z(3) + z(0) + z(1) for n in (1, 2, 3))
look = lambda ns, first, pages: v(ns) + v(FILE) + v(1) + v(4096) + v(8192) + v(first) + v(len(pages)) + b"".join(
    z(p - q) for p, q in zip(pages, [0] + pages))
sample = lambda lane, ns, kind, took, *rest: v(lane) + z(ns) + v(kind) + v(took + 1) + b"".join(rest)
samples = sample(0, 12, 0, 3, v(FILE + 1), z(5000)) + sample(0, 4, 1, 9, v(FILE + 1), z(60000)) + sample(0, 3, 0, -1, v(0)) + \
    sample(0, 2, 2, 5) + sample(7, 1, 3, -1, v(99))
counts = b"".join(v(n) + v(10 * n + 5) + z(n) + z(n) + z(-1) + z(2 * n) + z(4096 * n) for n in range(4))
pieces = [(7, 1, v(1) + v(2)), (1, 1, text(b"faults") + text(b"sampled by hand")), (2, 1, v(FILE) + v(120000) + text(b"m.gguf")),
          (3, 1, plan), (4, 3, steps), (5, 3, events), (14, 2, look(3, 0, [1, 0, 2, 2, 2, 1, 0, 0]) + look(40, 6, [2, 2])),
          (13, 5, samples), (15, 4, counts), (7, 1, v(100) + v(101)), (8, 1, text(b"stopped") + bytes([2, 0, 3]))]
with open(os.path.join(to, "bytes.payloads"), "wb") as f:
    for kind, rows, payload in pieces:
        f.write(struct.pack("<BBH", kind, rows, len(payload)) + payload)
