#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench/grammar.py -- what a mask costs here and in llguidance, in one run: the same vocabulary, the same grammars and schemas,
the same texts.

    pip install llguidance gguf numpy && cmake --build build --target bench_grammar
    python3 bench/grammar.py build/bench_grammar VOCAB.gguf [FOLDER]

Each text is tokenized and given token by token; before each token, and after the last, a mask is asked for. `new`: the first
output of a freshly compiled grammar, so a state that comes again within the output is already known (both engines keep
what they know of a grammar); `again`: a second output of the same grammar. The vocabulary's own tables are made before.
With GBNF the two engines must allow the same tokens; differences are counted. Schemas differ in white space, so there it is
only looked at whether both allow the text."""
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import gguf
import llguidance
import numpy as np

WORDS = ("the quick brown fox jumps over a lazy dog while rain falls on old roofs and people of several towns wait for news about "
         "prices weather elections music and the price of bread which rose again last week in every city of the land").split()

JSON = r'''root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
'''
LINES = 'root ::= ("- " [^\\n]+ "\\n"){1,40}\n'
SHORT = 'root ::= line{1,30}\nline ::= [A-Z] [a-z ]{5,60} "." "\\n"\n'
CODE = r'''root ::= (stmt "\n")+
stmt ::= ident " = " expr ";"
expr ::= term (" " [-+*/] " " term)*
term ::= ident | num | "(" expr ")"
ident ::= [a-z] [a-z0-9_]*
num ::= [0-9]+ ("." [0-9]+)?
'''


class Source:
    """Schemas and texts, always the same for a seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def words(self, lo, hi):
        return " ".join(self.r.choice(WORDS) for _ in range(self.r.randint(lo, hi)))

    def pair(self, depth=0):
        """(schema, instance)"""
        r = self.r
        kind = r.choice(["string", "string", "bounded", "enum", "integer", "number", "boolean", "pattern", "date", "nullable"]
                        + (["object", "array", "object"] if depth < 3 else []))
        if kind == "string":
            return {"type": "string"}, self.words(2, 20) + r.choice(["", "!", ' "quoted"', " caf\u00e9", "\nnew line"])
        if kind == "bounded":
            return {"type": "string", "minLength": 3, "maxLength": 80}, self.words(2, 8)[:80]
        if kind == "enum":
            values = [self.words(1, 2) for _ in range(r.randint(2, 12))]
            return {"enum": values}, r.choice(values)
        if kind == "integer":
            return {"type": "integer"}, r.randint(-10**6, 10**6)
        if kind == "number":
            return {"type": "number"}, round(r.uniform(-1000, 1000), 3)
        if kind == "boolean":
            return {"type": "boolean"}, r.random() < .5
        if kind == "pattern":
            return {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}, "AB-%04d" % r.randint(0, 9999)
        if kind == "date":
            return {"type": "string", "format": "date"}, "20%02d-%02d-%02d" % (r.randint(10, 30), r.randint(1, 12), r.randint(1, 28))
        if kind == "nullable":
            return {"anyOf": [{"type": "string"}, {"type": "null"}]}, r.choice([None, self.words(1, 4)])
        if kind == "array":
            item = r.getstate()
            schema, _ = self.pair(depth + 1)
            values = []
            for _ in range(r.randint(1, 4)):
                r.setstate(item)
                values.append(self.pair(depth + 1)[1])
            return {"type": "array", "items": schema}, values
        names = r.sample(WORDS[:24], r.randint(2, 6))
        pairs = {name: self.pair(depth + 1) for name in dict.fromkeys(names)}
        return ({"type": "object", "properties": {n: p[0] for n, p in pairs.items()}, "required": list(pairs),
                 "additionalProperties": False}, {n: p[1] for n, p in pairs.items()})

    def object(self):
        while True:
            schema, value = self.pair()
            if schema.get("type") == "object":
                return schema, value


def cases():
    """(kind, grammar source, text)"""
    for i in range(12):
        s = Source(1000 + i)
        yield "json", JSON, json.dumps([s.object()[1] for _ in range(3)][0], ensure_ascii=i % 2 == 0, indent=2 if i % 3 == 0 else None)
    s = Source(7)
    yield "lines", LINES, "".join("- " + s.words(3, 15) + "\n" for _ in range(12))
    yield "short lines", SHORT, "".join(s.words(3, 8).capitalize()[:60] + ".\n" for _ in range(12))
    yield "code", CODE, "".join("%s = %d * (%s + 1.5);\n" % (s.r.choice(WORDS), s.r.randint(1, 999), s.r.choice(WORDS)) for _ in range(12))
    for i in range(100):
        schema, value = Source(i).object()
        yield "schema", json.dumps(schema), json.dumps(value, ensure_ascii=i % 2 == 0)


def vocabulary(path):
    reader = gguf.GGUFReader(path)
    field = reader.fields["tokenizer.ggml.tokens"]
    pieces = [bytes(field.parts[i]) for i in field.data]
    kinds = [int(reader.fields["tokenizer.ggml.token_type"].parts[i][0]) for i in reader.fields["tokenizer.ggml.token_type"].data]
    eos = int(reader.fields["tokenizer.ggml.eos_token_id"].parts[-1][0])
    plain = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    rest = [b for b in range(256) if b not in plain]
    byte_of = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}
    special = [i for i, k in enumerate(kinds) if k not in (1, 4)]
    tokens = [p if kinds[i] != 1 else bytes(byte_of[c] for c in p.decode()) for i, p in enumerate(pieces)]
    return tokens, special, eos


