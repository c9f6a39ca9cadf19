#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/unit/text/vocab: a small vocabulary of each kind, and what the program that trained it makes of test strings.

    python3 tests/oracle/vocabularies.py tests/text/sonnets.txt tests/unit/text/vocab

NAME.gguf is the vocabulary as converters write it (by the `gguf` package), NAME.inp the strings, separated by lines
`__ggml_vocab_test__`, NAME.out the ids of each, one line a string, without tokens added at the ends. Witnesses: SentencePiece
0.2.3 (BPE with byte fall-back, and unigram), Hugging Face's tokenizers 0.23.3 (byte-level BPE behind several pre-tokenizers,
WordPiece), and for RWKV's kind, which no program trains, the rule itself: at each place the longest piece.
"""
import json
import os
import sys
import tempfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from pretok import GPT4O, LLAMA3, QWEN2

SEPARATOR = "\n__ggml_vocab_test__\n"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
MORE = [  # what the sonnets lack
    "Der König ging 1984 über die Brücke; 12,5 % (ca.) waren 3x da.", "Быть или не быть, вот в чём вопрос 42.",
    "日本語のテキストをトークン化する。カタカナとひらがな、漢字。", "中文分词没有空格，所以整句是一个词。2024年", "ελληνικά και αγγλικά",
    "한국어 문장도 있습니다 100개", "العربية من اليمين", "हिन्दी में पाठ", "emoji 😀😀🎉 ok👍🏽 🚀🚀", "naïve café résumé Ångström",
    "for (int i = 0; i < n; i++) {\n    sum += x[i] * x[i]; // squares\n}", "def main(argv):\n\tif argv:\n\t\treturn 0\n\n\n",
    "#include <stdio.h>\nint main(void) { return printf(\"%d\\n\", 0x1F); }", "1 22 333 4444 55555 3.14159 1,000,000 2^31",
    "it's we'll don't I'M THEY'RE you've he'd", "    four spaces, then        eight", "https://example.org/a/b?c=d&e=f#g"]
OFTEN = ["count one two three four five six seven eight", "### Stop ## Part # Chapter #### Note"]
STRINGS = MORE + [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", "Hello world", " Hello world", "Hello World", " Hello World!",
    "Hello, world!", " this is 🦙.cpp", "w048 7tuijk dsdfhu", "нещо на Български", "កាន់តែពិសេសអាច", "🚀 (normal) 😶‍🌫️ (multiple emojis)",
    "Hello\n  Hello\n   Hello", " (", "\n =", "' era", "Hello, y'all! How are you 😁 ?我想在apple工作1314151天～", "!!!!!!", "3", "33", "333",
    "3333", "33333", "333333333", "ａｂｃ１２３", "½ ² Ⅷ ٣", "a\u0301e\u0301 ä ﬁ ẞ İ", "x\u0001y\u007fz", "\u00a0nbsp\u3000wide\u2028line",
    "\u200bzero\u200dwidth\ufeff", "trailing blanks   ", "tabs\tand\t\ttabs", "line one\r\nline two\r\n", "CamelCaseHTTPServer snake_case",
    "thou art more lovely and more temperate", "When in eternal lines to time thou growest", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "The   quick\n\nbrown    fox", "\ue000 private \U0010ffff last", "a-b_c.d,e;f:g?h!i\"j'k(l)m[n]o{p}q<r>s/t\\u|v~w`x@y#z$%^&*+="]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPECIAL_STRINGS = ["<|endoftext|>", "a<|endoftext|>b", "<|im_start|>user\nhi there<|im_end|>\n<|im_start|>assistant\n",
                   "<|endoftext|><|endoftext|> <|im_end|>", "<|endoftext", "|im_start|>"]


class Out:
    def __init__(self, folder, name, model):
        self.folder, self.name = folder, name
        self.w = gguf.GGUFWriter(f"{folder}/{name}.gguf", "llama")
        self.w.add_name(name)
        self.w.add_tokenizer_model(model)

    def finish(self, strings, encode):
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.close()
        with open(f"{self.folder}/{self.name}.inp", "w", encoding="utf-8", newline="") as f:
            f.write(SEPARATOR.join(strings))
        with open(f"{self.folder}/{self.name}.out", "w", newline="\n") as f:
            f.writelines("".join(f" {i}" for i in encode(s)) + "\n" for s in strings)
        print(self.name, os.path.getsize(f"{self.folder}/{self.name}.gguf"), "bytes")


def spm(folder, name, kind, text, model_name, **more):
    with tempfile.TemporaryDirectory() as tmp:
        sentencepiece.SentencePieceTrainer.train(
            input=text, model_prefix=tmp + "/m", model_type=kind, character_coverage=1.0, minloglevel=2, num_threads=1,
            hard_vocab_limit=False, normalization_rule_name="identity", remove_extra_whitespaces=False, **more)
        m = pb.ModelProto()
        m.ParseFromString(open(tmp + "/m.model", "rb").read())
        sp = sentencepiece.SentencePieceProcessor(model_file=tmp + "/m.model")
    out = Out(folder, name, model_name)
    out.w.add_tokenizer_pre("default")
    out.w.add_token_list([p.piece.encode() for p in m.pieces])
    out.w.add_token_scores([p.score for p in m.pieces])
    out.w.add_token_types([p.type for p in m.pieces])
    out.w.add_unk_token_id(sp.unk_id())
    out.w.add_eos_token_id(sp.eos_id())
    if sp.bos_id() >= 0:
        out.w.add_bos_token_id(sp.bos_id())
    if model_name == "t5":
        out.w.add_add_space_prefix(True)
        out.w.add_remove_extra_whitespaces(False)
    out.finish(STRINGS, sp.encode)


def byte_bpe(folder, name, pre, splitter, lines, whole_words=False):
    t = Tokenizer(models.BPE(ignore_merges=whole_words))
    t.pre_tokenizer = splitter
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    vocab = sorted(t.get_vocab().items(), key=lambda x: x[1])
    merges = json.loads(t.to_str())["model"]["merges"]
    out = Out(folder, name, "gpt2")
    out.w.add_tokenizer_pre(pre)
    out.w.add_token_list([piece for piece, _ in vocab])
    out.w.add_token_types([CONTROL if piece in SPECIAL else NORMAL for piece, _ in vocab])
    out.w.add_token_merges([" ".join(m) for m in merges])
    out.w.add_bos_token_id(0)
    out.w.add_eos_token_id(0)
    out.w.add_add_bos_token(False)
    out.finish(STRINGS + SPECIAL_STRINGS, lambda s: t.encode(s).ids)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def bert(folder, name, lines, lowercase):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False))
    vocab = sorted(t.get_vocab().items(), key=lambda x: x[1])
    out = Out(folder, name, "bert")
    out.w.add_tokenizer_pre("default")
    spelled = [p if p in special else p[2:] if p.startswith("##") else "\u2581" + p for p, _ in vocab]
    out.w.add_token_list(spelled)
    out.w.add_token_types([CONTROL if p in special else NORMAL for p in spelled])
    for id, role in enumerate(("padding", "unknown", "cls", "seperator", "mask")):
        out.w.add_uint32(f"tokenizer.ggml.{role}_token_id", id)
    if not lowercase:
        out.w.add_bool("tokenizer.ggml.normalizer.lowercase", False)
    out.finish(STRINGS, lambda s: t.encode(s).ids)


def rwkv(folder, name, lines):
    counts = {}
    for line in lines:
        for word in line.split():
            for piece in (word, " " + word, " ", "  ", "    ", "\n\n", "\r\n"):
                counts[piece.encode()] = counts.get(piece.encode(), 0) + 1
    common = [p for p, n in sorted(counts.items(), key=lambda x: (-x[1], x[0])) if len(p) > 1][:400]
    pieces = [bytes([b]) for b in range(256)] + common
    ids = {p: i + 1 for i, p in enumerate(pieces)}
    longest = max(map(len, pieces))

    def encode(text):
        data, at, found = text.encode(), 0, []
        while at < len(data):
            n = next(n for n in range(longest, 0, -1) if data[at:at + n] in ids and at + n <= len(data))
            found.append(ids[data[at:at + n]])
            at += n
        return found

    escape = lambda p: "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\x%02x" % b for b in p)
    out = Out(folder, name, "rwkv")
    out.w.add_token_list(["<s>"] + [escape(p) for p in pieces])
    out.w.add_token_types([CONTROL] + [NORMAL] * len(pieces))
    out.w.add_bos_token_id(0)
    out.w.add_eos_token_id(0)
    out.finish(STRINGS, encode)


def main():
    text, folder = sys.argv[1:3]
    lines = open(text, encoding="utf-8").read().split("\n") + MORE * 4 + OFTEN * 20
    with tempfile.TemporaryDirectory() as tmp:
        with open(tmp + "/text", "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        spm(folder, "spm", "bpe", tmp + "/text", "llama", vocab_size=800, byte_fallback=True)
        spm(folder, "unigram", "unigram", tmp + "/text", "t5", vocab_size=700, unk_id=2, bos_id=-1, eos_id=1, pad_id=0)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2])
    byte_bpe(folder, "gpt-2", "gpt-2", gpt2, lines)
    byte_bpe(folder, "starcoder", "starcoder", digits, lines)
    byte_bpe(folder, "llama-bpe", "llama-bpe", split(LLAMA3), lines, whole_words=True)
    byte_bpe(folder, "qwen2", "qwen2", split(QWEN2), lines)
    byte_bpe(folder, "gpt-4o", "gpt-4o", split(GPT4O), lines)
    bert(folder, "bert", lines, True)
    bert(folder, "bert-cased", lines, False)
    rwkv(folder, "rwkv", lines)


main()
