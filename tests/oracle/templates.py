#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/oracle/templates.py -- what jinja2 makes of templates, in the environment of Hugging Face's transformers (immutable
sandbox, trim_blocks, lstrip_blocks, loopcontrols, {% generation %}, its own tojson; strftime_now shows a fixed time):

    pip install jinja2==3.1.6 && python3 tests/oracle/templates.py

writes tests/unit/text/jinja/expressions.jsonl and statements.jsonl (results of the lines of expressions.txt and the entries
of statements.json over variables.json), and templates.json (of each template of ../shared/templates and each conversation
of conversations.json the length and SHA-256 of the text, the template's own message, or "error")."""
import datetime
import glob
import hashlib
import json
import os

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "unit", "text", "jinja")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                    extensions=[Generation, jinja2.ext.loopcontrols])
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception
ENV.globals["strftime_now"] = NOW.strftime


def render(template, variables):
    """{"text": ..}, {"raise": ..} or {"error": true}"""
    try:
        return {"text": ENV.from_string(template).render(**variables)}
    except Raised as e:
        return {"raise": str(e)}
    except Exception:
        return {"error": True}


def write_lines(name, templates, variables):
    with open(os.path.join(DATA, name), "w", encoding="ascii") as f:
        for t in templates:
            f.write(json.dumps({"template": t, **render(t, variables)}) + "\n")


def main():
    with open(os.path.join(DATA, "variables.json"), encoding="utf-8") as f:
        variables = json.load(f)
    with open(os.path.join(DATA, "expressions.txt"), encoding="utf-8") as f:
        write_lines("expressions.jsonl", ["{{ " + line.rstrip("\n") + " }}" for line in f], variables)
    with open(os.path.join(DATA, "statements.json"), encoding="utf-8") as f:
        write_lines("statements.jsonl", json.load(f), variables)
    with open(os.path.join(DATA, "conversations.json"), encoding="utf-8") as f:
        conversations = json.load(f)
    results = {}
    for path in sorted(glob.glob(os.path.join(HERE, "..", "..", "..", "shared", "templates", "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as f:
            source = f.read()
        of = results[os.path.basename(path)] = {}
        for name, conversation in conversations.items():
            given = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": None}
            r = render(source, {**given, **conversation})
            text = r.get("text", "").encode()
            if "text" in r:
                r = "%d %s" % (len(text), hashlib.sha256(text).hexdigest())
            of[name] = r
    if results:
        with open(os.path.join(DATA, "templates.json"), "w", encoding="ascii") as f:
            json.dump(results, f, indent=0)
            f.write("\n")


if __name__ == "__main__":
    main()
