#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""quern reorder against the `gguf` package (PyPI): a model whose tensors lie in the order of their names (layers 0, 1,
10, 11, 2) is reordered; keys and bytes of tensors must be the same, layers in the order of their numbers.

    python3 tests/oracle/reorder.py build/quern
"""
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader


def tensors(path):
    return [(t.name, t.tensor_type, tuple(t.shape), bytes(np.ascontiguousarray(t.data))) for t in GGUFReader(path).tensors]


def keys(path):
    return {name: [bytes(p) for p in f.parts] for name, f in GGUFReader(path).fields.items() if not name.startswith("GGUF.")}


def by_name(source, target):
    """The same file, tensors in the order of their names: its table and data are written anew, by hand."""
    reader, raw = GGUFReader(source), open(source, "rb").read()
    info = reader.tensors[0].field
    head, out, at = bytearray(raw[: info.offset]), bytearray(), 0
    data = bytearray()
    for t in sorted(reader.tensors, key=lambda t: t.name):
        record = b"".join(bytes(p) for p in t.field.parts)
        data += bytes(-len(data) % 32)
        out += record[:-8] + len(data).to_bytes(8, "little")
        data += raw[t.data_offset : t.data_offset + t.n_bytes]
    head += out
    head += bytes(-len(head) % 32)
    open(target, "wb").write(head + data)


def main():
    quern, work = sys.argv[1], tempfile.mkdtemp()
    model, mixed, sorted_ = (f"{work}/{n}.gguf" for n in ("model", "mixed", "sorted"))
    size = "--layers 12 --embd 64 --heads 4 --kv-heads 2 --ff 96 --vocab-size 300 --type Q8_0".split()
    subprocess.run([quern, "synth", model, "--arch", "llama", *size], check=True)
    by_name(model, mixed)
    names = [t[0] for t in tensors(mixed)]
    layers = [int(n.split(".")[1]) for n in names if n.startswith("blk.")]
    assert layers != sorted(layers)
    subprocess.run([quern, "reorder", mixed, sorted_], check=True)
    after = tensors(sorted_)
    layers = [int(t[0].split(".")[1]) for t in after if t[0].startswith("blk.")]
    assert layers == sorted(layers), layers
    assert after[0][0] == "token_embd.weight" and after[-1][0].startswith("output"), (after[0][0], after[-1][0])
    assert sorted(after) == sorted(tensors(mixed)) == sorted(tensors(model))
    assert keys(sorted_) == keys(mixed) == keys(model)
    print(f"{len(after)} tensors and {len(keys(model))} keys are the same; layers {layers[0]} to {layers[-1]} in order")


main()
