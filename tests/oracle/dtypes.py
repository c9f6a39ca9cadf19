#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Type ids and block sizes for tests/unit/tensor/dtype.c, as the gguf package has them.

    python3 tests/oracle/dtypes.py > tests/unit/tensor/dtype_cases.inc
"""
from importlib.metadata import version

from gguf import GGML_QUANT_SIZES

print("/* SPDX-License-Identifier: MIT */")
print("/* Made by tests/oracle/dtypes.py with gguf %s; do not edit. {name, id, elements a block, bytes a block} */" % version("gguf"))
for kind, (elems, size) in GGML_QUANT_SIZES.items():
    print('{"%s", %d, %d, %d},' % (kind.name, int(kind), elems, size))
