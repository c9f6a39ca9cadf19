#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/oracle/conversations.py -- what transformers makes of conversations to learn from: ids, and the mask of what the assistant
says, for the template of tests/unit/train/conversations.jinja, whose {% generation %} blocks tell it.

    pip install transformers tokenizers gguf jinja2 && python3 tests/oracle/conversations.py build/quern > \
        tests/unit/train/conversations_figures.inc

The vocabulary is one that quern train makes, with special tokens; the package `gguf` reads it from the file, and `tokenizers` gets it
as a byte-fallback BPE whose merges follow from the scores. (gguf 0.19, tokenizers 0.23, transformers 5.23 made the committed figures.)
"""
import json
import os
import subprocess
import sys
import tempfile

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "unit", "train")
SPECIAL, USER = ["<|im_start|>", "<|im_end|>"], ["<call>"]
OPTIONS = ["--layers", "1", "--embd", "8", "--heads", "2", "--ctx", "160", "--vocab-size", "330", "--split-digits", "--eval-fraction", "0",
           "--batch", "1", "--steps", "1"]


def train(program, path):
    subprocess.run([program, "train", "--chat", DATA + "/conversations.jsonl", "-o", path, "--chat-template", DATA + "/conversations.jinja", "--special",
                    ",".join(SPECIAL), "--user-defined", ",".join(USER), "--eos-token", SPECIAL[1]] + OPTIONS, check=True, capture_output=True)


def read(path):
    fields = gguf.GGUFReader(path).fields
    return {k.split(".")[-1]: v.contents() for k, v in fields.items() if k.startswith("tokenizer.")}


def tokenizer_of(f):
    pieces, scores, kinds = f["tokens"], f["scores"], f["token_type"]
    ids = {p: i for i, p in enumerate(pieces)}
    merges = []
    for i, p in enumerate(pieces):
        if kinds[i] == gguf.TokenType.NORMAL:
            found = [(p[:k], p[k:]) for k in range(1, len(p)) if p[:k] in ids and p[k:] in ids]
            merges += [(scores[i], pair) for pair in sorted(found, key=lambda m: (ids[m[0]], ids[m[1]]))]
    merges.sort(key=lambda m: -m[0])
    t = Tokenizer(models.BPE(ids, [m for _, m in merges], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    control = [p for i, p in enumerate(pieces) if kinds[i] in (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED)]
    t.add_special_tokens([AddedToken(p, normalized=False, special=True) for p in control])
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token=pieces[f["bos_token_id"]], eos_token=pieces[f["eos_token_id"]],
                                   chat_template=f["chat_template"])


def c_list(name, values):
    text = ", ".join(str(v) for v in values)
    lines, line = [], "   "
    for word in text.split(" "):
        if len(line) + len(word) + 1 > 118:
            lines.append(line)
            line = "   "
        line += " " + word
    print("static const int32_t %s[] = {\n%s};" % (name, "\n".join(lines + [line])))


def main():
    with tempfile.TemporaryDirectory() as d:
        train(sys.argv[1], d + "/x.gguf")
        f = read(d + "/x.gguf")
    kinds = dict(zip(f["tokens"], f["token_type"]))
    assert [kinds[t] for t in SPECIAL + USER] == [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.USER_DEFINED]
    assert f["tokens"][:6] == ["<unk>", "<s>", "</s>"] + SPECIAL + USER and f["eos_token_id"] == 4 and f["bos_token_id"] == 1
    t = tokenizer_of(f)
    print("/* tests/unit/train/conversations_figures.inc -- ids and assistant masks of conversations.jsonl by transformers:\n"
          " * tests/oracle/conversations.py. */")
    ids, said, ends = [], [], []
    for line in open(DATA + "/conversations.jsonl", encoding="utf-8"):
        if not line.strip():
            continue
        c = json.loads(line)
        out = t.apply_chat_template(c["messages"], tools=c.get("tools"), return_dict=True, return_assistant_tokens_mask=True, tokenize=True)
        ids += out["input_ids"]
        said += out["assistant_masks"]
        ends.append(len(ids))
    c_list("figure_ids", ids)
    c_list("figure_said", said)
    c_list("figure_ends", ends)


main()
