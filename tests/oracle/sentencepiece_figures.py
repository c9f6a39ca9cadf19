#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/unit/text/sentencepiece_figures.inc: two tiny SentencePiece models, and what SentencePiece makes
of test strings.

    python3 tests/oracle/sentencepiece_figures.py ../shared/text/tinyshakespeare.txt > tests/unit/text/sentencepiece_figures.inc

Needs the `sentencepiece` package for Python, with protobuf. The models are trained here: a unigram model with a normaliser of its
own (a precompiled map with prefixes, deletions and expansions) and a BPE model with byte fall-back. The C test makes GGUF
vocabularies of them, as the converters do. Both have user-defined pieces, but no test string holds one whole: a GGUF reader
cuts those out before anything else, SentencePiece puts its space before them.
"""
import random
import sys
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb

RULES = [("\ufb01", "fi"), ("\u2026", "..."), ("\u3000", " "), ("\u200b", ""), ("\u2460", "1"), ("\u00c5", "A\u030a"),
         ("e\u0301", "\u00e9"), ("ABC", "x"), ("AB", "yy"), ("\u00a0", " "), ("\uff21", "A"),
         ("\U0001d400", "A"), ("\t", " "), ("\n", " ")]
STRINGS = [
    "", " ", "  ", "Hello world", " Hello  world ", "the king is dead, long live the king!",
    "ﬁne \u2026 words\u3000here\u200b!",
    "\u2460\u00c5e\u0301 ABCAB AABABC", "tab\tand\nnewline", "q\u00e9 \u4e2d\u6587 \U0001f680 unknown", "<sepABC>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "To be, or not to be: that is the question", "x" * 70,
    "\u4e2d\u4e2d\u4e2d a \u4e2d",
    "\uff21\uff21\U0001d400 mixed \u2460\u2460", "what's in a name? that which we call a rose", "\u2581escaped\u2581by hand",
    "ABCABCABC", "\u00a0\u00a0lead", "trail \u3000 ", "thou art   more    lovely and      more temperate",
    "0123456789", "\u0001\u007f", "e\u0301e\u0301e",
]


def corpus(path, out):
    random.seed(7)
    lines = [line.strip() for line in open(path, encoding="utf-8") if line.strip()]
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(random.sample(lines, 6000)) + "\n")
        f.write("the \u00e9 caf\u00e9 and 0123456789\n" * 40)


def train(kind, text, prefix, **more):
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=prefix, model_type=kind, vocab_size=400, character_coverage=1.0, minloglevel=2,
        num_threads=1,
        user_defined_symbols=["<sep>", "[U1]", "[U12]"], hard_vocab_limit=False, **more)
    model = pb.ModelProto()
    model.ParseFromString(open(prefix + ".model", "rb").read())
    return model, sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")


def c_string(data):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in data) + '"'


def wrapped(words, indent="    ", width=118):
    line = indent
    for w in words:
        if len(line) + len(w) + 2 > width:
            print(line.rstrip())
            line = indent
        line += w + ", "
    print(line.rstrip())


def emit(name, model, sp):
    pieces = model.pieces
    print("static const char *const %s_pieces[] = {" % name)
    wrapped([c_string(p.piece.encode()) for p in pieces])
    print("};\nstatic const float %s_scores[] = {" % name)
    wrapped([repr(float("%.9g" % p.score)) + "f" for p in pieces])
    print("};\nstatic const unsigned char %s_types[] = {" % name)
    wrapped([str(p.type) for p in pieces], width=110)
    print("};\nstatic const unsigned char %s_charsmap[] = {" % name)
    wrapped([str(b) for b in model.normalizer_spec.precompiled_charsmap] or ["0"], width=110)
    print("};\nstatic const size_t %s_charsmap_size = %d;" % (name, len(model.normalizer_spec.precompiled_charsmap)))
    print("static const struct { const char *text; size_t len; const char *ids, *back; size_t back_len; } %s_strings[] = {"
          % name)
    for text in STRINGS:
        data, ids = text.encode(), sp.encode(text)
        lossy = sp.unk_id() in ids or "\u2581" in text  # no way back: unknown, or a space that was none
        back = None if lossy else sp.decode(ids).encode()
        print("    {%s, %d,\n     \"%s\",\n     %s, %d}," % (c_string(data), len(data), " ".join(map(str, ids)),
                                                        c_string(back) if back is not None else "NULL", len(back or b"")))
    print("};\n")


def main():
    with tempfile.TemporaryDirectory() as tmp:
        corpus(sys.argv[1], tmp + "/text")
        with open(tmp + "/rules.tsv", "w") as f:
            for source, target in RULES:
                f.write(" ".join("%X" % ord(c) for c in source) + "\t" + " ".join("%X" % ord(c) for c in target) + "\n")
        unigram = train("unigram", tmp + "/text", tmp + "/u", normalization_rule_tsv=tmp + "/rules.tsv", unk_id=2,
                        bos_id=-1, eos_id=1, pad_id=0)
        bpe = train("bpe", tmp + "/text", tmp + "/b", normalization_rule_name="identity", remove_extra_whitespaces=False,
                    byte_fallback=True)
        print("/* SPDX-License-Identifier: MIT */")
        print("/* tests/unit/text/sentencepiece_figures.inc -- written by tests/oracle/sentencepiece_figures.py with "
              "SentencePiece %s. */" % sentencepiece.__version__)
        emit("unigram", *unigram)
        emit("spm", *bpe)


main()
