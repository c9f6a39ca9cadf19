#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/unit/text/wordpiece_figures.inc: what the `tokenizers` package for Python, the models' own tokenizer, makes
of test strings with small WordPiece vocabularies, one uncased and one cased.

    python3 tests/oracle/wordpiece.py > tests/unit/text/wordpiece_figures.inc
"""
import tokenizers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

WORDS = ["the", "hello", "world", "he", "un", "a", "b", "c", "e", "o", "u", "x", "!", "?", ".", ",", "'", "-", "$",
         "~", "(", ")", "s", "it", "don", "t", "\u4e2d", "\u6587", "\u8c48", "\u3042", "\u1112", "\u0435", "\u00df",
         "\u0939", "1", "23", "re", "\u00f8", "\u20ac", "\u2014", "The", "Hello", "\u00c9", "cafe", "caf\u00e9",
         "\u0130", "i"]
TAILS = ["##s", "##the", "##llo", "##aff", "##able", "##a", "##b", "##e", "##o", "##1", "##2", "##3", "##\u1161",
         "##\u11ab", "##\u093f", "##\u0928", "##\u00e9", "##\u0301", "##\u3044", "##\u3099", "##z"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
STRINGS = [
    "", " ", "hello world", "Hello, World!", "  the   hello\t\nworld\r\n", "unaffable", "unaffablez q the", "HELLO",
    "caf\u00e9 cafe\u0301 CAF\u00c9",
    "\u4e2d\u6587\u4e2dthe\u6587", "\uf900 \u8c48 \u3042\u3044\u3099", "\ud55c \ud558", "\u0939\u093f\u0928\u094d",
    "a\u200bb a\u00adb a\u0000b \ufffd",
    "a\u00a0b\u3000c\u2028a", "a\u000bb a\u000cb a\u0085b \u001fa", "it's don't (a-b) $1.23~",
    "\u00df\u1e9e \u00d8\u00f8 \u0130i", "\u20ac\u2014\u201ca\u201d", "\u0435\u0451\u0419",
    "\U0001f680", "hello\U0001f680 a\U0001f680 the", "e" * 60, "x" * 60 + " a", "\u0301a \u0301", "[CLS] a [SEP]",
    "the.the,the", "\ue000a", "a\u0300\u0301\u0323b",
]


def c_string(data):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in data) + '"'


def main():
    vocab = {w: i for i, w in enumerate(SPECIAL + WORDS + TAILS)}
    print("/* SPDX-License-Identifier: MIT */")
    print("/* tests/unit/text/wordpiece_figures.inc -- written by tests/oracle/wordpiece.py with tokenizers %s. */"
          % tokenizers.__version__)
    print("enum { n_special = %d };" % len(SPECIAL))
    print("static const char *const pieces[] = {")
    for w in vocab:  # as GGUF converters spell them
        gguf = w if w in SPECIAL else w[2:] if w.startswith("##") else "\u2581" + w
        print("    %s," % c_string(gguf.encode()))
    print("};")
    print("static const struct { const char *text; size_t len; const char *uncased, *cased; } strings[] = {")
    found = {}
    for lowercase in (True, False):
        t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None,
        lowercase=lowercase)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        for text in STRINGS:
            found[text, lowercase] = " ".join(map(str, t.encode(text).ids))
    for text in STRINGS:
        data = text.encode()
        print("    {%s, %d,\n     \"%s\",\n     \"%s\"}," % (c_string(data), len(data), found[text, True], found[text,
        False]))
    print("};")
    decoder = decoders.WordPiece(cleanup=True)
    print("static const struct { const char *ids, *text; } decoded[] = {")
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    t.decoder = decoder
    for words in (["hello", "world", "!"], ["un", "##aff", "##able", ".", "the"],
                  ["a", ",", "b", "?", "!"],
    ["\u4e2d", "\u6587"]):
        ids = [vocab[w] for w in words]
        print("    {\"%s\", %s}," % (" ".join(map(str, ids)), c_string(t.decode(ids).encode())))
    print("};")


main()
