#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The third table behind tests/unit/array/parity.c: out= forms of functions with options, split with sizes, and writes
into a slice. Results are those of PyTorch's own
out= where shape and type are the result's. PyTorch resizes an `out` of another shape and warns that it will stop doing so; here that is an error.
Usage: parity_out.py > tests/unit/array/parity_out.inc   (needs torch)"""
import warnings
import torch
import torch.nn.functional as F
from parity_rows import *

warnings.simplefilter('ignore')


def qn_transpose(x, a, b): return x.transpose(a, b)
def qn_narrow(x, d, a, n): return x.narrow(d, a, n)
def t(e): return eval(e)
def sized(d, shape): return 'X(9, %s, %s)' % (d, ', '.join(map(str, shape))) if shape else 'qn_select(X(9, %s, 1), 0, 0)' % d
def qn_select(x, d, i): return x.select(d, i)


def converted(y, out):
    if y.shape != out.shape or not torch.can_cast(y.dtype, out.dtype):
        raise RuntimeError
    return out.copy_(y)


def forms(call, theirs):
    """call: qn_name_out(z, ..); theirs(out=..) is PyTorch's. Into its own type, into others, into another shape, into a view."""
    def fn(out):
        if out.shape != y.shape:
            raise RuntimeError
        return theirs(out=out)

    y = theirs()
    d, shape = NAMES[y.dtype], list(y.shape)
    case('in_place(%s, %s)' % (sized(d, shape), call), lambda: fn(out=t(sized(d, shape))))
    for other in 'BF16', 'F16', 'I64', 'BOOL':
        case('in_place(%s, %s)' % (sized(other, shape), call), lambda: converted(y, t(sized(other, shape))))
    case('in_place(%s, %s)' % (sized(d, shape + [2]), call), lambda: fn(out=t(sized(d, shape + [2]))))
    if shape:
        case('in_place(%s, %s)' % (sized(d, [shape[0] + 1] + shape[1:]), call), lambda: fn(out=t(sized(d, [shape[0] + 1] + shape[1:]))))
        wide = 'qn_narrow(X(9, %s, %s), 0, 1, %d)' % (d, ', '.join(map(str, [shape[0] + 2] + shape[1:])), shape[0])
        case('in_place(%s, %s)' % (wide, call), lambda: fn(out=t(wide)), True)
    if len(shape) > 1:
        turned = 'qn_transpose(X(9, %s, %s), 0, -1)' % (d, ', '.join(map(str, [shape[-1]] + shape[1:-1] + [shape[0]])))
        case('in_place(%s, %s)' % (turned, call), lambda: converted(y, t(turned)), True)  # of three dimensions, matmul has no such out


def shown(a): return ', '.join('true' if v is True else 'false' if v is False else str(v) for v in a)


# ---- products ----
for a, b in ('2, 3', '3, 4'), ('3', '3'), ('2, 3', '3'), ('3', '3, 2'), ('2, 2, 3', '3, 2'), ('2, 0', '0, 2'):
    forms('qn_matmul_out(z, X(1, F32, %s), X(2, F32, %s))' % (a, b), lambda out=None: torch.matmul(t('X(1, F32, %s)' % a), t('X(2, F32, %s)' % b), out=out))
forms('qn_mm_out(z, X(1, F64, 2, 3), qn_transpose(X(2, F64, 4, 3), 0, 1))', lambda out=None: torch.mm(X(1, F64, 2, 3), X(2, F64, 4, 3).t(), out=out))
forms('qn_bmm_out(z, X(1, F32, 2, 2, 3), X(2, F32, 2, 3, 2))', lambda out=None: torch.bmm(X(1, F32, 2, 2, 3), X(2, F32, 2, 3, 2), out=out))
forms('qn_addmm_out(z, X(3, F32, 4), X(1, F32, 2, 3), X(2, F32, 3, 4), 0.5, -2)',
      lambda out=None: torch.addmm(X(3, F32, 4), X(1, F32, 2, 3), X(2, F32, 3, 4), beta=0.5, alpha=-2, out=out))
