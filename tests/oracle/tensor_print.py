#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Texts for tests/unit/array/print.c, as PyTorch prints them; dtypes are called by our names.

    python3 tests/oracle/tensor_print.py > tests/unit/array/print_cases.inc
"""
import torch

NAMES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}
inf, nan = float("inf"), float("nan")


def number(v):
    v = float(v)
    if v != v:
        return "NAN"
    if v in (inf, -inf):
        return "-INFINITY" if v < 0 else "INFINITY"
    return repr(v)


def case(t):
    text = str(t)
    for dtype, name in NAMES.items():
        text = text.replace(str(dtype), name)
    lines = "\n     ".join('"' + line + '\\n"' for line in text.split("\n"))
    dims = ", ".join(str(d) for d in t.shape) or "0"
    values = [number(v) for v in t.flatten().tolist()]
    if len(values) > 100:  # these are sequences
        values = [values[0], values[1]]
    print("{QN_DTYPE_%s, {%d, {%s}}, {%s},\n     %s}," % (NAMES[t.dtype], t.dim(), dims, ", ".join(values) or "0", lines))


def main():
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Made by tests/oracle/tensor_print.py with PyTorch %s; do not edit.\n"
          " * {dtype, shape, values (of more than 100 elements: the first two of a sequence), text and a newline} */" % torch.__version__.split("+")[0])
    f = torch.tensor
    for t in [
        f(3.5), f(2.0), f(-0.0), f(1e10), f(nan), f(inf), f(7), f(True), f(1e-5), f([]), torch.zeros(0, 2), torch.zeros(2, 0, 3, dtype=torch.int64),
        torch.zeros(0, dtype=torch.int32), f([1.0, 2.0, 3.0]), f([1.5, 2.25, -3.125]), f([1.0, 1000.0, 10000.0]), f([1.0, 1000.5, 10000.25]),
        f([0.0, 1e-6, 1.0]), f([1.0, inf, nan, -inf]), f([1.5, inf, nan, -inf]), f([inf, nan]), f([1e9, 1.0]), f([1e8, 1e8]), f([0.0001, 0.5]),
        f([0.00009, 0.05]), f([-1.0, 10.0, -100.0]), f([1, -20, 300]), f([True, False]), f([[1, 2], [3, 4]], dtype=torch.int32),
        f([[1.0, 2.5], [3.0, 4.0]], dtype=torch.float64), f([[1.0, 2.5]], dtype=torch.float16), f([1.1, 2.7], dtype=torch.bfloat16),
        torch.arange(24.0).reshape(2, 3, 4), torch.arange(16.0).reshape(2, 2, 2, 2) / 8, torch.arange(40.0), torch.arange(40.0) * 0.25,
        torch.arange(30, dtype=torch.int16).reshape(2, 15), torch.arange(2000.0), torch.arange(2000), torch.arange(2400).reshape(20, 120),
        torch.arange(3000.0).reshape(10, 10, 30), torch.arange(3000.0).reshape(3, 10, 10, 10), torch.arange(2000.0).reshape(1000, 2) * 0.5,
        torch.arange(1500.0).reshape(5, 300), torch.tensor([[[]]]), f([255, 0], dtype=torch.uint8), f([-128, 127], dtype=torch.int8),
        f([[1e-3, 1e3], [1e-8, 1.0]]), f([2**62, -1]), torch.arange(18, dtype=torch.int32), torch.arange(18.0, dtype=torch.float64),
    ]:
        case(t)


main()
