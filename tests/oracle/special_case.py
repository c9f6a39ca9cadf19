#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/oracle/special_case.py -- writes src/text/jinja/special_case.def: the characters whose upper or title case is
longer than one, as Python's unicodedata has them."""
import os

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "text", "jinja", "special_case.def")
HEAD = """/* SPDX-License-Identifier: MIT */
/* src/text/jinja/special_case.def -- QN_SPECIAL_CASE(character, upper case, title case): characters whose upper or
 * title case is more than one character (Unicode's SpecialCasing.txt, without its conditions). Written by
 * tests/oracle/special_case.py; in order of the characters. */
"""


def literal(text):
    return "".join("\\%03o" % b for b in text.encode())


with open(OUT, "w", encoding="ascii") as out:
    out.write(HEAD)
    for cp in range(0x110000):
        if 0xD800 <= cp < 0xE000:
            continue
        upper, title = chr(cp).upper(), chr(cp).title()
        if len(upper) > 1 or len(title) > 1:
            out.write('QN_SPECIAL_CASE(0x%04X, "%s", "%s")\n' % (cp, literal(upper), literal(title)))
