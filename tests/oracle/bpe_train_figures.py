#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/unit/text/bpe_train_figures.inc: the pieces that SentencePiece's own BPE trainer makes.

    python3 tests/oracle/bpe_train_figures.py tests/text/sonnets.txt ../shared/text/tinyshakespeare.txt > \
        tests/unit/text/bpe_train_figures.inc

Needs the `sentencepiece` package (0.2.3 made the committed figures). A small text in many scripts is made here and goes into the
figures whole, with the pieces of each set of options in order. Of the files, and of a large text of the first one's words drawn at
random, only a hash of the pieces and the number of tokens that SentencePiece cuts the lines into go in. Sizes stay below the point where pairs run out: SentencePiece then goes on with
pairs that no longer occur in the text, which Quern does not.
"""
import random
import sys
import tempfile

import sentencepiece

PARTS = ["Der König ging 1984 über die Brücke; 12,5 % (ca.) waren 3x da.", "Быть или не быть, вот в чём вопрос 42.",
         "日本語のテキストをトークン化する。カタカナとひらがな、漢字。コーヒー", "中文分词没有空格，所以整句是一个词。2024年",
         "ελληνικά και αγγλικά mixed TextСмесь", "한국어 문장도 있습니다 100개", "العربية من اليمين",
         "e\u0301te\u0301 cafe\u0301 naïve", "a1b2c3 x86_64 0xFF １２３全角", "\ttabs\tand  double  spaces   ",
         "aaaaaa aaaa aaaaaaaaa hahahaha", "emoji 😀😀🎉 ok👍🏽", "हिन्दी में पाठ", "it's we'll don't — “quotes” … end.",
         "ⓐ ℵ ² ½ ™", "\u00a0nbsp\u3000wide"]
# name, options of ours, options of theirs
CASES = [("plain", "", {}), ("covered", ".character_coverage = 0.98", {"character_coverage": 0.98}),
         ("digits", ".split_digits = true", {"split_digits": True}), ("numbers", ".join_numbers = true", {"split_by_number": False}),
         ("scripts", ".join_scripts = true", {"split_by_unicode_script": False}),
         ("short", ".max_piece = 3", {"max_sentencepiece_length": 3}),
         ("no_bytes", ".no_byte_fallback = true", {"byte_fallback": False}),
         ("no_prefix", ".no_space_prefix = true", {"add_dummy_prefix": False})]
SMALL_PIECES = 350  # beyond the three that are no text and the bytes
LARGE = {"sonnets": [384, 512, 640], "drawn": [512, 1024, 1280], "plays": [512, 1024, 2048, 4096]}


def train(text, prefix, size, **more):
    options = dict(model_type="bpe", vocab_size=size, character_coverage=1.0, normalization_rule_name="identity",
                   remove_extra_whitespaces=False, byte_fallback=True, minloglevel=2, num_threads=1, max_sentence_length=1 << 20)
    options.update(more)
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=prefix, **options)
    return sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")


def pieces(sp):
    return [sp.id_to_piece(i) for i in range(3, sp.get_piece_size()) if not sp.is_byte(i)]


def scores_are_ranks(sp):
    first = sp.get_piece_size() - len(pieces(sp))
    return all(sp.get_score(first + i) == -i for i in range(len(pieces(sp))))


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def c_string(data):
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else "\\%03o" % b for b in data) + '"'


def wrapped(words, width=122):
    line = "   "
    for w in words:
        if len(line) + len(w) + 2 > width:
            print(line)
            line = "   "
        line += " " + w
    print(line)


def check_special():
    """Where control and user-defined symbols stand: tests/unit/text/bpe_special.c expects the same of ours."""
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/text", "w") as f:
            f.write("the cat sat on the mat and that was that\nthe cat sat on the hat 1234 times\n")
        sp = train(d + "/text", d + "/m", 292, control_symbols=["<|im_start|>", "<|im_end|>"], user_defined_symbols=["<think>"])
    assert [sp.id_to_piece(i) for i in range(7)] == ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<think>", "<0x00>"]
    assert sp.is_control(3) and sp.is_control(4) and not sp.is_control(5) and sp.get_score(3) == sp.get_score(5) == 0


def small_text():
    random.seed(5)
    lines = []
    for i in range(240):
        lines.append(random.choice(PARTS) if i % 3 == 0 else " ".join(random.choice(p.split(" ")) for p in random.sample(PARTS, 4)))
    return "\n".join(lines) + "\n"


def drawn_text(words):
    """20,000 lines of 8 words; the test draws the same."""
    state, lines = 1, []
    for _ in range(20000):
        line = []
        for _ in range(8):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2 ** 64
            line.append(words[(state >> 33) % len(words)])
        lines.append(" ".join(line))
    return "\n".join(lines) + "\n"


def main():
    check_special()
    print("/* SPDX-License-Identifier: MIT */")
    print("/* tests/unit/text/bpe_train_figures.inc -- written by tests/oracle/bpe_train_figures.py with SentencePiece %s. */"
          % sentencepiece.__version__)
    with tempfile.TemporaryDirectory() as tmp:
        text = small_text()
        with open(tmp + "/small", "w", newline="") as f:
            f.write(text)
        print("static const char small_text[] =")
        raw = text.encode()
        for at in range(0, len(raw), 40):
            print("    " + c_string(raw[at:at + 40]))
        print("    ;")
        for name, _, more in CASES:
            size = SMALL_PIECES + (3 if name == "no_bytes" else 259)
            sp = train(tmp + "/small", tmp + "/m", size, **more)
            assert scores_are_ranks(sp), name
            print("static const char *const %s_pieces[] = {" % name)
            # Parentheses around what the formatter breaks in two: clang takes two literals in a list for a lost comma.
            strings = [c_string(p.encode()) for p in pieces(sp)]
            wrapped([("(%s)," if len(s) > 114 else "%s,") % s for s in strings])
            print("};")
        print("static const struct small_case { const char *name; qn_bpe_train_options options; const char *const *pieces; } "
              "small_cases[] = {")
        for name, ours, _ in CASES:
            size = SMALL_PIECES + (3 if name == "no_bytes" else 259)
            coverage = "" if "coverage" in ours else ", .character_coverage = 1"
            print('    {"%s", {.n_tokens = %d%s%s}, %s_pieces},' % (name, size, coverage, ", " + ours if ours else "", name))
        print("};\n/* The hash is over each piece and a newline behind it. */")
        print("static const struct { const char *text; int32_t n_tokens; uint64_t hash; size_t n_encoded; } large_cases[] = {")
        sonnets = open(sys.argv[1], newline="").read()
        texts = {"sonnets": sonnets, "drawn": drawn_text(sonnets.split()), "plays": open(sys.argv[2], newline="").read()}
        for name, sizes in LARGE.items():
            with open(tmp + "/large", "w", newline="") as f:
                f.write(texts[name])
            for size in sizes:
                sp = train(tmp + "/large", tmp + "/m", size)
                assert scores_are_ranks(sp), size
                n = sum(len(ids) for ids in sp.encode(texts[name].split("\n")))
                print("    {\"%s\", %d, UINT64_C(0x%016x), %d}," % (name, size, fnv("".join(p + "\n" for p in pieces(sp)).encode()), n))
        print("};")


main()
