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
          (5, 3, events),
          (6, 1, bytes([3, 4]) + text(b"mark")), (9, 1, bytes([5, 2, 4, 6, 8, 2, 1, 1])), (7, 1, bytes([100, 101])),
          (8, 1, text(b"stopped") + bytes([1, 0, 1]))]
with open(os.path.join(to, "one.payloads"), "wb") as f:
    for kind, rows, payload in pieces:
        f.write(struct.pack("<BBH", kind, rows, len(payload)) + payload)