linear = torch._C._nn.linear
for d in 'F32', 'F64':
    forms('qn_linear_out(z, X(1, %s, 2, 3), X(2, %s, 4, 3), X(3, %s, 4))' % (d, d, d),
          lambda out=None: linear(X(1, TYPES[d], 2, 3), X(2, TYPES[d], 4, 3), X(3, TYPES[d], 4), out=out))
case('in_place(X(9, F32, 2, 2), qn_mm_out(z, X(1, F32, 2, 3), X(2, F32, 2, 3)))', lambda: torch.mm(X(1, F32, 2, 3), X(2, F32, 2, 3), out=X(9, F32, 2, 2)))
case('in_place(X(9, F32, 2, 2), qn_bmm_out(z, X(1, F32, 2, 3), X(2, F32, 3, 2)))', lambda: torch.bmm(X(1, F32, 2, 3), X(2, F32, 3, 2), out=X(9, F32, 2, 2)))
# ---- reductions ----
x = 'X(1, F32, 2, 3, 2)'
for name in 'sum mean amax amin logsumexp any all'.split():
    for c, d in ('0', (0,)), ('1, -1', (1, 2)):
        for keep in False, True:
            forms('qn_%s_out(z, %s, QN_DIMS(%s), %s)' % (name, x, c, shown([keep])), lambda out=None: getattr(torch, name)(t(x), d, keep, out=out))
forms('qn_prod_out(z, %s, QN_DIMS(1), false)' % x, lambda out=None: torch.prod(t(x), 1, out=out))
forms('qn_count_nonzero_out(z, X(1, I32, 2, 3), QN_DIMS(1), false)', lambda out=None: converted(torch.count_nonzero(X(1, I32, 2, 3), 1), torch.zeros(2, dtype=I64) if out is None else out))
for name in 'var', 'std':
    forms('qn_%s_out(z, %s, QN_DIMS(1), 1, true)' % (name, x), lambda out=None: getattr(torch, name)(t(x), 1, correction=1, keepdim=True, out=out))
for p in 2, 1, 'INFINITY':
    forms('qn_norm_out(z, %s, %s, QN_DIMS(0, 1), false)' % (x, p), lambda out=None: torch.linalg.vector_norm(t(x), float('inf') if p == 'INFINITY' else p, (0, 1), out=out))
for name in 'argmax', 'argmin':
    forms('qn_%s_out(z, %s, 1, false)' % (name, x), lambda out=None: getattr(torch, name)(t(x), 1, out=out))
    forms('qn_%s_out(z, %s, QN_FLAT, false)' % (name, x), lambda out=None: getattr(torch, name)(t(x), out=out))
forms('qn_argsort_out(z, %s, 1, true)' % x, lambda out=None: torch.sort(t(x), dim=1, descending=True, stable=True, out=None if out is None else (torch.empty(0), out))[1])
case('in_place(X(9, F32, 3), qn_sum_out(z, X(1, F32, 2, 3), QN_DIMS(0, 0), false))', lambda: torch.sum(X(1, F32, 2, 3), (0, 0), out=X(9, F32, 3)))
# ---- along one dimension, joining ----
for name in 'softmax', 'log_softmax', 'cumsum', 'cumprod':
    for d in 0, -1:
        forms('qn_%s_out(z, %s, %d)' % (name, x, d), lambda out=None: getattr(torch, name)(t(x), d, out=out))
    case('in_place(X(9, F32, 2, 3), qn_%s_out(z, X(1, F32, 2, 3), 2))' % name, lambda: getattr(torch, name)(X(1, F32, 2, 3), 2, out=X(9, F32, 2, 3)))
    case('in_place(X(1, F32, 2, 3), qn_%s_out(z, z, 1))' % name, lambda: getattr(torch, name)(X(1, F32, 2, 3), 1))
