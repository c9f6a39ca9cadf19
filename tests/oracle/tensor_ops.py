#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures for tests/unit/cpu/tensor_ops.c, computed by PyTorch: operations element by element, reductions, softmax and scans.

    python3 tests/oracle/tensor_ops.py > tests/unit/cpu/tensor_ops.txt

PyTorch 2.15, CPU. A line is one case:

    OP N ATTRS.. N SOURCES.. DTYPE RANK DIMS.. STEP N VALUES..

A source is DTYPE FILL SEED VIEW RANK DIMS..; its elements are made of the seed by a formula that the test repeats, the dims are
those that the operation sees, VIEW says how they lie: c dense, t the last two dimensions swapped in memory, f flipped, s every
second element of a longer row, e one element a dimension of which all others are copies. VALUES are every STEP-th of the result.
"""
import sys

import numpy as np
import torch

torch.set_num_threads(1)
DT = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
      "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}
NAME = {v: k for k, v in DT.items()}
REALS, INTS = ["F32", "F64", "F16", "BF16"], ["I64", "I32", "I16", "I8", "U8"]
SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 88.75, -104.0, 2.5, -2.5]
seed = 0


def made(n, fill, s):
    with np.errstate(over="ignore"):
        z = np.uint64(s) * np.uint64(0x9E3779B97F4A7C15) + np.arange(n, dtype=np.uint64) * np.uint64(0xD1B54A32D192ED03)
        z ^= z >> np.uint64(32)
        z *= np.uint64(0xD6E8FEB86659FD93)
        z ^= z >> np.uint64(32)
    m = lambda k: (z % np.uint64(k)).astype(np.float64)
    return {"n": lambda: (m(2049) - 1024) / 256, "p": lambda: (m(1023) + 1) / 256, "u": lambda: (m(511) - 255) / 256,
            "i": lambda: m(17) - 8, "j": lambda: m(5) + 1, "b": lambda: m(2), "q": lambda: (m(9) - 4) / 2,
            "h": lambda: (m(127) - 63) / 32, "s": lambda: np.array(SPECIAL)[m(len(SPECIAL)).astype(int)],
            "x": lambda: np.exp2(np.floor(m(61) - 30))}[fill]()


def source(dtype, fill, shape, view="c"):
    """(tensor, words)"""
    global seed
    seed += 1
    if len(shape) < 2 and view == "t":
        view = "f"
    stored = list(shape)
    if view == "t":
        stored[-1], stored[-2] = stored[-2], stored[-1]
    if view == "s" and stored:
        stored[-1] *= 2
    if view == "e":
        stored = [1] * len(shape)
    x = torch.from_numpy(made(int(np.prod(stored)), fill, seed)).to(DT[dtype]).reshape(stored)
    if view == "t":
        x = x.transpose(-1, -2)
    if view == "s" and shape:
        x = x[..., ::2]
    if view == "f":
        x = x.flip(list(range(x.dim())))
    if view == "e":
        x = x.expand(shape)
    return x, f"{dtype} {fill} {seed} {view} {len(shape)} {' '.join(map(str, shape))}".strip()


def number(v, dtype):
    if dtype in ("I64", "I32", "I16", "I8", "U8", "BOOL"):
        return str(int(v))
    v = float(v)
    if v != v or v in (float("inf"), float("-inf")):
        return "nan" if v != v else "inf" if v > 0 else "-inf"
    return "%.17g" % v if dtype == "F64" else "%.9g" % v


def case(op, attrs, sources, y):
    dtype, flat = NAME[y.dtype], y.reshape(-1)
    step = max(1, flat.numel() // 24)
    values = [number(v, dtype) for v in flat[::step].tolist()]
    words = [op, len(attrs), *[repr(float(a)) if isinstance(a, float) else a for a in attrs], len(sources), *[s[1] for s in sources],
             dtype, y.dim(), *y.shape, step, len(values), *values]
    print(" ".join(map(str, words)))


def pointwise(op, fn, dtypes, n_src, fill="n", attrs=(), fills=None, shapes=None):
    shapes = shapes or [((3, 5), (3, 5), (3, 5)), ((2, 3, 4), (4,), (3, 1)), ((), (2, 1, 3), (1,)), ((7,), (1, 7), (2, 1))]
    views = ["c", "t", "f", "s", "e", "t"]
    for k, dtype in enumerate(dtypes):
        for j, shape in enumerate(shapes if dtype in ("F32", "F64") else [shapes[k % len(shapes)]]):
            f = (fills or {}).get(dtype, fill)
            if dtype in ("F16", "BF16") and f in "npu":
                f = "h" if f != "p" else "j"
            s = [source(dtype, "p" if i == 1 and f == "P" else f.lower(), shape[i], views[(k + j + 2 * i) % 6]) for i in range(n_src)]
            case(op, attrs, s, fn(*[v[0] for v in s]))
    if n_src < 3 and "F32" in dtypes:
        for dtype in ("F32", "F64"):
            s = [source(dtype, "s", (24,)) for _ in range(n_src)]
            case(op, attrs, s, fn(*[v[0] for v in s]))


I = {d: "i" for d in INTS}
Z = {d: "j" for d in INTS}  # no zeros
B = {"BOOL": "b"}
ALL = REALS + INTS + ["BOOL"]
F = torch.nn.functional

for op, fn in [("add", torch.add), ("mul", torch.mul), ("maximum", torch.maximum), ("minimum", torch.minimum)]:
    pointwise(op, fn, ALL, 2, fills={**I, **B})
pointwise("sub", torch.sub, REALS + INTS, 2, fills=I)
for op, fn in [("div", torch.div), ("atan2", torch.atan2)]:
    pointwise(op, fn, REALS, 2)
pointwise("floor_divide", lambda a, b: torch.div(a, b, rounding_mode="floor"), REALS[:2] + INTS, 2, fills=Z)
pointwise("trunc_divide", lambda a, b: torch.div(a, b, rounding_mode="trunc"), REALS[:2] + INTS, 2, fills=Z)
pointwise("remainder", torch.remainder, REALS[:2] + INTS, 2, fills=Z)
pointwise("fmod", torch.fmod, REALS[:2] + INTS, 2, fills=Z)
for dtype in INTS[:4]:  # signs of both
    a, b = source(dtype, "i", (40,)), source(dtype, "i", (40,))
    b[0][b[0] == 0] = 1
    for op, fn in [("floor_divide", lambda a, b: torch.div(a, b, rounding_mode="floor")), ("remainder", torch.remainder), ("fmod", torch.fmod),
                   ("trunc_divide", lambda a, b: torch.div(a, b, rounding_mode="trunc"))]:
        case(op, ["nonzero"], [a, b], fn(a[0], b[0]))
pointwise("pow", torch.pow, REALS[:2] + INTS, 2, fill="p", fills=Z)
for op in ["eq", "ne", "lt", "le", "gt", "ge"]:
    pointwise(op, getattr(torch, op), ALL, 2, fill="q", fills={**I, **B, "BF16": "q"})
for op in ["logical_and", "logical_or", "logical_xor"]:
    pointwise(op, getattr(torch, op), ALL, 2, fill="q", fills={**I, **B})
for op in ["logical_not", "isnan", "isinf", "isfinite"]:
    pointwise(op, getattr(torch, op), ALL, 1, fill="q", fills={**I, **B})
for op in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    pointwise(op, getattr(torch, op), INTS + ["BOOL"], 2, fills={**I, **B})
pointwise("bitwise_not", torch.bitwise_not, INTS + ["BOOL"], 1, fills={**I, **B})
pointwise("shift_left", torch.bitwise_left_shift, INTS, 2, fills=Z)
pointwise("shift_right", torch.bitwise_right_shift, INTS, 2, fills=Z)
for op in ["neg", "abs", "sign", "square", "relu"]:
    pointwise(op, getattr(torch, op), REALS + INTS, 1, fills=I)
for op in ["floor", "ceil", "round", "trunc"]:
    pointwise(op, getattr(torch, op), REALS + INTS, 1, fill="q", fills=I)
    pointwise(op, getattr(torch, op), REALS[:2], 1)
for op in ["frac", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "atanh", "erf", "sigmoid",
           "reciprocal"]:
    pointwise(op, getattr(torch, op), REALS, 1, fill="u" if op in ("asin", "acos", "atanh") else "n")
for op in ["log", "log1p", "log2", "log10", "sqrt", "rsqrt", "acosh"]:
    pointwise(op, getattr(torch, op), REALS, 1, fill="p")
pointwise("silu", F.silu, REALS, 1)
for tanh in (0, 1):
    # in double: of infinity PyTorch's vectorised float kernel makes NaN, the others infinity
    pointwise("gelu", lambda x: F.gelu(x.double(), approximate="tanh" if tanh else "none").to(x.dtype), REALS, 1, attrs=[tanh])
for a in (1.0, 0.3):
    pointwise("elu", lambda x: F.elu(x, a), REALS, 1, attrs=[a])
    pointwise("leaky_relu", lambda x: F.leaky_relu(x, a / 10), REALS, 1, attrs=[a / 10])
for beta, threshold in [(1.0, 20.0), (2.0, 3.0)]:
    pointwise("softplus", lambda x: F.softplus(x, beta, threshold), REALS, 1, attrs=[beta, threshold])
for lo, hi in [(-1.0, 2.0), (float("-inf"), 0.0), (3.0, -3.0)]:
    pointwise("clamp", lambda x: torch.clamp(x, lo, hi), REALS[:3], 1, attrs=[lo, hi])
pointwise("clamp", lambda x: torch.clamp(x, -2, 3), INTS[:4], 1, fills=I, attrs=[-2.0, 3.0])
pointwise("lerp", torch.lerp, REALS[:2], 3)
pointwise("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.5), REALS, 3, attrs=[0.5])
pointwise("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=3), INTS[:2], 3, attrs=[3.0], fills=I)
pointwise("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), REALS[:2], 3, attrs=[0.5])
for dtype in ALL:
    c, a, b = source("BOOL", "b", (2, 3, 4), "t"), source(dtype, "b" if dtype == "BOOL" else "j", (4,)), source(dtype, "b", (3, 1), "f")
    case("where", [], [c, a, b], torch.where(c[0], a[0], b[0]))
    x, m = source(dtype, "j" if dtype != "BOOL" else "b", (2, 3, 4), "f"), source("BOOL", "b", (3, 1))
    case("masked_fill", [1.0], [x, m], x[0].masked_fill(m[0], 1))
for a in ALL:
    for b in ALL:
        fill = "b" if a == "BOOL" else "i" if a in INTS else "h"
        x = source(a, fill, (3, 11), "t")
        if a in REALS and b == "U8":
            x = source(a, "j", (3, 11), "s")
        case("copy", [list(DT).index(b)], [x], x[0].to(DT[b]))
x = source("F64", "p", (40,))
case("copy", [list(DT).index("F16")], [x], x[0].to(torch.float16))

# ---- reductions ----

SHAPES = [((6, 5), [0]), ((6, 5), [1]), ((6, 5), [0, 1]), ((2, 3, 4, 5), [1, 3]), ((2, 3, 4, 5), [0, 2]), ((), [0]), ((4, 0, 3), [0]),
          ((33, 70), [0]), ((70, 33), [1]), ((2, 3, 1, 2, 2, 1, 2, 2), [0, 4, 6]), ((3, 2, 1, 4, 2), [1, 3, 4])]
EMPTY = [((4, 0), [1]), ((0,), [0]), ((0, 3), [0])]
LONG = [((9001,), [0]), ((3, 5003), [1]), ((4100, 9), [0]), ((2, 2100, 130), [1]), ((70001,), [0])]


def mask(dims):
    return sum(1 << d for d in dims)


def reduction(op, fn, dtypes, value=0.0, fill="n", fills=None, empty=True, shapes=SHAPES, long=LONG, one=False):
    for k, dtype in enumerate(dtypes):
        f = (fills or {}).get(dtype, fill)
        if dtype in ("F16", "BF16") and f in "npu":
            f = "h"
        use = shapes + (EMPTY if empty else []) if dtype in ("F32", "F64", "I64") else shapes[k % 3:k % 3 + 2]
        for j, (shape, dims) in enumerate(use + (long if dtype in ("F32", "F64") else long[:1])):
            if one and len(dims) != 1 and len(dims) != len(shape):
                continue
            keep = (j + k) % 2
            x = source(dtype, f, shape, ["c", "t", "f", "s"][(j + k) % 4])
            case(op, [mask(dims), keep, value], [x], exactly(lambda v: fn(v, dims, bool(keep)), x[0]))
    if fill == "n":
        for dtype in ("F32", "F64"):
            x = source(dtype, "s", (8, 3))
            case(op, [2, 0, value], [x], fn(x[0], [1], False))


def exactly(fn, x):
    """F32 is computed in double and rounded once: PyTorch's own order of summation is no witness."""
    y = fn(x.double()) if x.dtype == torch.float32 else fn(x)
    return y.float() if x.dtype == torch.float32 and y.dtype == torch.float64 else y


