#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""JSON schemas beside other programs, through build/libquern.so. Needs jsonschema; for `instances` and `speed` also
hypothesis-jsonschema, for `speed` llguidance and tokenizers.

    schemas.py rows                        the verdicts of tests/unit/text/schema/rows.txt are jsonschema's
    schemas.py suite FOLDER                the official suite of draft 2020-12 (json/tests/draft2020-12 of jsonschema's sdist)

Each prints what differs and exits with 1 if anything does."""
import argparse
import collections
import json
import os
import re
import sys
import time

from quern_schema import Quern, Refused

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = os.path.join(ROOT, "tests/unit/text/schema/rows.txt")
# What the suite says of formats in its main part is that they are annotations; here they are asserted, as its optional part
# does.
ASSERTED = {"date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"}


def in_order(schema, value, root=None):
    """The value with its members in the order in which the schema names them, as far as that can be told without
    validating: through properties, items, $ref and the like."""
    root = schema if root is None else root
    for part in parts(schema, root, set()):
        for given in part.get("enum", []) + ([part["const"]] if "const" in part else []):
            if isinstance(given, (dict, list)) and same(given, value):
                return given
    if isinstance(value, list):
        return [in_order(element_schema(schema, i, root), v, root) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    names = []
    for part in parts(schema, root, set()):
        names += [n for n in part.get("properties", {}) if n not in names]
    for part in parts(schema, root, set()):
        names += [n for n in part.get("required", []) if n not in names]
    names = [n for n in names if n in value] + [n for n in value if n not in names]
    return {n: in_order({"allOf": member_schemas(schema, n, root)}, value[n], root) for n in names}


def same(a, b):
    """Equal as JSON: Python's True is 1, JSON's is not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def parts(schema, root, seen):
    """The schema and those that hold beside it: itself first, then as Quern joins them."""
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen = seen | {id(schema)}
    yield schema
    if "$ref" in schema:
        yield from parts(resolve(root, schema["$ref"]), root, seen)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for s in schema.get(keyword, []):
            yield from parts(s, root, seen)


def resolve(root, ref):
    at = root
    for part in ref[2:].split("/") if ref.startswith("#/") else []:
        part = re.sub("%(..)", lambda m: chr(int(m[1], 16)), part).replace("~1", "/").replace("~0", "~")
        at = at[int(part)] if isinstance(at, list) else at.get(part, {})
    return at


def member_schemas(schema, name, root):
    found = []
    for part in parts(schema, root, set()):
        if name in part.get("properties", {}):
            found.append(part["properties"][name])
        found += [s for p, s in part.get("patternProperties", {}).items() if re.search(p, name)]
        if name not in part.get("properties", {}) and "additionalProperties" in part:
            found.append(part["additionalProperties"])
    return found


def element_schema(schema, i, root):
    found = []
    for part in parts(schema, root, set()):
        prefix = part.get("prefixItems", [])
        if i < len(prefix):
            found.append(prefix[i])
        elif "items" in part:
            found.append(part["items"])
    return {"allOf": found}


# ---- suite -------------------------------------------------------------------------------------------------------------


def suite(quern, folder):
    refused, reasons, wrong = collections.Counter(), collections.defaultdict(collections.Counter), []
    n = collections.Counter()
    names = sorted(f for f in os.listdir(folder) if f.endswith(".json") and f != "format.json")
    formats = os.path.join(folder, "optional", "format")
    names += [os.path.join("optional", "format", f + ".json") for f in sorted(ASSERTED)]
    for name in names + ["optional/ecmascript-regex.json", "optional/bignum.json", "optional/non-bmp-regex.json",
                         "optional/float-overflow.json", "optional/refOfUnknownKeyword.json"]:
        if not os.path.exists(os.path.join(folder, name)):
            continue
        for case in json.load(open(os.path.join(folder, name), encoding="utf-8")):
            n["schemas"] += 1
            impossible = False
            try:
                schema = quern.schema(case["schema"], whole_fractions=True)
            except Refused as e:
                impossible = str(e) == "schema: no value can satisfy it"
                if not impossible:
                    keyword = re.search(r'"([^"]*)"', str(e))
                    refused[keyword[1] if keyword else str(e)] += 1
                    reasons[keyword[1] if keyword else str(e)][name] += 1
                    continue
            n["compiled"] += 1
            for test in case["tests"]:
                text = json.dumps(in_order(case["schema"], test["data"]), ensure_ascii=n["tests"] % 2 == 0)
                n["tests"] += 1
                if (not impossible and schema.accepts(text)) != test["valid"]:
                    if "leap second" in test["description"] and test["valid"] and "time" in name:
                        n["leap"] += 1  # with an offset; only Z and +00:00 have them here
                        continue
                    wrong.append((name, case["description"], test["description"], json.dumps(case["schema"]), text,
                                  "valid" if test["valid"] else "invalid"))
            if not impossible:
                schema.close()
    for w in wrong:
        print("WRONG", *w, sep=" | ")
    print(f"{n['schemas']} schemas, {n['compiled']} compiled, {n['tests']} instances of them, {len(wrong)} wrong verdicts")
    print(f"{n['leap']} leap seconds with an offset refused, see formats.c")
    print("refused, by keyword:", ", ".join(f"{k} {c}" for k, c in refused.most_common()))
    return not wrong


# ---- rows --------------------------------------------------------------------------------------------------------------


def rows():
    import jsonschema

    good, ours, validator, n = True, False, None, 0
    for number, line in enumerate(open(ROWS, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if line.startswith("s"):
            options = line[2:line.index(")")] if line[1] == "(" else ""
            schema = json.loads(line[line.index(" ") + 1:])
            cls = jsonschema.Draft202012Validator
            validator = None if "w" in options else cls(schema, format_checker=cls.FORMAT_CHECKER)
        elif line[:1] in ("+", "-") and validator and not ours:
            try:
                valid = validator.is_valid(json.loads(line[2:], object_pairs_hook=once))
            except ValueError:
                valid = False
            n += 1
            if valid != (line[0] == "+"):
                good = False
                print(f"{ROWS}:{number}: jsonschema says {valid}")
        ours = line.startswith("#!")
    print(f"{n} verdicts")
    return good


def once(pairs):
    if len({k for k, _ in pairs}) != len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("rows")
    commands.add_parser("suite").add_argument("folder")
    o = parser.parse_args()
    quern = Quern(os.path.join(o.build, "libquern.so"), os.path.join(ROOT, "models/shakespeare.gguf"))
    good = {"rows": rows, "suite": lambda: suite(quern, o.folder)}[o.command]()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
