#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/fuzz/corpus/fuzz_schema: the schemas of tests/unit/text/schema/rows.txt behind two bytes
of options."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
OUT = os.path.join(HERE, "corpus", "fuzz_schema")


def main():
    os.makedirs(OUT, exist_ok=True)
    for name in os.listdir(OUT):
        os.remove(os.path.join(OUT, name))
    n = 0
    for line in open(os.path.join(TESTS, "unit/text/schema/rows.txt"), encoding="utf-8"):
        if not line.startswith("s"):
            continue
        options = line[1:line.index(" ")]
        bits = sum(bit for letter, bit in (("w", 1), ("o", 2), ("f", 4)) if letter in options)
        open(os.path.join(OUT, f"row-{n:03d}"), "wb").write(bytes([bits, n % 256]) + line[line.index(" ") + 1:].strip().encode())
        n += 1
        if options == "" and n % 3 == 0:  # in the ways of writing that are no JSON
            open(os.path.join(OUT, f"way-{n:03d}"), "wb").write(bytes([8 | n // 3 % 3 << 4, n % 256]) + line[2:].strip().encode())


main()
