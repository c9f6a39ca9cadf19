#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes oracle/gguf_inventory.txt: what the gguf package reads in each .gguf file of the repository and of the test material beside
it, as counts and hashes.

usage, in the repository's root: gguf_inventory.py models tests ../shared. One line a file: path, version, alignment, number of keys, of tensors, then
FNV-1a 64 hashes (hex) of the metadata and of the tensor table. tests/unit/format/gguf_material.c makes the same from what it
reads: of each key in file order its name, a zero byte, its type's number; then each value or element as text ("%d", "%.9g", the
string's bytes), each with a zero byte after it; of each tensor in file order its name, a zero byte, and as text with a space
after each: type number, dimensions innermost first, offset in the file, size. Needs the gguf package (0.19 was used).
"""
import os
import sys

from gguf import GGUFReader, GGUFValueType


def fnv(h, data):
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def text(value, kind):
    if kind == GGUFValueType.STRING:
        return bytes(value)
    if kind in (GGUFValueType.FLOAT32, GGUFValueType.FLOAT64):
        return b"%.9g" % float(value[0])
    return b"%d" % int(value[0])


def main():
    lines = []
    for folder, _, names in (entry for root in sys.argv[1:] for entry in sorted(os.walk(root))):
        for name in sorted(names):
            if not name.endswith(".gguf") or "/archs" in folder or "/fuzz" in folder:
                continue
            path = os.path.join(folder, name)
            r = GGUFReader(path)
            fields = [f for f in r.fields.values() if not f.name.startswith("GGUF.")]
            h = start = 0xcbf29ce484222325
            for f in fields:
                blob = bytearray(f.name.encode() + b"\0" + b"%d" % f.types[0])
                for index in f.data:
                    blob += text(f.parts[index], f.types[-1]) + b"\0"
                h = fnv(h, blob)
            g = start
            for t in r.tensors:
                numbers = [int(t.tensor_type)] + [int(d) for d in t.shape] + [int(t.data_offset), int(t.n_bytes)]
                g = fnv(g, t.name.encode() + b"\0" + b"".join(b"%d " % n for n in numbers))
            version = int(r.fields["GGUF.version"].parts[0][0])
            lines.append(f"{path} {version} {int(r.alignment)} {len(fields)} {len(r.tensors)} {h:016x} {g:016x}\n")
            print(lines[-1], end="", flush=True)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_inventory.txt"), "w", newline="\n") as f:
        f.writelines(lines)


if __name__ == "__main__":
    main()
