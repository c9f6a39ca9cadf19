#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpus of fuzz_safetensors: corpus/fuzz_safetensors/*.safetensors, and beside it corpus/fuzz_safetensors.expect.

Every file is built here from nothing but the format's description, so that each differs from a good one in exactly one way.
  good-*   must open
  keep-*   must open with keep_unsupported only
  bad-*    must not; the expect file says with which status, and what the message must name
The expect file has one line a corpus file: name, status ("ok" opens), then substrings of the message, separated by tabs.
Run it after changing it: python3 tests/fuzz/make_safetensors_corpus.py. Needs no package; the output does not depend on the machine.
With --check it asks the `safetensors` package what it thinks of every file and prints where it disagrees.
"""
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "corpus", "fuzz_safetensors")
FILES = []


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


A = tensor("F32", [2, 3], 0, 24)
B = tensor("I8", [5], 24, 29)
DATA = bytes(range(29))


def file(header, data=DATA, length=None):
    raw = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header, ensure_ascii=False)).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def add(name, data, status="ok", *words):
    FILES.append((name + ".safetensors", data, status, words))


def bad(name, data, *words, status="format"):
    add("bad-" + name, data, status, *words)


def one(text, data=bytes(24)):
    """A file whose only tensor has `text` for its description."""
    return file('{"a":' + text + "}", data)


def two(**changes):
    return file(dict({"a": A, "b": B}, **changes))


def good():
    add("good-two", two())
    add("good-padded", file(json.dumps({"a": A, "b": B}) + "     "))
    add("good-spaces", file(json.dumps({"a": A, "b": B}, indent=3).replace("\n", "\r\n\t")))
    add("good-order", file({"b": B, "a": A}))
    add("good-nothing", file("{}", b""))
    add("good-meta", two(__metadata__={"format": "pt", "note": "\u2581\u00e9\n\"quoted\\", "empty": ""}))
    add("good-meta-empty", two(__metadata__={}))
    add("good-escapes", file('{"\\u0061\\/\\u00e9\\ud83d\\ude00":' + json.dumps(A) + ',"b":' + json.dumps(B) + "}"))
    add("good-escaped-keys", one('{"\\u0064type":"F\\u0033\\u0032","shap\\u0065":[6],"data_offsets":[0,24]}'))
    add("good-more-keys", one('{"dtype":"F32","note":[1,-2.5e+3,{"x":null,"y":[true,false]},"z"],"shape":[6],"data_offsets":[0,24]}'))
    add("good-empty", file({"e": tensor("F32", [0, 4], 24, 24), "a": A, "f": tensor("F64", [3, 0], 0, 0), "b": B}))
    add("good-scalar", one('{"dtype":"F64","shape":[],"data_offsets":[0,8]}', bytes(8)))
    add("good-rank-8", one('{"dtype":"U8","shape":[1,1,1,2,1,3,1,4],"data_offsets":[0,24]}'))
    add("good-bool", one('{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}', b"\x00\x01\x02\xff"))
    add("good-utf8-name", file({"t\u00e9\u2581\U0001f600": A, "b": B}))
    add("good-unaligned", file({"b": tensor("I8", [5], 0, 5), "a": tensor("F32", [6], 5, 29)}))
    names = ["BOOL", "U8", "I8", "I16", "F16", "BF16", "I32", "F32", "F64", "I64"]
    size = dict(zip(names, (1, 1, 1, 2, 2, 2, 4, 4, 8, 8)))
    header, at = {}, 0
    for name in names:
        header[name] = tensor(name, [3], at, at + 3 * size[name])
        at += 3 * size[name]
    add("good-types", file(header, bytes(at)))
    for name, size in (("F8_E4M3", 1), ("F8_E5M2", 1), ("F8_E8M0", 1), ("U16", 2), ("U32", 4), ("U64", 8), ("C64", 8)):
        add("keep-" + name, one('{"dtype":"%s","shape":[2],"data_offsets":[0,%d]}' % (name, 2 * size), bytes(2 * size)), "unsupported",
            name, 'tensor "a"', "expected one that Quern computes with")
    add("keep-F4", one('{"dtype":"F4","shape":[6],"data_offsets":[0,3]}', bytes(3)), "unsupported", "F4")
    add("keep-F6_E2M3", one('{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}', bytes(3)), "unsupported", "F6_E2M3")


def frame():
    bad("empty", b"", "found 0 bytes")
    bad("short", b"\x02\0\0\0\0\0\0\0{", "found 9 bytes")
    bad("length-past-end", file("{}", b"", 3), "offset 0", "length of 3", "at most 2")
    bad("length-huge", file("{}", b"", 2**64 - 1), "offset 0", "18446744073709551615")
    bad("length-0", file("{}", b"", 0), "an object")
    bad("length-over-limit", file("{}", b"", 100000001), "100000001")
    bad("length-short", file({"a": A, "b": B}, length=30), "offset")
    bad("space-first", file(" " + json.dumps({"a": A, "b": B})), "offset 8", "white space")
    bad("array", file("[]", b""), "found '[', expected an object")
    bad("two-objects", file("{}{}", b""), "nothing behind the object", "offset 10")
    bad("comma-last", file(json.dumps({"a": A, "b": B})[:-1] + ",}"), "expected a string")
    bad("comma-missing", file(json.dumps({"a": A}) [:-1] + ' "b":' + json.dumps(B) + "}"), "expected a comma")
    bad("colon-missing", file('{"a" 1}', b""), "expected a colon")
    bad("utf8", file(b'{"a\xff":' + json.dumps(A).encode() + b"}", bytes(24)), "offset 11", "0xff", "UTF-8")
    bad("surrogate-bytes", file(b'{"a\xed\xa0\x80":' + json.dumps(A).encode() + b"}", bytes(24)), "offset 11", "UTF-8")
    bad("surrogate-alone", file('{"\\ud800":' + json.dumps(A) + "}", bytes(24)), "escape", "offset 10")
    bad("surrogate-low", file('{"\\udc00x":' + json.dumps(A) + "}", bytes(24)), "escape")
    bad("surrogate-two-high", file('{"\\ud800\\ud800":' + json.dumps(A) + "}", bytes(24)), "escape")
    bad("escape", file('{"\\x41":' + json.dumps(A) + "}", bytes(24)), "escape")
    bad("escape-cut", file('{"\\u00', b""), "escape")
    bad("string-open", file('{"abc', b""), "the end of a string")
    bad("string-newline", file('{"a\nb":' + json.dumps(A) + "}", bytes(24)), "control character")
    bad("cut-object", file('{"a":{"dtype":"F32"', b""), "the end of the object")


def entries():
    bad("not-an-object", one("[1]"), 'tensor "a"', "an object")
    bad("deep", one('{"x":' + "[" * 40 + "]" * 40 + ',"dtype":"F32","shape":[6],"data_offsets":[0,24]}'), "at most 32 levels",
        status="limit")
    bad("deeper", one('{"x":' + '{"y":' * 5000), 'tensor "a"', "at most 32 levels", status="limit")
    bad("word", one('{"x":nul,"dtype":"F32"}'), "a value")
    bad("number", one('{"x":01}'), "a number")
    bad("fraction", one('{"x":1.}'), "fraction")
    bad("exponent", one('{"x":1e}'), "exponent")
    for key in ("dtype", "shape", "data_offsets"):
        bad("no-" + key, one(json.dumps({k: v for k, v in A.items() if k != key})), 'tensor "a"', '"%s"' % key)
        bad("twice-" + key, one(json.dumps(A)[:-1] + ',"%s":%s}' % (key, json.dumps(A[key]))), '"%s" again' % key)
    bad("type-unknown", one('{"dtype":"F33","shape":[6],"data_offsets":[0,24]}'), 'tensor "a"', "F33", status="unsupported")
    bad("type-lower", one('{"dtype":"f32","shape":[6],"data_offsets":[0,24]}'), "f32", status="unsupported")
    bad("type-long", one('{"dtype":"%s","shape":[6],"data_offsets":[0,24]}' % ("F" * 300)), "FFF...", status="unsupported")
    bad("type-nul", one('{"dtype":"F32\\u0000","shape":[6],"data_offsets":[0,24]}'), "F32", status="unsupported")
    bad("type-number", one('{"dtype":32,"shape":[6],"data_offsets":[0,24]}'), "a string")
    bad("shape-number", one('{"dtype":"F32","shape":6,"data_offsets":[0,24]}'), "an array")
    bad("shape-negative", one('{"dtype":"F32","shape":[-6],"data_offsets":[0,24]}'), "not negative")
    bad("shape-float", one('{"dtype":"F32","shape":[6.0],"data_offsets":[0,24]}'), "integer")
    bad("shape-exponent", one('{"dtype":"F32","shape":[6e0],"data_offsets":[0,24]}'), "integer")
    bad("shape-zeros", one('{"dtype":"F32","shape":[06],"data_offsets":[0,24]}'), "integer")
    bad("shape-2e64", one('{"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,24]}'), "below 2^64")
    bad("shape-2e63", one('{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,24]}'), "below 2^63")
    bad("shape-overflow", one('{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,24]}'), "fewer than 2^60")
    bad("shape-bits-overflow", one('{"dtype":"F32","shape":[1152921504606846976],"data_offsets":[0,24]}'), "fewer than 2^60")
    bad("shape-overflow-to-zero", one('{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}', b""), "fewer than 2^60")
    bad("rank-9", one('{"dtype":"U8","shape":[1,1,1,2,1,3,1,4,1],"data_offsets":[0,24]}'), "at most 8", status="limit")
    bad("comma-in-shape", one('{"dtype":"F32","shape":[6,],"data_offsets":[0,24]}'), "integer")
    bad("half-bytes", file('{"a":{"dtype":"U8","shape":[24],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[3],"data_offsets":[24,25]}}',
                           bytes(25)), 'tensor "b"', "found 1 bytes", "expected 3")
    bad("offsets-one", one('{"dtype":"F32","shape":[6],"data_offsets":[0]}'), "expected 2")
    bad("offsets-three", one('{"dtype":"F32","shape":[6],"data_offsets":[0,24,24]}'), "expected 2")
    bad("offsets-string", one('{"dtype":"F32","shape":[6],"data_offsets":["0","24"]}'), "integer")
    bad("offsets-reversed", one('{"dtype":"F32","shape":[6],"data_offsets":[24,0]}'), "in order")
    bad("offsets-past-end", two(b=tensor("I8", [5], 25, 30)), 'tensor "b"', "at most 29")
    bad("offsets-huge", one('{"dtype":"F32","shape":[6],"data_offsets":[18446744073709551600,18446744073709551615]}'), "at most 24")
    bad("size-short", two(a=tensor("F32", [2, 3], 0, 20)), 'tensor "a"', "found 20 bytes", "expected 24")
    bad("size-long", two(a=tensor("F32", [2, 3], 0, 28)), 'tensor "a"', "found 28 bytes")
    bad("name-empty", file({"": A, "b": B}), "nothing in its name")
    bad("name-long", file({"n" * 1024: A, "b": B}), "1 to 1023")
    bad("name-control", file('{"a\\u0000b":' + json.dumps(A) + "}", bytes(24)), "control character")
    bad("name-twice", file('{"a":' + json.dumps(A) + ',"a":' + json.dumps(tensor("I8", [5], 24, 29)) + "}"), 'tensor "a"', "each name once")
    bad("name-twice-escaped", file('{"a":' + json.dumps(A) + ',"\\u0061":' + json.dumps(tensor("I8", [5], 24, 29)) + "}"), "each name once")


def layout():
    bad("hole", file({"a": A, "b": tensor("I8", [4], 25, 29)}), 'tensor "b"', "expected it at 24", "no holes")
    bad("hole-first", file({"a": tensor("F32", [6], 5, 29)}), 'tensor "a"', "expected it at 0")
    bad("hole-last", file({"a": A}), "data", "found 29 bytes", "expected the 24")
    bad("overlap", file({"a": A, "b": tensor("I8", [9], 20, 29)}), 'tensor "b"', 'inside that of "a"')
    bad("overlap-same", file({"a": tensor("I8", [29], 0, 29), "b": tensor("I8", [29], 0, 29)}), "overlap")
    bad("empty-inside", file({"a": A, "b": B, "e": tensor("F32", [0], 7, 7)}), "overlap")
    bad("data-short", file({"a": A, "b": B}, DATA[:-1]), 'tensor "b"', "at most 28")
    bad("data-long", file({"a": A, "b": B}, DATA + b"x"), "found 30 bytes", "expected the 29")


def metadata():
    bad("meta-array", two(__metadata__=[1]), "an object")
    bad("meta-number", two(__metadata__={"k": 1}), '__metadata__ "k"', "a string")
    bad("meta-object", two(__metadata__={"k": {}}), '__metadata__ "k"', "a string")
    bad("meta-twice", file('{"__metadata__":{},"__metadata__":{}}', b""), '"__metadata__" again')
    bad("meta-key-twice", file('{"__metadata__":{"a":"1","b":"2","a":"3"}}', b""), '__metadata__ "a"', "expected it once")
    bad("meta-key-control", file('{"__metadata__":{"a\\n":"1"}}', b""), "control character")


def check():
    from safetensors import deserialize
    for name, data, status, _ in FILES:
        try:
            deserialize(data)
            theirs = "opens"
        except Exception as e:
            theirs = "refuses: " + str(e)
        if theirs.startswith("opens") != (status == "ok" or name.startswith("keep-")):
            print(name, status, "-", theirs)


def main():
    good()
    frame()
    entries()
    layout()
    metadata()
    os.makedirs(FOLDER, exist_ok=True)
    for name in os.listdir(FOLDER):
        if name.endswith(".safetensors"):
            os.remove(os.path.join(FOLDER, name))
    with open(FOLDER + ".expect", "w", newline="\n") as expect:
        for name, data, status, words in FILES:
            with open(os.path.join(FOLDER, name), "wb") as f:
                f.write(data)
            expect.write("\t".join((name, status) + words) + "\n")
    print(f"{len(FILES)} files, {sum(n.startswith('bad-') for n, _, _, _ in FILES)} bad, {sum(len(d) for _, d, _, _ in FILES)} bytes")
    if "--check" in sys.argv:
        check()


if __name__ == "__main__":
    main()
