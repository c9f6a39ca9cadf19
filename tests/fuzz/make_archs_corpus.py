#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpus of fuzz_archs: corpus/fuzz_archs/*. The first byte of a file chooses the architecture the second, where it is odd,
that what loads is computed with; each four more are a row, what becomes of it, and a number. Run it after changing it: python3 tests/fuzz/make_archs_corpus.py. Needs no package; the output does not
depend on the machine.
"""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def change(row, how, value):
    return bytes([row, how, value & 255, value >> 8])


def main():
    folder = HERE + "/corpus/fuzz_archs/"
    os.makedirs(folder, exist_ok=True)
    for f in os.listdir(folder):
        if f.startswith("seed-"):
            os.remove(folder + f)
    for arch in range(0, 120, 5):
        # keys: 0 is left out, 1 a number, 3 a real, 5 an array; tensors, counted from the last: 0 left out, 1 a dimension, 4 a type
        what = [b"", change(arch % 9, 1, arch + 1), change(arch % 7, 5, arch * 97), change(255 - arch % 11, arch % 6, arch * 31),
                change(3, 1, 2) + change(255 - arch % 9, 4, arch)][arch // 5 % 5]
        open(folder + "seed-%d" % arch, "wb").write(bytes([arch, arch // 5 % 3 == 0]) + what)


main()
