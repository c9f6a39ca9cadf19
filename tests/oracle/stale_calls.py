#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public function that takes a tensor, called with one that is over in each place: writes stale_calls.inc, which tests/unit/array/stale.c
includes. The functions are read from the headers.

    python3 tests/oracle/stale_calls.py . > tests/unit/array/stale_calls.inc"""
import re
import subprocess
import sys

HEADERS = ["array.h", "autograd.h", "dlpack.h", "functional.h", "functions.h", "ops.h"]
VALUES = {  # of a parameter that is no tensor, by its type
    "qn_context *": "c", "qn_shape": "qn_shape_of(2)", "qn_dtype": "QN_DTYPE_F32", "double": "1", "bool": "false", "_Bool": "false", "int": "1",
    "int64_t": "1", "size_t": "8", "const int *": "(int[]){0}", "const int64_t *": "(int64_t[]){1, 1}", "double *": "numbers",
    "int64_t *": "whole", "void *": "numbers", "const void *": "numbers", "qn_reduction": "QN_REDUCTION_MEAN",
    "const char *": '"constant"', "qn_tensor * *": "made", "qn_graph_format": "QN_GRAPH_TEXT", "char * *": "&text",
    "qn_checkpoint_fn": "same", "const qn_shape *": "&qn_shape_of(2)", "const qn_pool_options *": "&(qn_pool_options){.kernel = {1, 1, 1}}",
}
LEFT_OUT = {"qn_release", "qn_scope_end"}  # stale.c itself


def declared(root, header):
    text = subprocess.run(["cc", "-E", "-I" + root + "/include", "-"], input="#include <quern/%s>\n" % header, capture_output=True, text=True).stdout
    mine, lines = False, []
    for line in text.split("\n"):
        m = re.match(r'# \d+ "([^"]*)"', line)
        if m:
            mine = m[1].endswith("/quern/" + header)
        elif mine:
            lines.append(line)
    text = re.sub(r"__attribute__\(\(visibility\(\"default\"\)\)\)", "QN_API", " ".join(lines))
    for m in re.finditer(r"QN_API\s+([^;{}()]*?)\b(qn_\w+)\s*\(([^;{}]*?)\)\s*(?:__attribute__\S*)?;", text):
        yield m[2], m[1].strip(), [re.sub(r"\s+", " ", p.strip()) for p in m[3].split(",")]


def kind(parameter):
    m = re.match(r"(.*?[\s*])\w+$", parameter)
    return re.sub(r"\s*\*\s*", " * ", m[1] if m else parameter).strip().replace("* const *", "*const *")


def main():
    print("/* Made by tests/oracle/stale_calls.py. */")
    for header in HEADERS:
        for name, result, parameters in sorted(set((n, r, tuple(p)) for n, r, p in declared(sys.argv[1], header))):
            kinds = [kind(p) for p in parameters]
            places = [i for i, k in enumerate(kinds) if k in ("qn_tensor *", "const qn_tensor *", "qn_tensor *const *")]
            if name in LEFT_OUT or not places:
                continue
            for place in places:
                args = []
                for i, k in enumerate(kinds):
                    if k == "qn_tensor *const *":
                        args.append("(qn_tensor *[]){%s}" % ("old" if i == place else "x"))
                    elif i in places:
                        args.append("old" if i == place else "x")
                    elif k in VALUES:
                        args.append(VALUES[k])
                    elif k.endswith("*"):
                        args.append("NULL")
                    else:
                        sys.exit("%s: no value for %s" % (name, k))
                print("CALL(%s, (%s))" % (name, ", ".join(args)))


main()
