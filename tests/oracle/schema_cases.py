# SPDX-License-Identifier: MIT
"""Made-up schemas as people write them, from a seed; whether a text begins JSON. For schemas.py."""
import random
import re

NAMES = ["id", "name", "age", "tags", "kind", "city", "unit", "note", "élan", "a b", "x/y", "q\"q", "count", "items", "when"]
PATTERNS = ["^[a-z]{1,8}$", "^[A-Z]{3}-[0-9]{2,4}$", "^(yes|no|maybe)$", "^\\S{2,5}$", "^#[0-9a-f]{6}$", "^a?b{0,3}c$",
            "^[^\"\\\\x]{1,4}$", "^(?:[01]?\\d):[0-5]\\d$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email"]


def string(r):
    k = r.random()
    if k < 0.3:
        low = r.randrange(4)
        return {"type": "string", "minLength": low, "maxLength": low + r.randrange(1, 12)}
    if k < 0.5:
        return {"enum": r.sample(["red", "green", "blue", "größe", "a\nb", "", "redder"], r.randrange(1, 5))}
    if k < 0.7:
        return {"type": "string", "pattern": r.choice(PATTERNS)}
    if k < 0.75:
        return {"type": "string", "pattern": "^[a-z0-9]*$", "minLength": 2, "maxLength": 6}
    if k < 0.85:
        return {"type": "string", "format": r.choice(FORMATS)}
    if k < 0.88:
        return {"type": "string"}
    return {"type": "string", "maxLength": r.randrange(1, 20)}


def number(r):
    k = r.random()
    if k < 0.25:
        return {"type": "integer"}
    low = r.randrange(-300, 300)
    if k < 0.6:
        return {"type": "integer", "minimum": low, "maximum": low + r.randrange(400)}
    if k < 0.75:
        return {"type": "integer", r.choice(["exclusiveMinimum", "minimum"]): low}
    if k < 0.85:
        return {"type": "number", "minimum": low / 8, "exclusiveMaximum": low / 8 + r.randrange(1, 90) / 16}
    return {"type": "number"}


def obj(r, depth):
    names = r.sample(NAMES, r.randrange(1, 5))
    s = {"type": "object", "properties": {n: schema(r, depth - 1) for n in names},
         "required": r.sample(names, r.randrange(len(names) + 1))}
    if r.random() < 0.8:
        s["additionalProperties"] = False
    elif r.random() < 0.5:
        s["additionalProperties"] = number(r)
    if r.random() < 0.1:
        s["patternProperties"] = {"^z[0-9]$": number(r)}
    return s


def one_of(r, depth):
    kinds = r.sample(["cat", "dog", "cow"], 2)
    return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k}, "size": schema(r, depth - 1)},
                       "required": ["kind", "size"], "additionalProperties": False} for k in kinds]}


def schema(r, depth):
    k = r.random()
    if depth <= 0 or k < 0.25:
        return string(r)
    if k < 0.4:
        return number(r)
    if k < 0.47:
        return {"type": r.choice(["boolean", "null", ["string", "null"], ["integer", "boolean"]]), "maxLength": 5}
    if k < 0.5:
        return {"const": r.choice([1, "x", None, True, {"a": [1, "b"]}, [], 2.5])}
    if k < 0.65:
        low = r.randrange(3)
        return {"type": "array", "items": schema(r, depth - 1), "minItems": low, "maxItems": low + r.randrange(1, 4)}
    if k < 0.68:
        return {"type": "array", "prefixItems": [number(r), string(r)], "items": False}
    if k < 0.74:
        return {"anyOf": [schema(r, depth - 1), {"type": "null"}]}
    if k < 0.78:
        return one_of(r, depth)
    if k < 0.82:
        return {"allOf": [obj(r, depth - 1), {"type": "object", "properties": {"more": {"type": "boolean"}}}]}
    return obj(r, depth)


def made(seed):
    """The seed's schema: an object, or sometimes recursive."""
    r = random.Random(seed)
    if seed % 10 == 7:
        return {"$ref": "#/$defs/node", "$defs": {"node": {
            "type": "object", "properties": {"value": schema(r, 1), "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["value", "next"], "additionalProperties": False}}}
    return obj(r, 3)


def unrolled(s, depth=3):
    """Without its recursion, which hypothesis-jsonschema does not take: three nodes deep at most."""
    if "$ref" not in s:
        return s
    node = s["$defs"]["node"]
    inner = unrolled(s, depth - 1) if depth else {"type": "null"}
    return {**node, "properties": {**node["properties"], "next": {"anyOf": [inner, {"type": "null"}]}}}


WORD = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?'
                  r"|true|false|null|[{}\[\],:]")
BEGUN = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?:\\(?:u[0-9a-fA-F]{0,3})?)?|-?(?:0|[1-9][0-9]*)?\.?'
                   r"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][+-]?|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?")


def begins_json(text):
    """Whether something can follow (or nothing has to) that makes the text one JSON value."""
    stack, want = [], "value"  # want: value, first (or the end of it), name, colon, comma
    at = 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" \n\t\r"))
        if at == len(text):
            return True
        m = WORD.match(text, at)
        if not m:
            rest = BEGUN.fullmatch(text, at)
            return bool(rest) and (want == "value" or want == "first" and (stack[-1] == "[" or text[at] == '"') or
                                   want == "name" and text[at] == '"')
        word, at = m[0], m.end()
        if word in "}]":
            if not stack or want not in ("first", "comma") or stack.pop() + word not in ("{}", "[]"):
                return False
            want = "comma" if stack else "end"
        elif word == ",":
            if want != "comma":
                return False
            want = "name" if stack[-1] == "{" else "value"
        elif word == ":":
            if want != "colon":
                return False
            want = "value"
        elif want == "name" or want == "first" and stack[-1] == "{":
            if word[0] != '"':
                return False
            want = "colon"
        elif want not in ("value", "first"):
            return False
        elif word in "{[":
            stack.append(word)
            want = "first"
        else:
            if at == len(text) and word[0] in "-0123456789":
                return True
            want = "comma" if stack else "end"