for a, b, d in ('F32', 'F32', 0), ('F32', 'I32', 1), ('I32', 'I64', 0):
    A, D = 'X(1, %s, 2, 3)' % a, 'X(2, %s, 2, 3)' % b
    forms('qn_cat_out(z, (qn_tensor *[]){%s, %s}, 2, %d)' % (A, D, d), lambda out=None: torch.cat([t(A), t(D)], d, out=out))
    forms('qn_stack_out(z, (qn_tensor *[]){%s, %s}, 2, %d)' % (A, D, d),
          lambda out=None: converted(torch.stack([t(A), t(D)], d), out) if out is not None else torch.stack([t(A), t(D)], d))
case('in_place(X(1, F32, 4, 3), qn_cat_out(z, (qn_tensor *[]){qn_narrow(z, 0, 2, 2), qn_narrow(z, 0, 0, 2)}, 2, 0))', lambda: torch.roll(X(1, F32, 4, 3), 2, 0))
case('in_place(X(1, F32, 4, 3), qn_cat_out(z, (qn_tensor *[]){X(1, F32, 2, 3), X(2, F32, 2, 2)}, 2, 0))', lambda: torch.cat([X(1, F32, 2, 3), X(2, F32, 2, 2)], 0))
# ---- with options ----
forms('qn_where_out(z, X(1, BOOL, 3), X(1, F32, 2, 3), X(2, F32, 1))', lambda out=None: torch.where(X(1, BOOL, 3), X(1, F32, 2, 3), X(2, F32, 1), out=out))
forms('qn_clamp_out(z, %s, -1, 0.5)' % x, lambda out=None: torch.clamp(t(x), -1, 0.5, out=out))
forms('qn_lerp_out(z, X(1, F32, 2, 3), X(2, F32, 3), X(3, F32, 2, 1))', lambda out=None: torch.lerp(X(1, F32, 2, 3), X(2, F32, 3), X(3, F32, 2, 1), out=out))
for name in 'addcmul', 'addcdiv':
    forms('qn_%s_out(z, X(1, F32, 2, 3), X(2, F32, 3), X(3, F32, 2, 1), 0.5)' % name,
          lambda out=None: getattr(torch, name)(X(1, F32, 2, 3), X(2, F32, 3), X(3, F32, 2, 1), value=0.5, out=out))
for name in 'tril', 'triu':
    forms('qn_%s_out(z, X(1, F32, 3, 4), 1)' % name, lambda out=None: getattr(torch, name)(X(1, F32, 3, 4), 1, out=out))
forms('qn_gather_out(z, X(1, F32, 4, 3), 0, ids(2, 4, 2, 3))', lambda out=None: torch.gather(X(1, F32, 4, 3), 0, ids(2, 4, 2, 3), out=out))
forms('qn_index_select_out(z, X(1, F32, 4, 3), 1, ids(2, 3, 5))', lambda out=None: torch.index_select(X(1, F32, 4, 3), 1, ids(2, 3, 5), out=out))
case('in_place(X(9, F32, 4), qn_gather_out(z, X(1, F32, 4), 0, ids(1, 9, 4)))', lambda: torch.gather(X(1, F32, 4), 0, ids(1, 9, 4), out=X(9, F32, 4)))
# ---- values and places ----
TWO = [('max', 'false', lambda out: torch.max(t(x), 1, out=out), (2, 2)), ('min', 'true', lambda out: torch.min(t(x), 1, True, out=out), (2, 1, 2)),
       ('sort', 'true', lambda out: torch.sort(t(x), dim=1, descending=True, stable=True, out=out), (2, 3, 2)),
       ('topk', 'false', lambda out: torch.topk(t(x), 2, 1, False, out=out), (2, 2, 2))]
for name, option, fn, shape in TWO:
    k = ', 2' if name == 'topk' else ''
    for d, e, s in ('F32', 'I64', shape), ('F64', 'I32', shape), ('I32', 'I64', shape), ('F32', 'BOOL', shape), ('F32', 'I64', shape + (1,)):
        def pair():
            y, at = fn(None)
            return converted(y, t(sized(d, s))), converted(at, t(sized(e, shape)))
        call = 'qn_%s_out(z, second = %s, %s%s, 1, %s)' % (name, sized(e, shape), x, k, option)
        case('in_place(%s, %s)' % (sized(d, s), call), lambda: (fn((t(sized(d, s)), t(sized(e, shape)))) if (d, e, s) == ('F32', 'I64', shape) else pair())[0])
        case('which(qn_%s_out(%s, second = %s, %s%s, 1, %s))' % (name, sized(d, s), sized(e, shape), x, k, option), lambda: pair()[1])
