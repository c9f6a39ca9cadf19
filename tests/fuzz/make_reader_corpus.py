#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seed corpus of fuzz_reader: for each template of tests/unit/text/reader.h an answer with calls in its
syntax, whole, cut, and broken.  make_reader_corpus.py FOLDER"""
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))
header = open(os.path.join(here, "../unit/text/reader.h"), encoding="utf-8").read()
names = re.findall(r'^    \{"([^"]+)", *"(?:json|channels|named|python|tagged)",', header, re.M)
J = '{"s": "Paris \\"x\\"\\n<b>", "n": 3, "o": {"k": [1, {"x": "y"}]}}'
answers = {
    "hermes": '<think>\nSo.\n</think>\n\nHello<tool_call>{"name": "get_weather", "arguments": %s}\n</tool_call><tool_call>{"name": "add"}</tool_call>' % J,
    "tools behind the user": 'Hi<call>{"name": "get_weather", "arguments": %s}</call>' % J,
    "array": 'Hi[TOOL_CALLS][{"name": "get_weather", "arguments": %s, "id": "abcdefghi"}, {"name": "add", "arguments": "{}"}]' % J,
    "actions": '<|THINK|>So.<|/THINK|><|ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": %s},\n    {"tool_call_id": "1", "tool_name": "add", "parameters": {}}\n]<|/ACTION|>' % J,
    "by name": 'Hi<|tools|>[{"get_weather": %s}, {"add": {}}]<|/tools|>' % J,
    "bare": '{"name": "get_weather", "parameters": %s}' % J,
    "args": 'Hi[TOOL_CALLS]get_weather[ARGS]%s[TOOL_CALLS]add[ARGS]{}' % J,
    "nine letters": 'Hi[CALLS]get_weather[ID]callqnid1[ARGS]%s[CALLS]add[ID]callqnid2[ARGS]{}' % J,
    "sections": 'Hi<|calls|><|call|>functions.get_weather:0<|arguments|>%s<|/call|><|call|>functions.add:1<|arguments|>{}<|/call|><|/calls|>' % J,
    "fenced": '<|calls|><|call|>function<|sep|>get_weather\n```json\n%s\n```<|/call|>\n<|call|>function<|sep|>add\n```json\n{}\n```<|/call|>\n<|/calls|>' % J,
    "closed behind two": '<|calls|><|call|>get_weather<|sep|>%s<|/call|>\n<|call|>add<|sep|>{}<|/call|><|/calls|>' % J,
    "recipients": '>>>all\nHi>>>get_weather\n%s>>>add\n{}' % J,
    "with ids": '<|think|>So.<|end|><|begin|>assistant<|tool_calls|><|call:begin|>call_1<|call:name|>get_weather<|call:args|>%s<|call:end|><|calls|>' % J,
    "loose": '<|channel>thought\nSo.<channel|>Hi<|tool_call>call:get_weather{s:<|"|>Paris "x"<|"|>,n:3,o:{k:[1,{x:<|"|>y<|"|>}]}}<tool_call|>',
    "channels": '<|channel|>analysis<|message|>So.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>%s<|call|>' % J,
    "python": "Hi<|calls|>[get_weather(s='it''s', n=3, o={\"k\": [1, None]}), add()]<|/calls|>",
    "says how, and shows no calls": 'Hi<|tool_call|>[{"name": "get_weather", "arguments": %s}, {"name": "add", "arguments": {}}]' % J,
    "lists tools, and shows no calls": "Hi<|tool_call_start|>[get_weather(s='it\\'s', t=\"a\", n=3, o={'k': [1, {'x': True}]}), add()]<|tool_call_end|>",
    "literals": "Hi<|calls|>[get_weather(s='it\\'s', t=\"a\\u00e9\", n=3, o={'k': [1, {'x': True}]}), add()]<|/calls|>",
    "parameters": 'Hi<tool_call>\n<function=get_weather>\n<parameter=s>\nParis\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>',
    "invoke": 'Hi<x:tool_call>\n<invoke name="get_weather">\n<parameter name="s">Paris</parameter>\n<parameter name="o">{"k": [1]}</parameter>\n</invoke>\n<invoke name="add">\n</invoke>\n</x:tool_call>',
    "keys and values": 'Hi<tool_call>get_weather\n<arg_key>s</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>b</arg_key>\n<arg_value>true</arg_value>\n</tool_call>',
    "python's values": "Hi<call>\n<function=get_weather>\n<parameter=s>Paris</parameter>\n<parameter=o>{'k': [1, None, True]}</parameter>\n</function>\n</call>",
    "typed": 'Hi\n\n<|X|calls>\n<|X|invoke name="get_weather">\n<|X|parameter name="s" string="true">Paris</|X|parameter>\n<|X|parameter name="n" string="false">3</|X|parameter>\n</|X|invoke>\n</|X|calls>',
    "cdata": 'Hi<function name="get_weather"><param name="s"><![CDATA[<b>]]></param><param name="n">3</param></function>',
    "nested": 'Hi]~[<calls>\n]~[<invoke name="get_weather">]~[<s>Paris]~[</s>]~[<o>]~[<k>]~[<item>1]~[</item>]~[<item>]~[<x>y]~[</x>]~[</item>]~[</k>]~[</o>]~[</invoke>\n]~[</calls>',
}
assert sorted(names) == sorted(answers), sorted(set(names) ^ set(answers))
out = sys.argv[1]
os.makedirs(out, exist_ok=True)
for i, name in enumerate(names):
    data = answers[name].encode()
    word = re.sub("[^a-z]+", "_", name)
    forms = {"whole": data, "cut": data[: len(data) * 2 // 3], "twice": data + data, "broken": data.replace(b'"', b"", 3)}
    for k, (form, text) in enumerate(forms.items()):
        with open(os.path.join(out, f"{word}_{form}"), "wb") as f:
            f.write(bytes([i, (2 * k + 5) | (form == "cut")]) + text)
# Found by runs of hours: an object within a list of arguments was taken for the arguments where a piece began with it.
with open(os.path.join(out, "arguments_in_a_list"), "wb") as f:
    f.write(bytes([1, 1]) + b'Hi<call>{"name": "get_weather", "arguments": [ {"s": "x')