def chained(fn):
    """A function of one dimension, over several, the last one first."""
    def run(x, dims, keep):
        if x.dim() == 0:
            return fn(x, 0)
        for d in sorted(dims, reverse=True):
            x = fn(x, d)
            x = x.unsqueeze(d) if keep else x
        return x
    return run


def place(fn):
    return lambda x, dims, keep: fn(x, dims[0], keepdim=keep) if len(dims) == 1 else \
        fn(x).reshape([1] * x.dim() if keep else [])


FI = {**I, **B}
reduction("sum", lambda x, d, k: torch.sum(x, d, keepdim=k), ALL, fills=FI)
reduction("mean", lambda x, d, k: torch.mean(x, d, keepdim=k), REALS)
reduction("prod", chained(torch.prod), ["F32", "F64", "F16", "I64", "I32", "U8", "BOOL"], fill="x", fills={**Z, **B, "F16": "j"}, long=[])
for c in (0.0, 1.0, 2.0):
    reduction("var", lambda x, d, k: torch.var(x, d, correction=c, keepdim=k), REALS, value=c)
reduction("std", lambda x, d, k: torch.std(x, d, correction=1, keepdim=k), REALS, value=1.0)
reduction("amax", lambda x, d, k: torch.amax(x, d, keepdim=k), ALL, fills=FI, empty=False)
reduction("amin", lambda x, d, k: torch.amin(x, d, keepdim=k), ALL, fills=FI, empty=False)
reduction("argmax", place(torch.argmax), REALS + INTS, fill="q", fills=I, empty=False, one=True)
reduction("argmin", place(torch.argmin), REALS + INTS, fill="q", fills=I, empty=False, one=True)
for fn, op in [(torch.argmax, "argmax"), (torch.argmin, "argmin")]:
    x = source("F32", "s", (9, 5))
    case(op, [2, 0, 0.0], [x], fn(x[0], 1))