# ---- writes into a part, in place ----
def sliced(x, d, a, src, add):
    part = x.narrow(d, a, src.shape[d])
    if src.dim() != x.dim():
        raise RuntimeError
    part.add_(src) if add else part.copy_(src)
    return x


for x, src, d, a in (('X(1, F32, 4, 3)', 'X(2, F32, 2, 3)', 0, 1), ('X(1, F16, 4, 3)', 'X(2, F32, 4, 1)', -1, 2), ('X(1, BF16, 2, 3, 2)', 'X(2, F32, 2, 2, 2)', 1, 1),
                     ('X(1, I64, 4, 3)', 'X(2, I32, 2, 3)', 0, 2), ('X(1, F64, 4, 3)', 'X(2, F32, 2, 3)', 0, 0), ('X(1, F32, 4, 3)', 'X(2, F16, 2, 3)', 0, 1),
                     ('qn_transpose(X(1, F32, 3, 4), 0, 1)', 'X(2, F32, 2, 3)', 0, 1), ('qn_narrow(X(1, F32, 4, 5), 1, 1, 3)', 'X(2, F32, 1, 3)', 0, 3),
                     ('X(1, F32, 4, 3)', 'X(2, F32, 2, 3)', 0, 3), ('X(1, F32, 4, 3)', 'X(2, F32, 2, 3)', 0, -1), ('X(1, F32, 4, 3)', 'X(2, F32, 2, 2)', 0, 0),
                     ('X(1, F32, 4, 3)', 'X(2, F32, 3)', 0, 0), ('X(1, F32, 4, 3)', 'X(2, F32, 4, 0)', 1, 3), ('X(1, F32, 4, 3)', 'X(2, F32, 4, 3)', 2, 0),
                     ('X(1, F32, 4, 3)', 'qn_narrow(z, 0, 0, 3)', 0, 1)):
    for add in False, True:
        call = 'in_place(%s, qn_slice_update_(z, %d, %d, %s, %s))' % (x, d, a, src, shown([add]))
        y = t(x)
        case(call, lambda: sliced(y, d, a, t(src) if 'z' not in src else y.narrow(0, 0, 3).clone(), add), True)
for d in 0, 1:
    case('in_place(X(1, F32, 4, 4), qn_index_copy_(z, %d, ids(1, 4, 2), X(3, F32, %s)))' % (d, '2, 4' if d == 0 else '4, 2'),
         lambda: X(1, F32, 4, 4).index_copy_(d, ids(1, 4, 2), X(3, F32, 2, 4) if d == 0 else X(3, F32, 4, 2)))
case('in_place(X(1, F32, 4, 2), qn_index_copy_(z, 0, ids(1, 9, 4), X(3, F32, 4, 2)))', lambda: X(1, F32, 4, 2).index_copy_(0, ids(1, 9, 4), X(3, F32, 4, 2)))
# ---- parts of given sizes ----
for sizes, n, d in ((2, 3, 5), 10, 0), ((0, 4), 4, 0), ((1, 1, 1), 3, -1), ((2, 2), 5, 0), ((3, 3), 5, 0), ((6, -1), 5, 0), ((5,), 5, 1), ((0,), 0, 0), ((2, 1), 3, 2):
    shape = '%d, 2' % n if d == 0 else '2, %d' % n
    for i in range(max(1, len(sizes))):
        case('sizes(X(1, F32, %s), %d, %d%s)' % (shape, d, i, ''.join(', %d' % s for s in sizes)), lambda: torch.split(t('X(1, F32, %s)' % shape), list(sizes), d)[i], True)
end()
