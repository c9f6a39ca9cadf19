# SPDX-License-Identifier: MIT
"""What parity.py and parity_forms.py share: inputs by a formula, and rows of the table."""
import math
import os
import sys
import textwrap

import torch

NAMES = {torch.float32: 'F32', torch.float64: 'F64', torch.int64: 'I64', torch.int32: 'I32', torch.int16: 'I16', torch.int8: 'I8',
         torch.uint8: 'U8', torch.bool: 'BOOL', torch.float16: 'F16', torch.bfloat16: 'BF16'}
TYPES = {v: k for k, v in NAMES.items()}
F32, F64, I64, I32, I16, I8, U8, BOOL, F16, BF16 = (TYPES[n] for n in 'F32 F64 I64 I32 I16 I8 U8 BOOL F16 BF16'.split())


def X(seed, dtype, *shape):
    n = math.prod(shape)
    i = torch.arange(n, dtype=torch.int64)
    h = (i * 7919 + seed * 104729 + (i * i) % 131 * 31) % 257
    if dtype.is_floating_point:
        return (h.to(F64) / 64 - 2).to(dtype).reshape(shape)
    return (h % 2 if dtype == BOOL else h % 7 if dtype == U8 else h % 7 - 3).to(dtype).reshape(shape)


def ids(seed, n, *shape):
    i = torch.arange(math.prod(shape), dtype=torch.int64)
    return ((i * 7919 + seed * 104729 + (i * i) % 131 * 31) % n).reshape(shape)


def number(v):
    if isinstance(v, bool):
        return str(int(v))
    if isinstance(v, int):
        return str(v) if abs(v) < 2 ** 31 else '%d.0' % v
    return 'NAN' if math.isnan(v) else ('-' if v < 0 else '') + 'INFINITY' if math.isinf(v) else '%.17g' % v


count = 0
PART = os.path.basename(sys.argv[0])[:-3]


def put(row):
    """Lines end at 120 columns."""
    lines = textwrap.wrap(row, 119, subsequent_indent='    ', break_long_words=False, break_on_hyphens=False)
    print(row if len(row) <= 120 else '\n'.join(lines))


def case(c, fn, strides=False):
    """One row. fn is called here; an exception makes the row one that expects an error."""
    global count
    if count % 100 == 0:
        print(('}\n' if count else '') + 'static void %s_%d(qn_context *c)\n{' % (PART, count // 100))
    count += 1
    try:
        y = fn()
    except Exception:
        put('ERROR(%s)' % c)
        return
    if isinstance(y, (list, tuple)):
        y = y[0]
    dims = list(y.shape)
    steps = list(y.stride()) if strides else []
    v = y.detach().double() if y.dtype.is_floating_point else y
    if y.dtype == torch.float32:
        values = ['%.9g' % x if math.isfinite(x) else number(x) for x in v.flatten().tolist()]
    else:
        values = [number(x) for x in v.flatten().tolist()]
    put('ROW((%s), %s, LIST(%s), LIST(%s), LIST(%s))' % (c, NAMES[y.dtype], ', '.join(map(str, [len(dims)] + dims)),
          ', '.join(map(str, [len(steps)] + steps)), ', '.join([str(len(values))] + values)))


def t(e):
    """The same text in C and in Python: X(..) is a tensor."""
    return eval(e)


def end():
    """Rows come in functions of a hundred, which compilers like better than one of thousands."""
    if count % 100:
        print('}')
    put('static void (*const %s_parts[])(qn_context *c) = {%s};' % (PART, ', '.join('%s_%d' % (PART, i) for i in range((count + 99) // 100))))
    sys.stderr.write('%d rows\n' % count)
