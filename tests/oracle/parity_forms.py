#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The second table behind tests/unit/array/parity.c: in-place and out= forms, strides of views, five dimensions, empty tensors and scalars,
and what PyTorch refuses, for every function. Indices out of range are refused when somebody looks.
Usage: parity_forms.py > tests/unit/array/parity_forms.inc   (needs torch)"""
import math
import warnings
import torch
import torch.nn.functional as F
from parity_rows import *

warnings.simplefilter('ignore')
B = {True: 'true', False: 'false'}
FIVE, NONE, HALF = 'X(1, F32, 2, 1, 2, 1, 3)', 'X(1, F32, 0, 3)', 'X(2, F16, 4)'
POINT, TRANSPOSED = 'qn_select(X(1, F32, 3), 0, 1)', 'qn_transpose(X(1, F64, 2, 3), 0, 1)'


def qn_select(x, d, i): return x.select(d, i)
def qn_transpose(x, a, b): return x.transpose(a, b)
def qn_narrow(x, d, a, n): return x.narrow(d, a, n)
def qn_expand(x, *s): return x.expand(s[0])
def qn_shape_of(*s): return s


def t(e): return eval(e)


def stored(y, x):
    """y as the new value of x, by the rules of in-place operations."""
    if y.shape != x.shape or not torch.can_cast(y.dtype, x.dtype):
        raise RuntimeError
    return x.copy_(y)


def in_place(name, x, *rest):
    method = getattr(x, name + '_', None)
    return method(*rest) if method else stored(function(name)(x, *rest), x)


def seen(x, change):
    change(x)
    return x


def function(name):
    return F.silu if name == 'silu' else getattr(torch, name)


def forms(name, calls):
    """calls: (first source, other sources): in place, into memory of several types."""
    for x, rest in calls:
        more = ''.join(', ' + r for r in rest)
        case('in_place(%s, qn_%s_(z%s))' % (x, name, more), lambda: in_place(name, t(x), *map(t, rest)), True)
    x, rest = calls[0]
    more = ''.join(', ' + r for r in rest)
    try:
        shape = function(name)(t(x), *map(t, rest)).shape
    except Exception:
        return
    for d in 'F32', 'F16', 'I32':
        into = 'X(9, %s, %s)' % (d, ', '.join(map(str, shape)))
        case('in_place(%s, qn_%s_out(z, %s%s))' % (into, name, x, more), lambda: stored(function(name)(t(x), *map(t, rest)), t(into)))


# ---- one source ----
UNARY = ('neg abs sign square floor ceil round trunc frac exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh '
         'asinh acosh atanh erf sigmoid relu silu logical_not isnan isinf isfinite bitwise_not').split()
for name in UNARY:
    whole = name == 'bitwise_not'
    for x in FIVE, NONE, HALF, POINT, TRANSPOSED:
        x = x.replace('F32', 'I32').replace('F64', 'I16').replace('F16', 'I8') if whole else x
        case('qn_%s(%s)' % (name, x), lambda: function(name)(t(x)))
    calls = [('X(1, F32, 2, 3)', []), ('X(1, I32, 4)', []), (TRANSPOSED, []), (NONE, [])]
    if name in ('silu', 'frac'):
        del calls[1]
    if whole:
        calls = [('X(1, I32, 2, 3)', []), ('X(1, F32, 4)', [])]
    forms(name, calls)
# ---- two sources ----
ARITH = 'add sub mul div floor_divide remainder fmod pow maximum minimum atan2'.split()
COMPARE = 'eq ne lt le gt ge logical_and logical_or logical_xor'.split()
BITS = 'bitwise_and bitwise_or bitwise_xor'.split()
for name in ARITH + COMPARE + BITS:
    whole = name in BITS
    a, b = ('I32', 'I32') if whole else ('F32', 'F32')
    A, D = 'X(1, %s, 2, 1, 2, 1, 3)' % a, 'X(2, %s, 1, 2, 1, 2, 1)' % b
    case('qn_%s(%s, %s)' % (name, A, D), lambda: function(name)(t(A), t(D)))
    case('qn_%s(X(1, %s, 0, 3), X(2, %s, 1))' % (name, a, b), lambda: function(name)(X(1, TYPES[a], 0, 3), X(2, TYPES[b], 1)))
    case('qn_%s(X(1, %s, 2, 3), qn_transpose(X(2, %s, 3, 2), 0, 1))' % (name, a, b), lambda: function(name)(X(1, TYPES[a], 2, 3), X(2, TYPES[b], 3, 2).t()))
    calls = [('X(1, %s, 2, 3)' % a, ['X(2, %s, 3)' % b]), ('X(1, %s, 3)' % a, ['X(2, %s, 2, 3)' % b]), ('X(1, I64, 3)', ['X(2, F32, 3)']),
             ('X(1, F32, 3)', ['X(2, I16, 1)']), ('X(1, F32, 3)', ['X(2, F64, 3)']), ('qn_narrow(X(1, %s, 2, 4), 1, 1, 3)' % a, ['X(2, %s, 3)' % b])]
    if name in ('floor_divide', 'remainder', 'fmod'):
        calls[3] = ('X(1, F32, 3)', ['X(2, U8, 1)'])
    forms(name, calls)
    for n in ('2', '3') if whole or name == 'pow' else ('2', '2.5', '-3'):
        v = eval(n)
        case('qn_%s_number(X(1, %s, 2, 3), %s)' % (name, a, n), lambda: function(name)(X(1, TYPES[a], 2, 3), torch.tensor(v) if name in
             ('maximum', 'minimum', 'atan2', 'logical_and', 'logical_or', 'logical_xor') else v))
        case('in_place(X(1, %s, 2, 3), qn_%s_number_(z, %s))' % (a, name, n), lambda: in_place(name, X(1, TYPES[a], 2, 3), torch.tensor(v) if name in
             ('maximum', 'minimum', 'atan2', 'logical_and', 'logical_or', 'logical_xor') else v))
for name, op in ('shift_left', torch.bitwise_left_shift), ('shift_right', torch.bitwise_right_shift):
    case('qn_%s(X(1, I32, 2, 3), X(1, U8, 3))' % name, lambda: op(X(1, I32, 2, 3), X(1, U8, 3)))
    case('qn_%s(X(1, F32, 2, 3), X(1, I32, 3))' % name, lambda: op(X(1, F32, 2, 3), X(1, I32, 3)))
    case('qn_%s_number(X(1, I64, 5), 3)' % name, lambda: op(X(1, I64, 5), 3))
    case('in_place(X(1, I32, 5), qn_%s_(z, X(2, U8, 5)))' % name, lambda: op(X(1, I32, 5), X(2, U8, 5).int()))
    case('in_place(X(1, I32, 5), qn_%s_number_(z, 2))' % name, lambda: op(X(1, I32, 5), 2))
    case('in_place(X(9, I32, 5), qn_%s_out(z, X(1, I32, 5), X(2, U8, 5)))' % name, lambda: op(X(1, I32, 5), X(2, U8, 5).int()))
for n in 2, 2.5, -3:
    case('qn_trunc_divide_number(X(1, F32, 5), %s)' % n, lambda: torch.div(X(1, F32, 5), n, rounding_mode='trunc'))
    case('in_place(X(1, F32, 5), qn_trunc_divide_number_(z, %s))' % n, lambda: X(1, F32, 5).div_(n, rounding_mode='trunc'))
case('qn_trunc_divide(X(1, I32, 5), X(2, F32, 2, 1))', lambda: torch.div(X(1, I32, 5), X(2, F32, 2, 1), rounding_mode='trunc'))
case('in_place(X(1, F64, 2, 3), qn_trunc_divide_(z, X(2, F64, 3)))', lambda: X(1, F64, 2, 3).div_(X(2, F64, 3), rounding_mode='trunc'))
case('in_place(X(9, F32, 5), qn_trunc_divide_out(z, X(1, F32, 5), X(2, F32, 5)))', lambda: torch.div(X(1, F32, 5), X(2, F32, 5), rounding_mode='trunc'))
# ---- reductions ----
DIMS = [('QN_ALL', (0, 1, 2, 3, 4)), ('QN_DIMS(0, 2, -1)', (0, 2, -1)), ('QN_DIMS(1, 3)', (1, 3)), ('QN_DIMS(2, 2)', (2, 2)), ('QN_DIMS(-6)', (-6,))]
for name in 'sum mean amax amin logsumexp any all'.split():
    for c, d in DIMS:
        for keep in False, True:
            case('qn_%s(%s, %s, %s)' % (name, FIVE, c, B[keep]), lambda: getattr(torch, name)(t(FIVE), d, keep))
    case('qn_%s(%s, QN_DIMS(0), true)' % (name, TRANSPOSED), lambda: getattr(torch, name)(t(TRANSPOSED), (0,), True))
    case('qn_%s(%s, QN_DIMS(1), false)' % (name, NONE), lambda: getattr(torch, name)(t(NONE), (1,), False))
    case('qn_%s(%s, QN_ALL, false)' % (name, POINT), lambda: getattr(torch, name)(t(POINT)) if name != 'logsumexp' else torch.logsumexp(t(POINT), 0))
for d in 0, 2, 4, 5:
    case('qn_prod(%s, QN_DIMS(%d), true)' % (FIVE, d), lambda: torch.prod(t(FIVE), d, True))
    case('qn_count_nonzero(X(1, I32, 2, 1, 2, 1, 3), QN_DIMS(%d), false)' % d, lambda: torch.count_nonzero(X(1, I32, 2, 1, 2, 1, 3), d))
    for f in 'argmax', 'argmin':
        case('qn_%s(%s, %d, true)' % (f, FIVE, d), lambda: getattr(torch, f)(t(FIVE), d, True))
    for f in 'softmax', 'log_softmax', 'cumsum', 'cumprod':
        case('qn_%s(%s, %d)' % (f, FIVE, d), lambda: getattr(torch, f)(t(FIVE), d))
    case('qn_max(%s, %d, false, NULL)' % (FIVE, d), lambda: torch.max(t(FIVE), d)[0])
    case('qn_min(%s, %d, true, NULL)' % (FIVE, d), lambda: torch.min(t(FIVE), d, True)[0])
    case('which(qn_max(%s, %d, false, &second))' % (FIVE, d), lambda: torch.max(t(FIVE), d)[1])
    case('which(qn_min(%s, %d, true, &second))' % (FIVE, d), lambda: torch.min(t(FIVE), d, True)[1])
    case('qn_sort(%s, %d, false, NULL)' % (FIVE, d), lambda: torch.sort(t(FIVE), d)[0])
    case('which(qn_sort(%s, %d, true, &second))' % (FIVE, d), lambda: torch.sort(t(FIVE), dim=d, descending=True, stable=True)[1])
    case('qn_argsort(%s, %d, true)' % (FIVE, d), lambda: torch.argsort(t(FIVE), dim=d, descending=True, stable=True))
    case('which(qn_topk(%s, 2, %d, false, &second))' % (FIVE, d), lambda: torch.topk(t(FIVE), 2, d, False)[1])
    case('qn_var(%s, QN_DIMS(%d), 0, true)' % (FIVE, d), lambda: torch.var(t(FIVE), d, correction=0, keepdim=True))
    case('qn_std(%s, QN_DIMS(%d), 0, false)' % (FIVE, d), lambda: torch.std(t(FIVE), d, correction=0))
    case('qn_norm(%s, 2, QN_DIMS(%d), true)' % (FIVE, d), lambda: torch.linalg.vector_norm(t(FIVE), 2, d, True))
for f in 'argmax', 'argmin':
    case('qn_%s(%s, QN_FLAT, false)' % (f, FIVE), lambda: getattr(torch, f)(t(FIVE)))
    case('qn_%s(%s, 0, false)' % (f, NONE), lambda: getattr(torch, f)(t(NONE), 0))
    case('qn_%s(%s, QN_FLAT, false)' % (f, NONE), lambda: getattr(torch, f)(t(NONE)))
for f in 'softmax', 'log_softmax', 'cumsum', 'cumprod':
    for x in NONE, POINT, TRANSPOSED, HALF:
        case('qn_%s(%s, 0)' % (f, x), lambda: getattr(torch, f)(t(x), 0))
for f in 'max', 'min':
    case('qn_%s(%s, 0, false, NULL)' % (f, NONE), lambda: getattr(torch, f)(t(NONE), 0)[0])
for f in 'sort', 'argsort':
    case('qn_%s(%s, 0, false%s)' % (f, NONE, ', NULL' if f == 'sort' else ''), lambda: getattr(torch, f)(t(NONE), 0))
    case('qn_%s(%s, 0, false%s)' % (f, POINT, ', NULL' if f == 'sort' else ''), lambda: getattr(torch, f)(t(POINT), 0))
for k in 0, 3, 4, -1:
    case('qn_topk(X(1, I32, 2, 3), %d, 1, true, NULL)' % k, lambda: torch.topk(X(1, I32, 2, 3), k, 1)[0])
case('qn_mean(X(1, I64, 3), QN_ALL, false)', lambda: torch.mean(X(1, I64, 3)))
case('qn_var(X(1, F32, 0, 3), QN_DIMS(0), 1, false)', lambda: torch.var(X(1, F32, 0, 3), 0))
# ---- products ----
for a, b in ('2, 1, 2, 2, 3', '2, 1, 3, 2'), ('0, 3', '3, 2'), ('2, 0, 3', '3, 2'), ('2, 3', '3, 0'), ('0', '0'), ('2, 2, 3', '3, 3, 2'):
    case('qn_matmul(X(1, F64, %s), X(2, F64, %s))' % (a, b), lambda: t('X(1, F64, %s)' % a) @ t('X(2, F64, %s)' % b))
case('qn_matmul(X(1, F32, 2, 3), X(2, F64, 3, 2))', lambda: X(1, F32, 2, 3) @ X(2, F64, 3, 2))
case('qn_matmul(%s, X(2, F32, 3))' % POINT, lambda: t(POINT) @ X(2, F32, 3))
case('qn_matmul(qn_transpose(X(1, F32, 3, 2), 0, 1), qn_transpose(X(2, F32, 4, 3), 0, 1))', lambda: X(1, F32, 3, 2).t() @ X(2, F32, 4, 3).t())
case('qn_mm(X(1, F16, 2, 3), X(2, F16, 3, 2))', lambda: torch.mm(X(1, F16, 2, 3), X(2, F16, 3, 2)))
case('qn_bmm(X(1, F32, 0, 2, 3), X(2, F32, 0, 3, 2))', lambda: torch.bmm(X(1, F32, 0, 2, 3), X(2, F32, 0, 3, 2)))
case('qn_linear(X(1, F32, 2, 1, 2, 1, 3), X(2, F32, 4, 3), NULL)', lambda: F.linear(t(FIVE), X(2, F32, 4, 3)))
case('qn_linear(X(1, F32, 0, 3), X(2, F32, 4, 3), X(1, F32, 4))', lambda: F.linear(t(NONE), X(2, F32, 4, 3), X(1, F32, 4)))
case('qn_linear(X(1, F32, 2, 3), X(2, F32, 4, 3), X(1, F32, 3))', lambda: F.linear(X(1, F32, 2, 3), X(2, F32, 4, 3), X(1, F32, 3)))
case('in_place(X(9, F64, 2, 4), qn_addmm_out(z, X(3, F64, 4), X(1, F64, 2, 3), X(2, F64, 3, 4), 0.5, -2))',
     lambda: torch.addmm(X(3, F64, 4), X(1, F64, 2, 3), X(2, F64, 3, 4), beta=0.5, alpha=-2))
case('in_place(X(9, F32, 2, 4), qn_addmm_out(z, z, X(1, F32, 2, 3), X(2, F32, 3, 4), 0.5, -2))',
     lambda: X(9, F32, 2, 4).addmm_(X(1, F32, 2, 3), X(2, F32, 3, 4), beta=0.5, alpha=-2))
case('qn_addmm(X(3, F32, 2, 4), X(1, F32, 2, 3), X(2, F32, 4, 3), 1, 1)', lambda: torch.addmm(X(3, F32, 2, 4), X(1, F32, 2, 3), X(2, F32, 4, 3)))
# ---- with options ----
for x in FIVE, NONE, HALF, POINT, TRANSPOSED:
    case('qn_gelu(%s, false)' % x, lambda: F.gelu(t(x)))
    case('qn_elu(%s, 1)' % x, lambda: F.elu(t(x)))
    case('qn_leaky_relu(%s, 0.01)' % x, lambda: F.leaky_relu(t(x)))
    case('qn_softplus(%s, 1, 20)' % x, lambda: F.softplus(t(x)))
    case('qn_clamp(%s, -1, INFINITY)' % x, lambda: torch.clamp(t(x), min=-1))
    case('in_place(%s, qn_clamp_(z, -1, 0.5))' % x, lambda: t(x).clamp_(-1, 0.5), True)
    case('in_place(%s, qn_zero_(z))' % x, lambda: t(x).zero_(), True)
    case('in_place(%s, qn_fill_(z, 2.5))' % x, lambda: t(x).fill_(2.5), True)
    case('in_place(%s, qn_copy_(z, X(2, I32, 1)))' % x, lambda: t(x).copy_(X(2, I32, 1)), True)
    case('qn_masked_fill(%s, X(1, BOOL, 1), 3)' % x, lambda: t(x).masked_fill(X(1, BOOL, 1), 3))
    case('qn_where(X(1, BOOL, 1), %s, X(2, F32, 1))' % x, lambda: torch.where(X(1, BOOL, 1), t(x), X(2, F32, 1)))
case('in_place(X(1, F32, 2, 3), qn_masked_fill_(z, X(1, BOOL, 2, 1), 3))', lambda: X(1, F32, 2, 3).masked_fill_(X(1, BOOL, 2, 1), 3))
case('in_place(X(1, F32, 3), qn_masked_fill_(z, X(1, BOOL, 2, 3), 3))', lambda: X(1, F32, 3).masked_fill_(X(1, BOOL, 2, 3), 3))
case('in_place(X(1, F32, 2), qn_copy_(z, X(2, F32, 2, 2)))', lambda: X(1, F32, 2).copy_(X(2, F32, 2, 2)))
case('qn_where(X(1, F32, 3), X(1, F32, 3), X(2, F32, 3))', lambda: torch.where(X(1, F32, 3), X(1, F32, 3), X(2, F32, 3)))
case('qn_where(X(1, BOOL, 3), X(1, F32, 3), X(2, F32, 2))', lambda: torch.where(X(1, BOOL, 3), X(1, F32, 3), X(2, F32, 2)))
case('qn_addcdiv(X(1, F64, 2, 1, 2, 1, 3), X(2, F64, 3), X(3, F64, 2, 1), 0.5)', lambda: torch.addcdiv(X(1, F64, 2, 1, 2, 1, 3), X(2, F64, 3), X(3, F64, 2, 1), value=0.5))
case('qn_addcmul(X(1, I32, 3), X(2, I32, 3), X(3, I32, 3), 2)', lambda: torch.addcmul(X(1, I32, 3), X(2, I32, 3), X(3, I32, 3), value=2))
case('qn_addcmul(X(1, F32, 3), X(2, F32, 2), X(3, F32, 3), 2)', lambda: torch.addcmul(X(1, F32, 3), X(2, F32, 2), X(3, F32, 3), value=2))
case('qn_lerp(X(1, F32, 3), X(2, F32, 2), X(3, F32, 3))', lambda: torch.lerp(X(1, F32, 3), X(2, F32, 2), X(3, F32, 3)))
case('qn_lerp_number(X(1, F32, 3), X(2, F32, 2), 0.5)', lambda: torch.lerp(X(1, F32, 3), X(2, F32, 2), 0.5))
# ---- joining, rearranging ----
case('cat2(%s, X(2, F32, 2, 1, 3, 1, 3), 2)' % FIVE, lambda: torch.cat([t(FIVE), X(2, F32, 2, 1, 3, 1, 3)], 2))
case('cat2(%s, X(2, F32, 2, 3), 0)' % NONE, lambda: torch.cat([t(NONE), X(2, F32, 2, 3)], 0))
case('cat2(X(1, F32, 2, 3), X(2, F32, 3), 0)', lambda: torch.cat([X(1, F32, 2, 3), X(2, F32, 3)], 0))
case('stack2(%s, %s, 5)' % (FIVE, FIVE), lambda: torch.stack([t(FIVE)] * 2, 5))
case('stack2(%s, %s, 0)' % (POINT, POINT), lambda: torch.stack([t(POINT)] * 2, 0))
case('stack2(X(1, F32, 2), X(1, F32, 3), 0)', lambda: torch.stack([X(1, F32, 2), X(1, F32, 3)], 0))
case('qn_repeat(%s, qn_shape_of(1, 2, 1, 3, 1))' % FIVE, lambda: t(FIVE).repeat(1, 2, 1, 3, 1))
case('qn_repeat(X(1, F32, 2), qn_shape_of(2, 0))', lambda: X(1, F32, 2).repeat(2, 0))
case('qn_roll(%s, -4, 4)' % FIVE, lambda: torch.roll(t(FIVE), -4, 4))
case('qn_roll(%s, 1, 0)' % NONE, lambda: torch.roll(t(NONE), 1, 0))
case('qn_flip(%s, QN_DIMS(0, 4, 2))' % FIVE, lambda: torch.flip(t(FIVE), (0, 4, 2)))
case('qn_flip(%s, QN_DIMS(0, 0))' % FIVE, lambda: torch.flip(t(FIVE), (0, 0)))
for f in 'tril', 'triu':
    for x in 'X(1, F32, 2, 2, 1, 3, 3)', NONE, 'X(1, F32, 3)':
        case('qn_%s(%s, 0)' % (f, x), lambda: getattr(torch, f)(t(x)))
case('qn_diagonal(X(1, F32, 2, 3, 4), -1, 2, 0)', lambda: torch.diagonal(X(1, F32, 2, 3, 4), -1, 2, 0), True)
case('qn_diagonal(X(1, F32, 2, 3), 0, 1, 1)', lambda: torch.diagonal(X(1, F32, 2, 3), 0, 1, 1))
case('pads(%s, "constant", 1, 0, 0, 2, -1, 1)' % FIVE, lambda: F.pad(t(FIVE), (1, 0, 0, 2, -1, 1)))
case('pads(X(1, F32, 2, 3), "constant", -2, -2)', lambda: F.pad(X(1, F32, 2, 3), (-2, -2)))
case('pads(X(1, F32, 2, 3), "mirror", 1, 1)', lambda: F.pad(X(1, F32, 2, 3), (1, 1), 'mirror'))
case('pads(X(1, F32, 3), "constant", 1, 1, 1)', lambda: F.pad(X(1, F32, 3), (1, 1, 1)))
# ---- views, with their strides ----
V = 'X(1, F32, 2, 1, 3)'
for d in 0, 1, -2, 3, -4:
    case('qn_squeeze(%s, %d)' % (V, d), lambda: t(V).squeeze(d), True)
    case('qn_unsqueeze(%s, %d)' % (V, d), lambda: t(V).unsqueeze(d), True)
case('qn_squeeze_all(%s)' % FIVE, lambda: t(FIVE).squeeze(), True)
for a, b in (0, 1), (1, -1), (0, 4), (2, 1), (3, 3), (0, 5):
    case('qn_flatten(%s, %d, %d)' % (FIVE, a, b), lambda: t(FIVE).flatten(a, b), True)
    case('qn_transpose(%s, %d, %d)' % (FIVE, a, b), lambda: t(FIVE).transpose(a, b), True)
case('qn_flatten(%s, 0, 0)' % POINT, lambda: t(POINT).flatten(), True)
for s in (3, 2), (-1, 2), (6,), (4,), (-1, 4), (-1, -1), (2, 3, 1), (0, 6):
    S = ', '.join(map(str, s))
    for x in 'X(1, F32, 2, 3)', 'qn_transpose(X(1, F32, 3, 2), 0, 1)':
        case('qn_view_as(%s, qn_shape_of(%s))' % (x, S), lambda: t(x).view(s), True)
        case('qn_reshape(%s, qn_shape_of(%s))' % (x, S), lambda: t(x).reshape(s), True)
case('qn_reshape(%s, qn_shape_of(3, 0, 2))' % NONE, lambda: t(NONE).reshape(3, 0, 2), True)
case('qn_reshape(%s, qn_shape_of(-1, 0))' % NONE, lambda: t(NONE).reshape(-1, 0), True)
for s in (2, 4, 3), (2, 1, 4), (5, 2, 1, 3), (1, 3), (-1, 4, -1), (-1, 2, 1, 3):
    case('qn_expand(%s, qn_shape_of(%s))' % (V, ', '.join(map(str, s))), lambda: t(V).expand(s), True)
for p in (4, 3, 2, 1, 0), (0, 2, 1, 3, -1), (0, 0, 1, 2, 3), (0, 1):
    case('qn_permute_to(%s, %s)' % (FIVE, ', '.join(map(str, p))), lambda: t(FIVE).permute(p), True)
for a, n in (0, 7), (7, 0), (2, 3), (-3, 2), (6, 2), (0, -1), (8, 0):
    case('qn_narrow(X(1, F32, 7), 0, %d, %d)' % (a, n), lambda: X(1, F32, 7).narrow(0, a, n), True)
for a, b, s in (0, 7, 3), (-3, 7, 1), (5, 2, 1), (-20, 20, 2), (2, -1, 1), (0, 7, 0):
    case('qn_slice(X(1, F32, 2, 7), 1, %d, %d, %d)' % (a, b, s), lambda: X(1, F32, 2, 7)[:, a:b:s], True)
for i in 0, 2, -3, 3, -4:
    case('qn_select(X(1, F32, 2, 3), -1, %d)' % i, lambda: X(1, F32, 2, 3).select(-1, i), True)
for f, cut in ('chunk', torch.chunk), ('split', torch.split):
    for n in 1, 2, 3, 5, 9, 0, -1:
        for i in range(len(cut(X(1, F32, 2, 5), n, 1)) if n > 0 else 1):
            case('part(qn_%s, X(1, F32, 2, 5), %d, -1, %d)' % (f, n, i), lambda: cut(X(1, F32, 2, 5), n, -1)[i], True)
for x in FIVE, NONE, POINT, TRANSPOSED, 'qn_expand(X(1, F32, 2, 1), qn_shape_of(2, 3))':
    case('qn_contiguous(%s)' % x, lambda: t(x).contiguous(), True)
    case('qn_clone(%s)' % x, lambda: t(x).clone(memory_format=torch.contiguous_format), True)
    case('qn_detach(%s)' % x, lambda: t(x).detach(), True)
    for d in 'F64', 'I32', 'BOOL':
        case('qn_to(%s, QN_DTYPE_%s)' % (x, d), lambda: t(x).to(TYPES[d]))
# ---- creation ----
for d in 'F32', 'I64', 'F16', 'BOOL':
    D = TYPES[d]
    case('qn_zeros(c, qn_shape_of(2, 0, 3), QN_DTYPE_%s)' % d, lambda: torch.zeros(2, 0, 3, dtype=D), True)
    case('qn_ones(c, qn_shape_of(2, 1, 1, 1, 2), QN_DTYPE_%s)' % d, lambda: torch.ones(2, 1, 1, 1, 2, dtype=D), True)
    case('qn_full(c, QN_SCALAR, 3, QN_DTYPE_%s)' % d, lambda: torch.full((), 3, dtype=D))
    case('qn_scalar(c, -2, QN_DTYPE_%s)' % d, lambda: torch.tensor(-2, dtype=D))
    case('qn_eye(c, 2, 3, QN_DTYPE_%s)' % d, lambda: torch.eye(2, 3, dtype=D))
    case('qn_zeros_like(X(1, %s, 2, 3))' % d, lambda: torch.zeros_like(X(1, D, 2, 3)))
    case('qn_ones_like(X(1, %s, 2, 3))' % d, lambda: torch.ones_like(X(1, D, 2, 3)))
    case('qn_full_like(X(1, %s, 2, 3), 1)' % d, lambda: torch.full_like(X(1, D, 2, 3), 1))
    case('qn_zero_(qn_empty(c, qn_shape_of(2), QN_DTYPE_%s))' % d, lambda: torch.empty(2, dtype=D).zero_())
    case('qn_zero_(qn_empty_like(X(1, %s, 2, 3)))' % d, lambda: torch.empty_like(X(1, D, 2, 3)).zero_())
for a, b, s in (0, 5, 1), (1, 2, 0.25), (5, 0, -2), (0, 0, 1), (0, 5, -1), (0, 5, 0), (0.5, 3, 1):
    case('qn_arange(c, %s, %s, %s, QN_DTYPE_F32)' % (a, b, s), lambda: torch.arange(a, b, s, dtype=F32))
for n in 0, 1, 2, 5, -1:
    case('qn_linspace(c, -1, 2, %d, QN_DTYPE_F64)' % n, lambda: torch.linspace(-1, 2, n, dtype=F64))
case('qn_from_data(c, (float[]){1, 2, 3, 4}, qn_shape_of(2, 2), QN_DTYPE_F32)', lambda: torch.tensor([[1., 2.], [3., 4.]]), True)
case('qn_from_blob(c, (static_data), qn_shape_of(2, 3), (int64_t[]){1, 2}, QN_DTYPE_F32, NULL, NULL)', lambda: torch.arange(8.).as_strided((2, 3), (1, 2)), True)
case('qn_from_blob(c, (static_data), qn_shape_of(3, 2), (int64_t[]){0, 3}, QN_DTYPE_F32, NULL, NULL)', lambda: torch.arange(8.).as_strided((3, 2), (0, 3)), True)
# ---- indexing: also what lies out of range ----
Y = 'X(1, F64, 2, 3, 2, 1, 2)'
far = 'ids(1, 9, 4)'
case('qn_gather(%s, 1, ids(2, 3, 2, 4, 1, 1, 2))' % Y, lambda: torch.gather(t(Y), 1, ids(2, 3, 2, 4, 1, 1, 2)))
case('qn_gather(X(1, F32, 4), 0, %s)' % far, lambda: torch.gather(X(1, F32, 4), 0, t(far)))
case('qn_gather(X(1, F32, 2, 4), 1, ids(1, 9, 2, 4))', lambda: torch.gather(X(1, F32, 2, 4), 1, ids(1, 9, 2, 4)))
case('qn_gather(X(1, F32, 2, 4), 0, ids(1, 2, 3, 5))', lambda: torch.gather(X(1, F32, 2, 4), 0, ids(1, 2, 3, 5)))
case('qn_gather(X(1, F32, 2, 4), 0, ids(1, 2, 3))', lambda: torch.gather(X(1, F32, 2, 4), 0, ids(1, 2, 3)))
case('qn_gather(X(1, F32, 0, 4), 0, ids(1, 2, 0, 4))', lambda: torch.gather(X(1, F32, 0, 4), 0, ids(1, 2, 0, 4)))
for f, u in ('scatter', '_'), ('scatter_add', '_'):
    case('qn_%s(%s, 4, ids(1, 2, 2, 1, 2, 1, 1), X(3, F64, 2, 1, 2, 1, 1))' % (f, Y), lambda: getattr(torch, f)(t(Y), 4, ids(1, 2, 2, 1, 2, 1, 1), X(3, F64, 2, 1, 2, 1, 1)))
    case('in_place(X(1, F32, 4, 3), qn_%s_(z, 0, ids(2, 4, 1, 3), X(3, F32, 1, 3)))' % f, lambda: in_place(f, X(1, F32, 4, 3), 0, ids(2, 4, 1, 3), X(3, F32, 1, 3)))
    case('qn_%s(X(1, F32, 4), 0, %s, X(3, F32, 4))' % (f, far), lambda: getattr(torch, f)(X(1, F32, 4), 0, t(far), X(3, F32, 4)))
    case('in_place(X(1, F32, 4), qn_%s_(z, 0, %s, X(3, F32, 4)))' % (f, far), lambda: in_place(f, X(1, F32, 4), 0, t(far), X(3, F32, 4)))
    case('qn_%s(X(1, F32, 4), 0, ids(1, 4, 5), X(3, F32, 4))' % f, lambda: getattr(torch, f)(X(1, F32, 4), 0, ids(1, 4, 5), X(3, F32, 4)))
    case('qn_%s(X(1, F32, 4), 0, ids(1, 4, 2), X(3, F64, 4))' % f, lambda: getattr(torch, f)(X(1, F32, 4), 0, ids(1, 4, 2), X(3, F64, 4)))
case('qn_index_select(%s, 2, ids(1, 2, 5))' % Y, lambda: t(Y).index_select(2, ids(1, 2, 5)))
case('qn_index_select(X(1, F32, 4, 2), 0, %s)' % far, lambda: X(1, F32, 4, 2).index_select(0, t(far)))
case('qn_index_select(X(1, F32, 4, 2), 0, ids(1, 4, 2, 2))', lambda: X(1, F32, 4, 2).index_select(0, ids(1, 4, 2, 2)))
for f in 'index_add', 'index_copy':
    one = ', 1' if f == 'index_add' else ''
    case('qn_%s(%s, 1, ids(1, 3, 2), X(3, F64, 2, 2, 2, 1, 2)%s)' % (f, Y, one), lambda: getattr(torch, f)(t(Y), 1, ids(1, 3, 2), X(3, F64, 2, 2, 2, 1, 2)))
    case('qn_%s(X(1, F32, 4, 2), 0, %s, X(3, F32, 4, 2)%s)' % (f, far, one), lambda: getattr(torch, f)(X(1, F32, 4, 2), 0, t(far), X(3, F32, 4, 2)))
    case('qn_%s(X(1, F32, 4, 2), 0, ids(1, 4, 3), X(3, F32, 4, 2)%s)' % (f, one), lambda: getattr(torch, f)(X(1, F32, 4, 2), 0, ids(1, 4, 3), X(3, F32, 4, 2)))
case('in_place(X(1, F32, 4, 2), qn_index_add_(z, 0, ids(1, 4, 3), X(3, F32, 3, 2), -1))', lambda: X(1, F32, 4, 2).index_add_(0, ids(1, 4, 3), X(3, F32, 3, 2), alpha=-1))
case('in_place(X(1, F32, 4, 2), qn_index_add_(z, 0, %s, X(3, F32, 4, 2), -1))' % far, lambda: X(1, F32, 4, 2).index_add_(0, t(far), X(3, F32, 4, 2), alpha=-1))
case('index2(%s, ids(1, 2, 3), ids(2, 3, 2, 1))' % Y, lambda: t(Y)[ids(1, 2, 3), ids(2, 3, 2, 1)])
case('index2(X(1, F32, 2, 3), ids(1, 9, 3), ids(2, 3, 3))', lambda: X(1, F32, 2, 3)[ids(1, 9, 3), ids(2, 3, 3)])
case('index2(X(1, F32, 2, 3), qn_sub_number(ids(1, 2, 3), 2), ids(2, 3, 3))', lambda: X(1, F32, 2, 3)[ids(1, 2, 3) - 2, ids(2, 3, 3)])
case('index2(X(1, F32, 2, 3), qn_sub_number(ids(1, 2, 3), 3), ids(2, 3, 3))', lambda: X(1, F32, 2, 3)[ids(1, 2, 3) - 3, ids(2, 3, 3)])
case('index2(X(1, F32, 2, 3), ids(1, 2, 3), ids(2, 3, 2))', lambda: X(1, F32, 2, 3)[ids(1, 2, 3), ids(2, 3, 2)])
case('put1(X(1, F32, 4, 3), %s, X(2, F32, 3), false)' % far, lambda: X(1, F32, 4, 3).index_put((t(far),), X(2, F32, 3)))
case('put1(X(1, F32, 4, 3), ids(1, 4, 2), X(2, F32, 2), false)', lambda: X(1, F32, 4, 3).index_put((ids(1, 4, 2),), X(2, F32, 2)))
case('in_place(X(1, F32, 4, 3), qn_index_put_(z, (qn_tensor *[]){ids(1, 4, 2)}, 1, X(2, F32, 3), true))', lambda: X(1, F32, 4, 3).index_put_((ids(1, 4, 2),), X(2, F32, 3), True))
case('qn_embedding(X(1, F32, 4, 3), ids(1, 9, 2, 2))', lambda: F.embedding(ids(1, 9, 2, 2), X(1, F32, 4, 3)))
case('qn_embedding(X(1, F32, 4, 3), ids(1, 4, 2, 0))', lambda: F.embedding(ids(1, 4, 2, 0), X(1, F32, 4, 3)))
case('qn_embedding(X(1, F32, 4), ids(1, 4, 2))', lambda: F.embedding(ids(1, 4, 2), X(1, F32, 4)))
for d in 'F32', 'F64':
    T = 'X(1, %s, 6, 3)' % d
    for mode in 'sum', 'mean', 'max':
        for off in 'qn_arange(c, 0, 7, 3, QN_DTYPE_I64)', 'qn_arange(c, 0, 12, 4, QN_DTYPE_I64)':
            o = torch.arange(0, 7, 3) if ' 7,' in off else torch.arange(0, 12, 4)
            case('qn_embedding_bag(%s, ids(2, 6, 9), BAG(.mode = "%s", .offsets = %s))' % (T, mode, off), lambda: F.embedding_bag(ids(2, 6, 9), t(T), o, mode=mode))
        case('qn_embedding_bag(%s, ids(2, 6, 2, 4), BAG(.mode = "%s"))' % (T, mode), lambda: F.embedding_bag(ids(2, 6, 2, 4), t(T), mode=mode))
        case('qn_embedding_bag(%s, ids(2, 6, 3, 4), BAG(.mode = "%s", .has_padding_idx = true, .padding_idx = -4))' % (T, mode),
             lambda: F.embedding_bag(ids(2, 6, 3, 4), t(T), mode=mode, padding_idx=-4))
        case('qn_embedding_bag(%s, ids(2, 6, 9), BAG(.mode = "%s", .offsets = qn_arange(c, 0, 10, 3, QN_DTYPE_I64), .include_last_offset = true))' % (T, mode),
             lambda: F.embedding_bag(ids(2, 6, 9), t(T), torch.arange(0, 10, 3), mode=mode, include_last_offset=True))
        case('qn_embedding_bag(%s, ids(2, 6, 2, 4), BAG(.mode = "%s", .weights = X(3, %s, 2, 4)))' % (T, mode, d),
             lambda: F.embedding_bag(ids(2, 6, 2, 4), t(T), mode=mode, per_sample_weights=X(3, TYPES[d], 2, 4)))
T = X(1, F32, 6, 3)
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 2, 4), NULL)', lambda: F.embedding_bag(ids(2, 6, 2, 4), T))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 9, 2, 4), NULL)', lambda: F.embedding_bag(ids(2, 9, 2, 4), T))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 4), NULL)', lambda: F.embedding_bag(ids(2, 6, 4), T))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 2, 4), BAG(.mode = "least"))', lambda: F.embedding_bag(ids(2, 6, 2, 4), T, mode='least'))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 2, 4), BAG(.offsets = ids(0, 1, 1)))', lambda: F.embedding_bag(ids(2, 6, 2, 4), T, ids(0, 1, 1)))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 2, 4), BAG(.has_padding_idx = true, .padding_idx = 6))', lambda: F.embedding_bag(ids(2, 6, 2, 4), T, padding_idx=6))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 4), BAG(.offsets = qn_arange(c, 1, 3, 1, QN_DTYPE_I64)))', lambda: F.embedding_bag(ids(2, 6, 4), T, torch.arange(1, 3)))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 4), BAG(.offsets = qn_arange(c, 0, 10, 5, QN_DTYPE_I64)))', lambda: F.embedding_bag(ids(2, 6, 4), T, torch.arange(0, 10, 5)))
case('qn_embedding_bag(X(1, F32, 6, 3), ids(2, 6, 2, 4), BAG(.mode = "sum", .weights = X(3, F32, 8)))',
     lambda: F.embedding_bag(ids(2, 6, 2, 4), T, mode='sum', per_sample_weights=X(3, F32, 8)))
# ---- convolution and the like ----
for d in 'F32', 'F64':
    D = TYPES[d]
    case('qn_conv_transpose1d(X(1, %s, 2, 4), X(2, %s, 2, 3, 3), X(3, %s, 3), OPT(.stride = {2}, .padding = {1}))' % (d, d, d),
         lambda: F.conv_transpose1d(X(1, D, 2, 4), X(2, D, 2, 3, 3), X(3, D, 3), 2, 1))
    case('qn_conv_transpose3d(X(1, %s, 1, 2, 2, 2, 2), X(2, %s, 2, 1, 2, 2, 2), NULL, NULL)' % (d, d), lambda: F.conv_transpose3d(X(1, D, 1, 2, 2, 2, 2), X(2, D, 2, 1, 2, 2, 2)))
    case('qn_conv3d(X(1, %s, 2, 2, 3, 4, 3), X(2, %s, 2, 2, 2, 2, 2), X(3, %s, 2), OPT(.padding = {1, 0, 1}, .dilation = {1, 2, 1}))' % (d, d, d),
         lambda: F.conv3d(X(1, D, 2, 2, 3, 4, 3), X(2, D, 2, 2, 2, 2, 2), X(3, D, 2), 1, (1, 0, 1), (1, 2, 1)))
    case('qn_max_pool1d(X(1, %s, 2, 2, 7), POOL(.kernel = {3}, .dilation = {2}))' % d, lambda: F.max_pool1d(X(1, D, 2, 2, 7), 3, None, 0, 2))
    case('qn_max_pool3d(X(1, %s, 1, 2, 3, 4, 3), POOL(.kernel = {2, 2, 2}, .stride = {1, 2, 1}, .ceil_mode = true))' % d,
         lambda: F.max_pool3d(X(1, D, 1, 2, 3, 4, 3), 2, (1, 2, 1), 0, 1, True))
    case('qn_avg_pool1d(X(1, %s, 2, 7), POOL(.kernel = {3}, .stride = {2}, .padding = {1}))' % d, lambda: F.avg_pool1d(X(1, D, 2, 7), 3, 2, 1))
    case('qn_avg_pool3d(X(1, %s, 1, 2, 3, 4, 3), POOL(.kernel = {2, 2, 2}, .divisor = 3))' % d, lambda: F.avg_pool3d(X(1, D, 1, 2, 3, 4, 3), 2, divisor_override=3))
    for n, s in (1, '3'), (2, '2, 3'), (3, '2, 1, 2'):
        x = 'X(1, %s, 1, 2, %s)' % (d, ', '.join(['5', '4', '3'][:n]))
        size = eval('(%s,)' % s)
        case('qn_adaptive_avg_pool(%s, qn_shape_of(%s))' % (x, s), lambda: getattr(F, 'adaptive_avg_pool%dd' % n)(t(x), size))
        case('qn_adaptive_max_pool(%s, qn_shape_of(%s))' % (x, s), lambda: getattr(F, 'adaptive_max_pool%dd' % n)(t(x), size))
        for mode in 'nearest', ('linear', 'bilinear', 'trilinear')[n - 1]:
            case('qn_interpolate(%s, qn_shape_of(%s), "%s", false)' % (x, ', '.join(str(v + 3) for v in size), mode),
                 lambda: F.interpolate(t(x), [v + 3 for v in size], mode=mode))
for o in '.stride = {-1, 1}', '.groups = 3', '.padding = {-1, 0}', '.dilation = {5, 5}':
    k = dict(stride=(-1, 1)) if 'stride' in o else dict(groups=3) if 'groups' in o else dict(padding=(-1, 0)) if 'padding' in o else dict(dilation=5)
    case('qn_conv2d(X(1, F32, 1, 4, 4, 4), X(2, F32, 2, 4, 3, 3), NULL, OPT(%s))' % o, lambda: F.conv2d(X(1, F32, 1, 4, 4, 4), X(2, F32, 2, 4, 3, 3), **k))
case('qn_conv1d(X(1, F32, 4), X(2, F32, 2, 1, 3), NULL, NULL)', lambda: F.conv1d(X(1, F32, 4), X(2, F32, 2, 1, 3)))
case('qn_conv1d(X(1, F32, 1, 2, 5), X(2, F32, 3, 2, 3), X(3, F32, 2), NULL)', lambda: F.conv1d(X(1, F32, 1, 2, 5), X(2, F32, 3, 2, 3), X(3, F32, 2)))
case('qn_max_pool2d(X(1, F32, 1, 1, 2, 2), POOL(.kernel = {3, 3}))', lambda: F.max_pool2d(X(1, F32, 1, 1, 2, 2), 3))
case('qn_max_pool2d(X(1, F32, 1, 1, 4, 4), POOL(.kernel = {2, 2}, .padding = {2, 2}))', lambda: F.max_pool2d(X(1, F32, 1, 1, 4, 4), 2, None, 2))
case('qn_avg_pool2d(X(1, F32, 4), POOL(.kernel = {2, 2}))', lambda: F.avg_pool2d(X(1, F32, 4), 2))
case('qn_interpolate(X(1, F32, 1, 1, 2, 3), qn_shape_of(3, 5), "linear", false)', lambda: F.interpolate(X(1, F32, 1, 1, 2, 3), (3, 5), mode='linear'))
case('qn_interpolate(X(1, F32, 1, 1, 2, 3), qn_shape_of(3), "nearest", false)', lambda: F.interpolate(X(1, F32, 1, 1, 2, 3), (3,)))
# ---- written through a view, seen in its base ----
case('seen_in(X(1, F32, 2, 3), qn_fill_(qn_select(z, 1, 1), 7))', lambda: seen(X(1, F32, 2, 3), lambda x: x.select(1, 1).fill_(7)))
case('seen_in(X(1, F32, 2, 3), qn_add_(qn_transpose(z, 0, 1), X(2, F32, 3, 2)))', lambda: seen(X(1, F32, 2, 3), lambda x: x.t().add_(X(2, F32, 3, 2))))
case('seen_in(X(1, I32, 2, 7), qn_neg_(qn_slice(z, 1, 1, QN_END, 3)))', lambda: seen(X(1, I32, 2, 7), lambda x: x[:, 1::3].neg_()))
case('seen_in(X(1, F32, 6), qn_copy_(qn_narrow(z, 0, 1, 5), qn_narrow(z, 0, 0, 5)))', lambda: seen(X(1, F32, 6), lambda x: x[1:].copy_(x[:5].clone())))
case('seen_in(X(1, F32, 2, 3), qn_mul_number_(qn_view_as(z, qn_shape_of(3, 2)), 2))', lambda: seen(X(1, F32, 2, 3), lambda x: x.view(3, 2).mul_(2)))




end()