reduction("any", lambda x, d, k: torch.any(x.bool(), d, keepdim=k), ALL, fill="q", fills=FI)
reduction("all", lambda x, d, k: torch.all(x.bool(), d, keepdim=k), ALL, fill="q", fills=FI)
reduction("logsumexp", lambda x, d, k: torch.logsumexp(x, d, keepdim=k), REALS)
for p in (2.0, 1.0, 0.0, 3.0):
    reduction("norm", lambda x, d, k: torch.linalg.vector_norm(x, p, d, keepdim=k), REALS, value=p)
for p in (float("inf"), float("-inf"), -1.0):
    reduction("norm", lambda x, d, k: torch.linalg.vector_norm(x, p, d, keepdim=k), REALS[:2], value=p, fill="p", empty=False)
reduction("count_nonzero", lambda x, d, k: (c := torch.count_nonzero(x, d), c.reshape([1 if i in d else n for i, n in enumerate(x.shape)]) if k and x.dim() else c)[1],
          ALL, fill="q", fills=FI)

# ---- along a dimension ----

for op, fn in [("softmax", torch.softmax), ("log_softmax", torch.log_softmax), ("cumsum", torch.cumsum), ("cumprod", torch.cumprod)]:
    for k, dtype in enumerate(REALS if "soft" in op else ALL):
        fill = "b" if dtype == "BOOL" else "j" if dtype in INTS else "u" if op == "cumprod" else "n"
        if dtype in ("F16", "BF16"):
            fill = "h" if op != "cumprod" else "q"
        shapes = [((6, 5), 0), ((6, 5), 1), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), 3), ((), 0), ((0, 3), 1), ((3, 0), 1), ((9, 100), 1)]
        for j, (shape, dim) in enumerate(shapes if k < 2 else shapes[k % 3:k % 3 + 2]):
            x = source(dtype, fill, shape, ["c", "t", "f", "s"][(j + k) % 4])
            case(op, [dim], [x], exactly(lambda v: fn(v, dim), x[0]))
        if k < 2 and op != "cumprod":
            for shape, dim in [((20011,), 0), ((9000, 3), 0)]:
                x = source(dtype, fill, shape)
                case(op, [dim], [x], exactly(lambda v: fn(v, dim), x[0]))
    for dtype in ("F32", "F64"):
        x = source(dtype, "s", (8, 3))
        case(op, [1], [x], fn(x[0], 1))
sys.stderr.write(f"{seed} sources\n")
