#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cases for tests/unit/tensor/layout.c, computed by NumPy: what a view of a view looks like, and which views do not exist.

    python3 tests/oracle/layout.py [N_RANDOM [SEED]] > tests/unit/tensor/layout_cases.inc

NumPy 2.1 or later (reshape with copy=False). Every operation is asked of NumPy on a real array; shape, strides and the
address of the first element of its answer go into the table, an exception becomes "fails". Where PyTorch's rules differ
from NumPy's, the difference is spelt out below: squeeze of a dimension that is not 1 is the identity, expand knows -1,
scalars have an imaginary dimension, rank ends at 8.
"""
import random
import sys

import numpy as np

MAX_RANK = 8
POOL = np.arange(1 << 14, dtype=np.int64)


class Fails(Exception):
    pass


def layout_of(a):
    offset = (a.__array_interface__["data"][0] - POOL.__array_interface__["data"][0]) // POOL.itemsize
    return a.shape, tuple(s // a.itemsize for s in a.strides), offset


def wrap(a, dim):
    """PyTorch: a scalar may be addressed as if it had one dimension."""
    rank = max(a.ndim, 1)
    if not -rank <= dim < rank:
        raise Fails
    return dim % rank


def view(a, *shape):
    if any(d < -1 for d in shape) or len(shape) > MAX_RANK:
        raise Fails
    return np.reshape(a, shape, copy=False)


def permute(a, *dims):
    return np.transpose(a, dims)


def transpose(a, dim0, dim1):
    if a.ndim == 0:
        wrap(a, dim0), wrap(a, dim1)
        return a
    return np.swapaxes(a, dim0, dim1)


def squeeze(a, dim):
    dim = wrap(a, dim)
    return np.squeeze(a, dim) if a.ndim > 0 and a.shape[dim] == 1 else a


def unsqueeze(a, dim):
    if a.ndim == MAX_RANK:
        raise Fails
    return np.expand_dims(a, dim)


def expand(a, *shape):
    new = len(shape) - a.ndim
    if new < 0 or len(shape) > MAX_RANK or any(d == -1 for d in shape[:new]):
        raise Fails
    return np.broadcast_to(a, [a.shape[i - new] if d == -1 and i >= new else d for i, d in enumerate(shape)])


def index(a, dim, i):
    if a.ndim == 0:
        raise Fails
    dim = wrap(a, dim)
    return a[(slice(None),) * dim + (i, ...)]


def narrow(a, dim, start, length):
    if a.ndim == 0:
        raise Fails
    size = a.shape[wrap(a, dim)]
    if length < 0 or start > size:
        raise Fails
    if start < 0:
        start = range(size)[start]  # an IndexError when it is too far back
    out = index(a, dim, slice(start, start + length))
    if out.shape[wrap(a, dim)] != length:
        raise Fails
    return out


def select(a, dim, i):
    return index(a, dim, i)


def slice_(a, dim, start, stop, step):
    if step < 1:
        raise Fails
    return index(a, dim, slice(start, stop, step))


def flip(a, dim):
    wrap(a, dim)
    return a if a.ndim == 0 else np.flip(a, dim)


OPS = {"view": view, "permute": permute, "transpose": transpose, "squeeze": squeeze, "unsqueeze": unsqueeze,
       "expand": expand, "narrow": narrow, "select": select, "slice": slice_, "flip": flip}


def dense(*shape):
    n = int(np.prod(shape, dtype=object))
    return POOL[:n].reshape(shape)


def apply(a, op, args):
    try:
        return OPS[op](a, *args)
    except (Fails, ValueError, IndexError, TypeError):
        return None


def c_layout(a):
    shape, strides, offset = layout_of(a)

    def listed(v):
        return "{" + (", ".join(map(str, v)) or "0") + "}"
    return "{%d, %s, %s, %d}" % (a.ndim, listed(shape), listed(strides), offset)


def row(a, op, args):
    out = apply(a, op, args)
    args_c = "{" + (", ".join({SMALL: "INT64_MIN", BIG: "INT64_MAX"}.get(v, str(v)) for v in args) or "0") + "}"
    want = "true, " + c_layout(out) if out is not None else "false, {0, {0}, {0}, 0}"
    return "{OP_%s, %s, %d, %s, %s}," % (op, c_layout(a), len(args), args_c, want)


BIG = 2**63 - 1
SMALL = -2**63
T = dense(2, 3, 4)
R8 = dense(2, 1, 3, 1, 2, 1, 2, 2)
EMPTY = dense(0, 3)

HAND = [
    # view: plain, inferred, impossible
    (T, "view", [24]), (T, "view", [6, 4]), (T, "view", [4, 6]), (T, "view", [2, -1]), (T, "view", [-1]),
    (T, "view", [-1, 5]),
    (T, "view", [-1, -1]), (T, "view", [25]), (T, "view", [-2, 12]), (T, "view", [0, -1]), (T, "view", [2, 3, 4]),
    (T, "view", [2, 1, 3, 1, 2, 1, 2, 1]), (T, "view", [1, 1, 1, 1, 1, 1, 1, 24]),
    (T, "view", [2, 1, 3, 1, 2, 1, 2, 1, 1]),
    (T.transpose(2, 0, 1), "view", [24]), (T.transpose(2, 0, 1), "view", [4, 6]),
    (T.transpose(2, 0, 1), "view", [2, 2, 2, 3]),
    (T.transpose(2, 0, 1), "view", [8, 3]), (T[:, :, ::2], "view", [6, 2]), (T[:, :, ::2], "view", [12]),
    (T[:, 1:, :], "view", [2, 8]),
    (T[:, 1:, :], "view", [16]), (T[::-1], "view", [2, 12]), (T[:, :, ::-1], "view", [24]),
    (T[::-1, ::-1, ::-1], "view", [24]),
    (T[::-1, ::-1, ::-1], "view", [4, 3, 2]), (np.broadcast_to(dense(4), (3, 4)), "view", [12]),
    (np.broadcast_to(dense(1, 1), (3, 4)), "view", [12]), (np.broadcast_to(dense(1, 1), (3, 4)), "view", [2, 6]),
    (np.broadcast_to(dense(4, 1), (4, 6)), "view", [4, 2, 3]),
    (np.broadcast_to(dense(4, 1), (4, 6)), "view", [2, 2, 6]),
    (dense(), "view", []), (dense(), "view", [1]), (dense(), "view", [1, -1, 1]), (dense(1, 1), "view", []),
    (dense(2), "view", []),
    (EMPTY, "view", [3, 0]), (EMPTY, "view", [0]), (EMPTY, "view", [-1, 3]), (EMPTY, "view", [0, -1]),
    (EMPTY, "view", [-1]),
    (EMPTY, "view", [0, 7, 2]), (EMPTY, "view", [1]), (EMPTY, "view", []), (R8, "view", [2, 3, 2, 4]),
    (R8, "view", [48]),
    # permute and transpose
    (T, "permute", [2, 0, 1]), (T, "permute", [-1, 0, -2]), (T, "permute", [0, 1, 2]), (T, "permute", [0, 0, 1]),
    (T, "permute", [0, 1]),
    (T, "permute", [0, 1, 3]), (T, "permute", [0, 1, -4]), (T, "permute", [0, 2, -1]), (dense(), "permute", []),
    (dense(), "permute", [0]),
    (R8, "permute", [7, 6, 5, 4, 3, 2, 1, 0]), (R8, "permute", [-8, 1, 3, 5, 7, 6, 4, 2]), (EMPTY, "permute", [1, 0]),
    (T, "transpose", [0, 2]), (T, "transpose", [-1, -2]), (T, "transpose", [1, 1]), (T, "transpose", [0, 3]),
    (T, "transpose", [-4, 0]),
    (dense(), "transpose", [0, -1]), (dense(), "transpose", [0, 1]), (R8, "transpose", [0, -1]),
    (EMPTY, "transpose", [0, 1]),
    # squeeze and unsqueeze
    (R8, "squeeze", [1]), (R8, "squeeze", [-3]), (R8, "squeeze", [0]), (R8, "squeeze", [8]), (R8, "squeeze", [-9]),
    (dense(1), "squeeze", [0]),
    (dense(), "squeeze", [0]), (dense(), "squeeze", [-1]), (dense(), "squeeze", [1]), (dense(0, 1), "squeeze", [1]),
    (EMPTY, "squeeze", [0]),
    (T, "unsqueeze", [0]), (T, "unsqueeze", [3]), (T, "unsqueeze", [-1]), (T, "unsqueeze", [-4]),
    (T, "unsqueeze", [4]), (T, "unsqueeze", [-5]),
    (R8, "unsqueeze", [0]), (dense(), "unsqueeze", [0]), (dense(), "unsqueeze", [-1]), (dense(), "unsqueeze", [1]),
    (dense(1, 2, 1, 2, 1, 2, 2), "unsqueeze", [3]), (EMPTY, "unsqueeze", [1]),
    # expand
    (dense(3, 1), "expand", [3, 4]), (dense(3, 1), "expand", [-1, 4]), (dense(3, 1), "expand", [2, 3, 4]),
    (dense(3, 1), "expand", [-1, 3, 4]),
    (dense(3, 1), "expand", [4, 4]), (dense(3, 1), "expand", [3]), (dense(3, 1), "expand", [3, 0]),
    (dense(3, 1), "expand", [3, 1]),
    (dense(3, 1), "expand", [3, -2]), (dense(3, 1), "expand", [0, 3, 1]), (dense(), "expand", []),
    (dense(), "expand", [2, 2]),
    (dense(), "expand", [-1]), (EMPTY, "expand", [2, 0, 3]), (EMPTY, "expand", [1, 3]),
    (dense(1, 3), "expand", [0, 3]),
    (dense(1), "expand", [2, 2, 2, 2, 2, 2, 2, 2]), (dense(1), "expand", [1, 2, 2, 2, 2, 2, 2, 2, 2]),
    (np.broadcast_to(dense(1), (5,)), "expand", [3, 5]), (T[:, ::2], "expand", [2, 2, 2, 4]),
    (T[:, :1], "expand", [2, 5, 4]),
    # narrow
    (T, "narrow", [1, 1, 2]), (T, "narrow", [-1, 0, 4]), (T, "narrow", [1, 3, 0]), (T, "narrow", [1, 0, 0]),
    (T, "narrow", [1, 4, 0]),
    (T, "narrow", [1, 1, 3]), (T, "narrow", [1, -1, 1]), (T, "narrow", [1, -1, 2]), (T, "narrow", [1, -3, 3]),
    (T, "narrow", [1, -4, 1]),
    (T, "narrow", [1, 0, -1]), (T, "narrow", [3, 0, 1]), (T, "narrow", [-4, 0, 1]), (T, "narrow", [1, 0, BIG]),
    (T, "narrow", [1, BIG, 1]),
    (T, "narrow", [1, SMALL, 1]), (dense(), "narrow", [0, 0, 1]), (EMPTY, "narrow", [0, 0, 0]),
    (EMPTY, "narrow", [0, 0, 1]),
    (EMPTY, "narrow", [1, 1, 2]), (T[::-1], "narrow", [0, 1, 1]), (R8, "narrow", [-1, 1, 1]),
    # select
    (T, "select", [0, 1]), (T, "select", [1, -1]), (T, "select", [-1, 3]), (T, "select", [-1, -4]),
    (T, "select", [2, 4]), (T, "select", [2, -5]),
    (T, "select", [3, 0]), (T, "select", [-4, 0]), (T, "select", [0, BIG]), (T, "select", [0, SMALL]),
    (dense(3), "select", [0, 2]),
    (dense(), "select", [0, 0]), (EMPTY, "select", [0, 0]), (EMPTY, "select", [1, 2]), (R8, "select", [0, 1]),
    (R8, "select", [-1, -1]),
    (T[:, ::-1], "select", [1, 0]), (np.broadcast_to(dense(4), (3, 4)), "select", [0, 2]),
    # slice
    (T, "slice", [2, 0, BIG, 1]), (T, "slice", [2, 1, 3, 1]), (T, "slice", [2, 0, 4, 2]),
    (T, "slice", [2, 1, BIG, 2]), (T, "slice", [2, 0, BIG, 3]),
    (T, "slice", [2, -2, BIG, 1]), (T, "slice", [2, -100, -1, 1]), (T, "slice", [2, 0, -1, 1]),
    (T, "slice", [2, 3, 1, 1]), (T, "slice", [2, 100, 200, 1]),
    (T, "slice", [2, SMALL, BIG, 1]), (T, "slice", [2, BIG, SMALL, 1]), (T, "slice", [2, 0, 4, BIG]),
    (T, "slice", [2, 0, 4, 4]), (T, "slice", [2, 0, 4, 5]),
    (T, "slice", [2, 0, 4, 0]), (T, "slice", [2, 0, 4, -1]), (T, "slice", [2, 0, 4, SMALL]),
    (T, "slice", [3, 0, 1, 1]), (T, "slice", [-3, 1, 2, 1]),
    (dense(), "slice", [0, 0, 1, 1]), (EMPTY, "slice", [0, 0, 5, 1]), (EMPTY, "slice", [1, 0, 3, 2]),
    (R8, "slice", [2, 0, 3, 2]),
    (T[:, :, ::-1], "slice", [2, 0, 4, 2]), (dense(100), "slice", [0, 3, 98, 7]),
    # flip
    (T, "flip", [0]), (T, "flip", [-1]), (T, "flip", [3]), (T, "flip", [-4]), (T[::-1], "flip", [0]),
    (T[:, ::2], "flip", [1]), (dense(1), "flip", [0]),
    (dense(), "flip", [0]), (dense(), "flip", [1]), (EMPTY, "flip", [0]), (EMPTY, "flip", [1]), (R8, "flip", [-1]),
    (R8, "flip", [1]),
    (np.broadcast_to(dense(4), (3, 4)), "flip", [0]),
]


def random_array(rng):
    rank = rng.randint(0, MAX_RANK)
    shape = [rng.choice([1, 1, 2, 2, 3, 4, 6] if rank < 5 else [1, 1, 2, 2, 3]) for _ in range(rank)]
    if rank > 0 and rng.random() < 0.08:
        shape[rng.randrange(rank)] = 0
    a = dense(*shape)
    for _ in range(rng.randint(0, 3)):  # a view of a view of a view
        op = rng.choice(["permute", "slice", "flip", "expand", "unsqueeze"])
        out = apply(a, op, random_args(rng, a, op, sane=True))
        a = out if out is not None and out.ndim <= MAX_RANK and out.size < 5000 else a
    return a


def factors(rng, n, rank):
    """A random shape of about that rank with n elements."""
    out = []
    for p in (2, 2, 2, 3, 3, 2, 5):
        if n % p == 0 and n > 0:
            out.append(p)
            n //= p
    out.append(n)
    rng.shuffle(out)
    while len(out) > max(rank, 1):
        i = rng.randrange(len(out) - 1)
        out[i:i + 2] = [out[i] * out[i + 1]]
    while rng.random() < 0.3 and len(out) < MAX_RANK:
        out.insert(rng.randint(0, len(out)), 1)
    return out


def random_args(rng, a, op, sane=False):
    rank = max(a.ndim, 1)
    dim = rng.randint(-rank, rank - 1) if sane or rng.random() < 0.95 else rng.choice([-rank - 1, rank])
    size = a.shape[dim] if a.ndim and -rank <= dim < rank else 2
    if op == "view":
        shape = factors(rng, a.size, rng.randint(1, MAX_RANK))
        if rng.random() < 0.4:
            shape = list(a.shape)
            while len(shape) > 1 and rng.random() < 0.7:  # join neighbours, as flatten does
                i = rng.randrange(len(shape) - 1)
                shape[i:i + 2] = [shape[i] * shape[i + 1]]
        if shape and rng.random() < 0.2:
            shape[rng.randrange(len(shape))] = -1
        return shape
    if op == "permute":
        dims = list(range(a.ndim))
        rng.shuffle(dims)
        dims = [d - a.ndim if rng.random() < 0.3 else d for d in dims]
        if not sane and dims and rng.random() < 0.1:
            dims[0] = rng.randint(-a.ndim, a.ndim)
        return dims
    if op == "transpose":
        return [dim, rng.randint(-rank, rank - 1)]
    if op == "unsqueeze":
        return [rng.randint(-a.ndim - 1, a.ndim)]
    if op == "expand":
        shape = [rng.choice([-1, d, rng.randint(0, 4)]) if d == 1 else rng.choice([-1, d]) for d in a.shape]
        shape = [rng.randint(1, 3) for _ in range(rng.choice([0, 0, 1, 2]))] + shape
        if not sane and shape and rng.random() < 0.1:
            shape[rng.randrange(len(shape))] = rng.randint(-2, 5)
        return shape[-MAX_RANK:] if sane else shape
    if op == "narrow":
        start = rng.randint(-size, size)
        return [dim, start, rng.randint(0, size - start % (size + 1)) if rng.random() < 0.8 else rng.randint(-1, size + 1)]
    if op == "select":
        return [dim, rng.randint(-size, size - 1) if size and rng.random() < 0.9 else size]
    if op == "slice":
        return [dim, rng.randint(-size - 2, size + 2), rng.choice([BIG, rng.randint(-size - 2, size + 2)]), rng.randint(1, 4)]
    return [dim]


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print("/* SPDX-License-Identifier: MIT */")
    print("/* Made by tests/oracle/layout.py with NumPy %s; do not edit." % np.__version__)
    print(" * {op, input {rank, dims, strides, offset}, number of arguments, arguments, possible?, result} */")
    for a, op, args in HAND:
        print(row(a, op, args))
    names = list(OPS) + ["view"] * 5  # the one with the interesting rules
    for _ in range(n):
        a = random_array(rng)
        op = rng.choice(names)
        print(row(a, op, random_args(rng, a, op)))


main()
