#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpora of fuzz_grammar, fuzz_template and fuzz_conversation: corpus/NAME/*. Run it after changing it; needs no package.

fuzz_grammar/*    switches, GBNF up to a zero byte, steps: a byte a token, every fifth a byte of text
fuzz_template/*   a template
fuzz_conversation/*   which template, then messages, tools, kwargs, each up to a zero byte
"""
import json
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
N_WORDS = 20  # of fuzz_grammar's vocabulary; bytes come behind them


def write(target, name, content):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(content)


def steps(text):
    """As single bytes, tokens but for every fifth; those beyond 235 cannot be said as tokens."""
    return bytes((b if i % 5 == 4 else b + N_WORDS) % 256 for i, b in enumerate(text))


GRAMMARS = {
    "yes": (r'root ::= "yes" | "no"', b"yes"),
    "json": (r'''root ::= value
value ::= object | array | string | number | "true" | "null"
object ::= "{" (string ":" value ("," string ":" value)*)? "}"
array ::= "[" (value ("," value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\n])* "\""
number ::= "-"? [0-9]{1,15} ("." [0-9]+)?''', b'{"a":[1,true,{"b":[]}]}'),
    "ambiguous": (r'root ::= "(" root ")" | "(" root "]" | ""', b"((((])]]"),
    "nullable": (r'''root ::= x x x* y
x ::= "a"? | "" | z
z ::= "b"? "c"?
y ::= x x "!"?''', b"aabcaabb!"),
    "bounded": (r'root ::= "\"" [^"\\\x00-\x1f]{3,40} "\"" ("," [a-z]{,9}){2,}', b'"some text",ab,cd'),
    "wide": ("root ::= [\u00e0-\u00ff\U0001f600-\U0001f64f.]+ . [^x]", "\u00e9\u00ff\U0001f601x\u4e2d".encode()),
    "tokens": ("root ::= <|x|> !<[7]>* <[7]> | \"a\" <|x|>", bytes([0, 3 + 256 - N_WORDS, 4])),
    "recursion": ('root ::= a\na ::= b? a "x" | "y"\nb ::= ""', b"y"),
    "right": ('root ::= "a" root | "b" root "c" | ""', b"aabbaacc"),
    "endless": ('root ::= "a" root', b"a"),
    "comments": ("# c\nroot ::=\n  a # x\n | b\na ::= [\\]\\-^] \"\\x41\\u00e9\\U0001F600\"\nb::=(\"x\"|\"y\"){2}", b"xy"),
    "undefined": ("root ::= a", b""), "open": ('root ::= ("a"', b""), "escape": ('root ::= "\\q"', b""),
    "repeats": ('root ::= (("a"{9}){9}){9}', b"aaaaaaaaa"),
    "prefix": ('root ::= "aab" [0-9]+ | <|x|> "1"', b"xaaab12"),
}
for name, (source, text) in GRAMMARS.items():
    for flags in (0, 16 + 32, 1, 1 + 2 + 4 + 16, 1 + 8):
        write("fuzz_grammar", "%s-%02d" % (name, flags), bytes([flags]) + source.encode() + b"\0" + steps(text))

TEMPLATES = {
    "plain": "a {{ s }} {# c #} {{- n -}} b",
    "loops": "{% for m in messages if m.role != 'tool' %}{{ loop.index }}/{{ loop.length }} {{ m.content }}"
             "{% if loop.last %}.{% else %}{% continue %}{% endif %}{% else %}none{% endfor %}",
    "macros": "{% macro f(x, y=1) %}{{ x }}-{{ y }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{% call f(2, y=3) %}in{% endcall %}",
    "sets": "{% set ns = namespace(a=1) %}{% for i in range(4) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}"
            "{% set b %}block{% endset %}{{ b ~ 1 }}",
    "filters": "{{ l | sort | join(',') }}{{ d | tojson(indent=2) }}{{ s | upper | replace('A', 'b') | trim | length }}"
               "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}{{ 'x' | default('y') }}",
    "strings": "{{ s.split(' ')[::-1] }}{{ s[1:] }}{{ '%s %d' % ('a', 3) }}{{ '{} {x}'.format(1, x=2) }}{{ s.strip('a').title() }}",
    "numbers": "{{ 7 // 2 }}{{ -7 % 3 }}{{ 2 ** 10 }}{{ 1e300 * 10 }}{{ 1 / 3 }}{{ 10 ** 30 }}{{ 1.5 | round | int }}",
    "tests": "{{ s is string and n is divisibleby 3 or x is not defined }}{{ 1 if l is iterable else 2 }}{{ 'a' in s }}",
    "raise": "{{ raise_exception('no: ' ~ n) }}",
    "deep": "(" * 5 + "{{ " + "(" * 50 + "1" + ")" * 50 + " }}" + "[" * 5,
    "huge": "{{ 'a' * 999999999 }}", "loop": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "self": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "broken": "{% if %}{{ }}{% endfor %}", "unknown": "{{ s | nothing }}",
    "undefined": "{{ a.b.c }}{{ missing }}", "wrap": "{{ s | wordwrap(2) }}{{ s | center(9) }}{{ s | truncate(3) }}{{ d | pprint }}",
    "generation": "{% generation %}{{ s }}{% endgeneration %}", "filter": "{% filter upper %}a{{ s }}{% endfilter %}",
    "unicode": "{{ '\u00e9\u00df\U0001f600' | upper }}{{ '\u0130'.lower() }}", "cycler": "{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}",
}
for name, source in TEMPLATES.items():
    write("fuzz_template", name, source.encode())

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1, \"y\": [\"a\"]}"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}]
CONVERSATIONS = {
    "user": ([{"role": "user", "content": "hi"}], None, None),
    "turns": ([{"role": "system", "content": "s"}, {"role": "user", "content": "<|im_end|>"}, {"role": "assistant", "content": "b"},
               {"role": "system", "content": "late"}, {"role": "user", "content": [{"type": "text", "text": "\u00e9"}]}], None, {"x": [1]}),
    "calls": ([{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
               {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "3"}], TOOLS, None),
    "reasoning": ([{"role": "user", "content": "go"}, {"role": "assistant", "content": "x", "reasoning_content": "why"},
                   {"role": "user", "content": "on"}], None, {"enable_thinking": False}),
    "wrong": ([{"role": 1}], None, None), "empty": ([], None, None), "names": ([{"role": "nobody", "content": {}}], None, None),
    "bad": (None, None, None),
}
for name, (messages, tools, kwargs) in CONVERSATIONS.items():
    text = b"[{" if messages is None else json.dumps(messages).encode()
    for i in range(4):
        write("fuzz_conversation", "%s-%d" % (name, i), bytes([i]) + text + b"\0" + (json.dumps(tools).encode() if tools else b"") +
              b"\0" + (json.dumps(kwargs).encode() if kwargs else b""))
