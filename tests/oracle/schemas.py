#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""JSON schemas beside other programs, through build/libquern.so. Needs jsonschema; for `instances` and `speed` also
hypothesis-jsonschema, for `speed` llguidance and tokenizers.

    schemas.py rows                        the verdicts of tests/unit/text/schema/rows.txt are jsonschema's
    schemas.py suite FOLDER                the official suite of draft 2020-12 (json/tests/draft2020-12 of jsonschema's sdist)
    schemas.py generate [--schemas N] [--seeds N]     what a random-weight model says by made-up schemas (schema_cases.py):
                                           what ends by itself validates, what meets the limit begins JSON
    schemas.py instances [--schemas N]     20 instances of each by hypothesis-jsonschema, tokenized, are not masked
    schemas.py speed [--schemas N]         milliseconds to compile each, and llguidance's

Each prints what differs and exits with 1 if anything does."""
import argparse
import collections
import decimal
import json
import os
import re
import subprocess
import sys
import time

import schema_cases
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
            try:
                schema = json.loads(line[line.index(" ") + 1:])
            except ValueError:
                schema = 0
            cls = jsonschema.Draft202012Validator
            validator = None if "w" in options or isinstance(schema, int) and not isinstance(schema, bool) else cls(for_python(schema), format_checker=cls.FORMAT_CHECKER)
        elif line[:1] in ("+", "-") and validator and not ours:
            try:
                valid = validator.is_valid(json.loads(line[2:], object_pairs_hook=once))
            except re.error:
                continue  # ECMA-262's alone
            except ValueError:
                valid = False
            n += 1
            if valid != (line[0] == "+"):
                good = False
                print(f"{ROWS}:{number}: jsonschema says {valid}")
        ours = line.startswith("#!")
    print(f"{n} verdicts")
    return good


# ---- made-up schemas -----------------------------------------------------------------------------------------------


def generate(build, n_schemas, n_seeds, limit):
    import jsonschema

    cls = jsonschema.Draft202012Validator
    program, model = os.path.join(build, "quern"), os.path.join(build, "random-weights.gguf")
    subprocess.run([program, "synth", model, "--preset", "tiny", "--vocab", os.path.join(ROOT, "models/shakespeare.gguf"),
                    "--ctx", "2048"], check=True)
    n, bad = collections.Counter(), 0
    for i in range(n_schemas):
        schema = schema_cases.made(i)
        for seed in range(n_seeds):
            run = subprocess.run([program, "run", model, "x", "--quiet", "-t", "1", "--seed", str(seed), "-n", str(limit),
                                  "--stats", "/dev/stderr", "-j", json.dumps(schema)], capture_output=True)
            tokens = re.search(rb'"decode_tokens": (\d+)', run.stderr)
            ended = tokens and int(tokens[1]) < limit - 1
            text = run.stdout.decode("utf-8", "replace" if not ended else "strict")
            n["outputs"] += 1
            n["ended"] += bool(ended)
            try:
                good = run.returncode == 0 and (
                    cls(schema, format_checker=cls.FORMAT_CHECKER).is_valid(json.loads(text))
                    if ended else schema_cases.begins_json(text.rstrip("\ufffd\n")))
            except ValueError:
                good = False
            if not good:
                bad += 1
                print("WRONG", i, seed, run.returncode, "ended" if ended else "cut off", json.dumps(schema), text[-300:],
                      run.stderr[-200:] if run.returncode else "", sep=" | ")
    print(f"{n['outputs']} outputs of {n_schemas} schemas, {n['ended']} ended by themselves "
          f"({100 * n['ended'] / n['outputs']:.1f} %), {bad} wrong")
    return bad == 0 and n["ended"] >= 0.9 * n["outputs"]


def for_python(schema):
    """Patterns as Python's re reads what ECMA-262 means: \\d and \\s of other scripts, and $ before a last newline."""
    if isinstance(schema, list):
        return [for_python(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    made = {k: for_python(v) for k, v in schema.items()}
    if isinstance(made.get("pattern"), str):
        made["pattern"] = ("(?a)" if "\\d" in made["pattern"] else "") + made["pattern"].replace("$", "\\Z")
    if isinstance(made.get("patternProperties"), dict):
        made["patternProperties"] = {k.replace("$", "\\Z"): v for k, v in made["patternProperties"].items()}
    return made


def instances_of(schema, n):
    import warnings

    from hypothesis import HealthCheck, Phase, given, settings, seed
    from hypothesis_jsonschema import from_schema

    found = []

    @seed(1)
    @settings(max_examples=n, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(from_schema(schema))
    def collect(value):
        found.append(value)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collect()
    return found


def without_exponents(text):
    """Numbers with bounds are written so."""
    word = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?e[+-]?\d+')
    return word.sub(lambda m: m[0] if m[0][0] == '"' else format(decimal.Decimal(m[0]), "f"), text)


def instances(quern, n_schemas):
    import jsonschema

    cls = jsonschema.Draft202012Validator
    n = collections.Counter()
    for i in range(n_schemas):
        schema = schema_cases.made(i)
        compiled = quern.schema(schema)
        for value in instances_of(for_python(schema_cases.unrolled(schema)), 20):
            if not cls(schema, format_checker=cls.FORMAT_CHECKER).is_valid(value):
                continue  # of formats that hypothesis-jsonschema does not know
            text = without_exponents(json.dumps(in_order(schema, value), ensure_ascii=n["instances"] % 2 == 0))
            n["instances"] += 1
            at = compiled.first_masked(text)
            if at is None:
                continue
            n["masked"] += 1
            print("MASKED", i, json.dumps(schema), text, f"token {at}", sep=" | ")
        compiled.close()
    print(f"{n['instances']} instances of {n_schemas} schemas, {n['masked']} masked")
    return n["masked"] == 0


def speed(quern, n_schemas):
    import llguidance

    tokenizer = llguidance.LLTokenizer("byte")
    ours, theirs, refused = [], [], 0
    for i in range(n_schemas):
        text = json.dumps(schema_cases.made(i))
        best = []
        for _ in range(3):
            begin = time.perf_counter()
            grammar = quern.compile(text)
            best.append(1e3 * (time.perf_counter() - begin))
            quern.lib.qn_grammar_destroy(grammar)
        ours.append(min(best))
        begin = time.perf_counter()
        matcher = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(text))
        theirs.append(1e3 * (time.perf_counter() - begin))
        refused += matcher.is_error()
    for name, times in (("quern", ours), ("llguidance", theirs)):
        times.sort()
        print(f"{name:10} ms to compile: mean {sum(times) / len(times):.2f}, median {times[len(times) // 2]:.2f}, "
              f"95 % {times[len(times) * 95 // 100]:.2f}, longest {times[-1]:.2f}")
    print(f"llguidance refuses {refused} of them")
    return ours[len(ours) * 95 // 100] < 20


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
    for name, n in (("generate", 500), ("instances", 500), ("speed", 500)):
        command = commands.add_parser(name)
        command.add_argument("--schemas", type=int, default=n)
        command.add_argument("--seeds", type=int, default=3)
        command.add_argument("--limit", type=int, default=1500, help="tokens")
        command.add_argument("--model", default=os.path.join(ROOT, "../shared/vocab/llama-bpe.gguf"), help="for its vocabulary")
    o = parser.parse_args()
    quern = Quern(os.path.join(o.build, "libquern.so"), getattr(o, "model", os.path.join(ROOT, "models/shakespeare.gguf")))
    good = {"rows": rows, "suite": lambda: suite(quern, o.folder),
            "generate": lambda: generate(o.build, o.schemas, o.seeds, o.limit),
            "instances": lambda: instances(quern, o.schemas), "speed": lambda: speed(quern, o.schemas)}[o.command]()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