class Words:
    """What llguidance wants of a tokenizer."""

    def __init__(self, path):
        self.tokens, self.special_token_ids, self.eos_token_id = vocabulary(path)
        self.bos_token_id = None
        self.ids = {t: i for i, t in reversed(list(enumerate(self.tokens)))}
        self.longest = max(map(len, self.tokens))

    def __call__(self, text):
        # For bytes that a grammar forces: the longest piece at each place. Texts come as ids.
        at, ids = 0, []
        text = text if isinstance(text, bytes) else text.encode()
        while at < len(text):
            n = next(n for n in range(min(self.longest, len(text) - at), 0, -1) if text[at:at + n] in self.ids)
            ids.append(self.ids[text[at:at + n]])
            at += n
        return ids


def figures(name, ns):
    us = np.array(ns) / 1000
    print("  %-26s %7d masks: mean %8.2f us, median %8.2f, 99 %% %8.1f, worst %8.1f" % (
        name, len(us), us.mean(), np.median(us), np.percentile(us, 99), us.max()))


def main():
    bench, vocab = sys.argv[1:3]
    folder = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp()
    all_cases = list(cases())
    for i, (kind, source, text) in enumerate(all_cases):
        for end, content in ((".schema" if kind == "schema" else ".gbnf", source), (".txt", text)):
            with open(os.path.join(folder, str(i) + end), "w") as f:
                f.write(content)
    out = subprocess.run([bench, vocab, folder, "masks"], check=True, capture_output=True, text=True).stdout.splitlines()
    n_vocab = int(out[0].split()[1])
    steps, heads = [[] for _ in all_cases], {}
    for line in out[1:]:
        fields = line.split()
        if fields[0] == "case":
            heads[int(fields[1])] = dict(zip(fields[2::2], map(float, fields[3::2])))
        else:
            steps[int(fields[0])].append(list(map(int, fields[1:])))
    print("%s; quern's trie takes %s ms, once" % (vocab, round(float(out[0].split()[3]) / 1000, 1)))

    words = (n_vocab + 31) // 32
    wrapper = Words(vocab)
    tok = llguidance.LLTokenizer(llguidance.TokenizerWrapper(wrapper), n_vocab=n_vocab, slices=llguidance.LLTokenizer.json_slices())
    theirs = {"new": {}, "again": {}}
    compile_us, refused, differ, compared = {"quern": [], "llguidance": []}, 0, 0, 0
    bits = np.zeros((1, words), dtype=np.int32)
    text_only = np.zeros(words * 32, dtype=np.uint8)  # which tokens end an output is not what is compared
    text_only[np.setdiff1d(np.arange(n_vocab), wrapper.special_token_ids + list(map(int, out[0].split()[5:])))] = 1
    text_only = np.packbits(text_only, bitorder="little").view(np.int32)
    for i, (kind, source, text) in enumerate(all_cases):
        compile_us["quern"].append(heads[i]["compile_us"] + heads[i]["first_us"])
        t = time.thread_time_ns()
        grammar = (llguidance.LLMatcher.grammar_from_json_schema(source) if kind == "schema"
                   else llguidance.grammar_from("gbnf", source))
        first = llguidance.LLMatcher(tok, grammar)
        compile_us["llguidance"].append((time.thread_time_ns() - t) / 1000)
        if first.is_error():
            raise SystemExit(first.get_error())
        again = first.deep_copy()
        mine = np.fromfile(os.path.join(folder, "%d.mask" % i), dtype=np.int32).reshape(-1, words)
        for name, m in (("new", first), ("again", again)):
            for k, (token, _, _, _, allowed) in enumerate(steps[i]):
                t = time.thread_time_ns()
                m.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
                theirs[name].setdefault(kind, []).append(time.thread_time_ns() - t)
                if kind != "schema" and name == "new":
                    compared += 1
                    differ += int(((bits[0] ^ mine[k]) & text_only).any())
                if token < 0 or not allowed:
                    break
                if not m.consume_token(token):
                    refused += 1
                    break
    kinds = list(dict.fromkeys(kind for kind, _, _ in all_cases))
    for kind in kinds + ["all"]:
        chosen = [i for i, c in enumerate(all_cases) if kind in (c[0], "all")]
        print("%s: %d texts, %d tokens" % (kind, len(chosen), sum(len(steps[i]) for i in chosen)))
        for at, name in ((1, "new"), (2, "again")):
            figures("quern, " + name, [s[at] for i in chosen for s in steps[i]])
            figures("llguidance, " + name, [ns for k in kinds if kind in (k, "all") for ns in theirs[name][k]])
    for engine, us in compile_us.items():
        print("compile and first matcher, %s: mean %.0f us, 95 %% %.0f, worst %.0f" % (
            engine, np.mean(us), np.percentile(us, 95), max(us)))
    print("second matcher, quern: mean %.1f us; accept: mean %.2f us new, %.2f again" % (
        np.mean([h["second_us"] for h in heads.values()]), np.mean([h["accept_us"] for h in heads.values()]),
        np.mean([h["warm_accept_us"] for h in heads.values()])))
    print("texts that end early: quern %d, llguidance %d; masks of GBNF that differ: %d of %d" % (
        sum(not s[-1][4] for s in steps), refused, differ, compared))


if __name__ == "__main__":
    main()
