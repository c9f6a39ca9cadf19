#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fourth table behind tests/unit/array/parity.c: corners that no other table reaches, and gradients there.
Usage: parity_edges.py > tests/unit/array/parity_edges.inc   (needs torch)"""
import warnings

import torch
import torch.nn.functional as F
from parity_rows import *

warnings.simplefilter('ignore')


def grad(x, fn):
    """The gradient of the sum of fn(x) to x."""
    x = x.detach().requires_grad_()
    fn(x).sum().backward()
    return x.grad


# ---- linear: weights and biases of any strides ----
W = 'X(2, F32, 3, 4)'
FORMS = (('qn_transpose(%s, 0, 1)' % W, lambda w: w.t(), 3, 4), ('qn_slice(%s, 1, 0, 4, 2)' % W, lambda w: w[:, ::2], 2, 3),
         ('flip(%s, 0)' % W, lambda w: w.flip(0), 4, 3), ('qn_expand(qn_narrow(%s, 1, 2, 1), qn_shape_of(3, 5))' % W, lambda w: w[:, 2:3].expand(3, 5), 5, 3))
for text, form, k, m in FORMS:
    for bias in False, True:
        b = 'qn_slice(X(3, F32, %d), 0, 0, %d, 2)' % (2 * m, 2 * m) if bias else 'NULL'
        case('qn_linear(X(1, F32, 2, %d), %s, %s)' % (k, text, b), lambda: F.linear(X(1, F32, 2, k), form(X(2, F32, 3, 4)), X(3, F32, 2 * m)[::2] if bias else None))
    case('gradient(%s, qn_linear(X(1, F32, 2, %d), %s, NULL))' % (W, k, text.replace(W, 'z')), lambda: grad(X(2, F32, 3, 4), lambda w: F.linear(X(1, F32, 2, k), form(w))))
    case('gradient(X(1, F32, 2, %d), qn_linear(z, %s, NULL))' % (k, text), lambda: grad(X(1, F32, 2, k), lambda x: F.linear(x, form(X(2, F32, 3, 4)))))
    case('qn_linear(X(1, F32, 2, %d), %s, NULL)' % (k, text.replace('F32', 'F16')), lambda: F.linear(X(1, F32, 2, k), form(X(2, F16, 3, 4)).float()))
case('gradient(X(3, F32, 1), qn_linear(X(1, F32, 2, 3), X(2, F32, 4, 3), qn_expand(z, qn_shape_of(4))))',
     lambda: grad(X(3, F32, 1), lambda b: F.linear(X(1, F32, 2, 3), X(2, F32, 4, 3), b.expand(4))))
# ---- numbers beside 16 bits ----
HUGE = (('mul', 0.1), ('mul', 70000.0), ('mul', 0.998), ('mul', float('inf')), ('div', 3.14159), ('div', 1e6), ('div', 0.1), ('div', 0.0), ('floor_divide', 0.1),
        ('floor_divide', 0.3), ('trunc_divide', 0.1), ('trunc_divide', 70000.0), ('add', 0.1), ('sub', 0.998), ('remainder', 0.1), ('fmod', 0.3), ('lt', 0.1))


def of(name, a, b):
    if name == 'trunc_divide':
        return torch.div(a, b, rounding_mode='trunc')
    return getattr(torch, name)(a, b)


def exact(text, fn):
    """Every bit of what has 16."""
    case('qn_to(%s, QN_DTYPE_F64)' % text, lambda: fn().double())


for d in 'F16', 'BF16':
    D = TYPES[d]
    for name, v in HUGE:
        n = 'INFINITY' if v == float('inf') else repr(v)
        for x, y in ('X(1, %s, 2, 3)', X(1, D, 2, 3)), ('X(1, %s, 1)', X(1, D, 1)), ('qn_select(X(1, %s, 3), 0, 1)', X(1, D, 3)[1]):
            exact('qn_%s_number(%s, %s)' % (name, x % d, n), lambda: of(name, y, v))
        if name != 'lt':
            exact('in_place(X(1, %s, 5), qn_%s_number_(z, %s))' % (d, name, n), lambda: of(name, X(1, D, 5), v))
        for s in 'F32', 'F64':
            one = 'qn_scalar(c, %s, QN_DTYPE_%s)' % (n, s)
            exact('qn_%s(X(1, %s, 2, 3), %s)' % (name, d, one), lambda: of(name, X(1, D, 2, 3), torch.tensor(v, dtype=TYPES[s])))
            exact('qn_%s(%s, X(1, %s, 2, 3))' % (name, one, d), lambda: of(name, torch.tensor(v, dtype=TYPES[s]), X(1, D, 2, 3)))
        exact('qn_%s(X(1, %s, 2, 3), qn_scalar(c, 17, QN_DTYPE_I64))' % (name, d), lambda: of(name, X(1, D, 2, 3), torch.tensor(17)))
        if name in ('mul', 'div'):
            exact('gradient(X(1, %s, 3), qn_mul(qn_%s_number(z, %s), X(2, %s, 3)))' % (d, name, n, d), lambda: grad(X(1, D, 3), lambda x: of(name, x, v) * X(2, D, 3)))
            exact('gradient(X(1, %s, 3), qn_%s(z, qn_scalar(c, %s, F32)))' % (d, name, n), lambda: grad(X(1, D, 3), lambda x: of(name, x, torch.tensor(v))))
            case('gradient(qn_scalar(c, %s, F32), qn_%s(X(1, %s, 3), z))' % (n, name, d), lambda: grad(torch.tensor(v), lambda s: of(name, X(1, D, 3), s)))
# ---- linear: a bias, and what is rounded ----
for d in 'F64', 'F16', 'BF16':
    D = TYPES[d]
    for x, w, b in (('2, 3', '1, 3', '2'), ('2, 3', '1, 3', '1'), ('2, 3', '4, 3', '1'), ('2, 3', '4, 3', '3'), ('3', '4, 3', '4'), ('2, 3', '4, 3', '4'), ('2, 1, 3', '4, 3', '4')):
        text = 'X(1, %s, %s), X(2, %s, %s), X(3, %s, %s)' % (d, x, d, w, d, b)
        case('qn_linear(%s)' % text, lambda: F.linear(t('X(1, %s, %s)' % (d, x)), t('X(2, %s, %s)' % (d, w)), t('X(3, %s, %s)' % (d, b))))
    case('gradient(X(3, %s, 4), qn_linear(X(1, %s, 2, 3), X(2, %s, 4, 3), z))' % (d, d, d), lambda: grad(X(3, D, 4), lambda b: F.linear(X(1, D, 2, 3), X(2, D, 4, 3), b)))
    case('gradient(X(1, %s, 3), qn_linear(z, X(2, %s, 4, 3), X(3, %s, 4)))' % (d, d, d), lambda: grad(X(1, D, 3), lambda x: F.linear(x, X(2, D, 4, 3), X(3, D, 4))))
    if d != 'F64':
        exact('qn_linear(X(1, %s, 5, 40), X(2, %s, 6, 40), X(3, %s, 6))' % (d, d, d), lambda: F.linear(X(1, D, 5, 40), X(2, D, 6, 40), X(3, D, 6)))
for x in '3', '2, 3', '2, 1, 3':
    for b in '1', '2', '4', '1, 4', '2, 4', '2, 1', '2, 1, 4':
        if (x, b) == ('2, 1, 3', '2, 1'):  # PyTorch folds x and stretches this to rows, by accident
            continue
        case('qn_linear(X(1, F64, %s), X(2, F64, 4, 3), X(3, F64, %s))' % (x, b), lambda: F.linear(t('X(1, F64, %s)' % x), X(2, F64, 4, 3), t('X(3, F64, %s)' % b)))
# ---- joining what is empty ----
for x in '0, 3', '2, 0', '0', '2, 0, 3':
    X0 = t('X(1, F32, %s)' % x)
    for dim in range(X0.dim()):
        case('gradient(X(1, F32, %s), cat2(z, z, %d))' % (x, dim), lambda: grad(X0, lambda z: torch.cat((z, z), dim)))
        case('gradient(X(1, F32, %s), qn_roll(z, 1, %d))' % (x, dim), lambda: grad(X0, lambda z: z.roll(1, dim)))
    for dim in range(X0.dim() + 1):
        case('gradient(X(1, F32, %s), stack2(z, z, %d))' % (x, dim), lambda: grad(X0, lambda z: torch.stack((z, z), dim)))
for other in '2, 3', '0, 3':
    Y = t('X(2, F32, %s)' % other)
    for x in '0, 3', '0':
        X0 = t('X(1, F32, %s)' % x)
        case('cat2(qn_requires_grad_(X(1, F32, %s), true), X(2, F32, %s), 0)' % (x, other), lambda: torch.cat((X0, Y)))
        case('gradient(X(1, F32, %s), cat2(z, X(2, F32, %s), 0))' % (x, other), lambda: grad(X0, lambda z: torch.cat((z, Y))))
        case('gradient(X(1, F32, %s), cat2(X(2, F32, %s), z, 0))' % (x, other), lambda: grad(X0, lambda z: torch.cat((Y, z))))
        case('gradient(X(1, F16, %s), cat2(X(2, F32, %s), z, 0))' % (x, other), lambda: grad(X0.half(), lambda z: torch.cat((Y, z))))
        case('gradient(X(2, F32, %s), cat2(z, X(1, F32, %s), 0))' % (other, x), lambda: grad(Y, lambda z: torch.cat((z, X0))))
case('gradient(X(1, F32, 0), cat2(z, X(2, F32, 2, 3), 1))', lambda: grad(X(1, F32, 0), lambda z: torch.cat((z, X(2, F32, 2, 3)), 1)))
# ---- rms_norm: eps in double ----
for eps in 1e-2, 1e-5, 0.3, 1e-40:
    for d in 'F64', 'F32':
        D = TYPES[d]
        case('qn_rms_norm(X(1, %s, 2, 4), X(2, %s, 4), %r)' % (d, d, eps), lambda: F.rms_norm(X(1, D, 2, 4), (4,), X(2, D, 4), eps))
        case('gradient(X(1, %s, 2, 4), qn_rms_norm(z, X(2, %s, 4), %r))' % (d, d, eps), lambda: grad(X(1, D, 2, 4), lambda x: F.rms_norm(x, (4,), X(2, D, 4), eps)))
# ---- conv_transpose: output padding up to the dilation ----
for x, w, s, p, o, dil in (('2, 4', '2, 3, 2', 1, 0, 2, 3), ('2, 4', '2, 3, 2', 2, 1, 2, 3), ('2, 4', '2, 3, 3', 1, 2, 1, 3), ('1, 2, 4', '2, 3, 2', 2, 0, 1, 3), ('2, 4', '2, 3, 2', 2, 1, 3, 3)):
    options = 'OPT(.stride = {%d}, .padding = {%d}, .output_padding = {%d}, .dilation = {%d})' % (s, p, o, dil)
    for d in 'F32', 'F64':
        D = TYPES[d]
        x_, w_ = 'X(1, %s, %s)' % (d, x), 'X(2, %s, %s)' % (d, w)
        case('qn_conv_transpose1d(%s, %s, X(3, %s, 3), %s)' % (x_, w_, d, options), lambda: F.conv_transpose1d(t(x_), t(w_), X(3, D, 3), s, p, o, 1, dil))
        case('gradient(%s, qn_square(qn_conv_transpose1d(z, %s, NULL, %s)))' % (x_, w_, options), lambda: grad(t(x_), lambda z: F.conv_transpose1d(z, t(w_), None, s, p, o, 1, dil) ** 2))
        case('gradient(%s, qn_square(qn_conv_transpose1d(%s, z, X(3, %s, 3), %s)))' % (w_, x_, d, options), lambda: grad(t(w_), lambda z: F.conv_transpose1d(t(x_), z, X(3, D, 3), s, p, o, 1, dil) ** 2))
        case('gradient(X(3, %s, 3), qn_square(qn_conv_transpose1d(%s, %s, z, %s)))' % (d, x_, w_, options), lambda: grad(X(3, D, 3), lambda z: F.conv_transpose1d(t(x_), t(w_), z, s, p, o, 1, dil) ** 2))
    case('qn_conv_transpose1d(X(1, F32, %s), X(2, F32, %s), X(3, F32, 2), %s)' % (x, w, options), lambda: F.conv_transpose1d(t('X(1, F32, %s)' % x), t('X(2, F32, %s)' % w), X(3, F32, 2), s, p, o, 1, dil))
case('qn_conv_transpose2d(X(1, F32, 1, 4, 2, 3), X(2, F32, 4, 1, 2, 2), X(3, F32, 2), OPT(.stride = {2, 1}, .padding = {1, 1}, .output_padding = {1, 1}, .dilation = {1, 2}, .groups = 2))',
     lambda: F.conv_transpose2d(X(1, F32, 1, 4, 2, 3), X(2, F32, 4, 1, 2, 2), X(3, F32, 2), (2, 1), (1, 1), (1, 1), 2, (1, 2)))
# ---- cross_entropy: logits that are infinite ----
for d in 'F32', 'F64':
    D = TYPES[d]
    for at, v in ((1, math.inf), (0, math.inf), (1, -math.inf), (1, math.nan)):
        n = 'NAN' if math.isnan(v) else 'INFINITY' if v > 0 else '-INFINITY'
        for target in 0, 1:
            for smooth in 0, 0.1:
                logits = torch.zeros(1, 2, dtype=D)
                logits[0, at] = v
                x = 'qn_from_data(c, (double[]){%s, %s}, qn_shape_of(1, 2), QN_DTYPE_F64)' % (n if at == 0 else '0', n if at == 1 else '0')
                x = 'qn_to(%s, QN_DTYPE_%s)' % (x, d)
                ce = 'qn_cross_entropy(z, qn_full(c, qn_shape_of(1), %d, QN_DTYPE_I64), CE(.label_smoothing = %r))' % (target, smooth)
                case(ce.replace('z', x, 1), lambda: F.cross_entropy(logits, torch.tensor([target]), label_smoothing=smooth))
                case('gradient(%s, %s)' % (x, ce), lambda: grad(logits, lambda z: F.cross_entropy(z, torch.tensor([target]), label_smoothing=smooth)))
# ---- clamp: bounds that are NaN ----
BOUNDS = ('NAN', '1'), ('0', 'NAN'), ('NAN', 'NAN')
for low, high in BOUNDS:
    a, b = (math.nan if v == 'NAN' else float(v) for v in (low, high))
    for d in 'F32', 'F64', 'F16', 'BF16', 'I32', 'BOOL':
        D = TYPES[d]
        case('qn_clamp(X(1, %s, 4), %s, %s)' % (d, low, high), lambda: X(1, D, 4).clamp(a, b))
        case('in_place(X(1, %s, 4), qn_clamp_(z, %s, %s))' % (d, low, high), lambda: X(1, D, 4).clamp_(a, b))
    case('gradient(X(1, F32, 4), qn_clamp(z, %s, %s))' % (low, high), lambda: grad(X(1, F32, 4), lambda x: x.clamp(a, b)))
# ---- pad: circular, where something is cut off ----
for before, after in (-1, 1), (2, -1), (-1, -1), (1, -2), (-2, 2), (-3, 1), (1, -3), (-1, 3), (-1, 0), (0, -2):
    case('pads(X(1, F32, 1, 1, 4), "circular", %d, %d)' % (before, after), lambda: F.pad(X(1, F32, 1, 1, 4), (before, after), 'circular'))
    case('gradient(X(1, F32, 1, 1, 4), qn_square(pads(z, "circular", %d, %d)))' % (before, after), lambda: grad(X(1, F32, 1, 1, 4), lambda x: F.pad(x, (before, after), 'circular') ** 2))
    case('pads(X(1, F32, 1, 1, 3, 4), "circular", %d, %d, -1, 1)' % (before, after), lambda: F.pad(X(1, F32, 1, 1, 3, 4), (before, after, -1, 1), 'circular'))
for before, after in (-4, 0), (0, -4), (-1, -3):
    case('pads(X(1, F32, 1, 1, 4), "circular", %d, %d)' % (before, after), lambda: F.pad(X(1, F32, 1, 1, 4), (before, after), 'circular'))
for before, after in (-1, 4), (-3, 2), (1, -5), (-3, -2):
    case('pads(X(1, F32, 1, 1, 4), "circular", %d, %d)' % (before, after), lambda: F.pad(X(1, F32, 1, 1, 4), (before, after), 'circular'))
# ---- BOOL ----
for name in 'square', 'sign':
    for x in 'X(1, BOOL, 2, 3)', 'X(1, BOOL, 0)', 'X(1, BOOL, 1)':
        case('qn_%s(%s)' % (name, x), lambda: getattr(torch, name)(t(x)))
    case('in_place(X(1, BOOL, 4), qn_%s_(z))' % name, lambda: getattr(X(1, BOOL, 4), name + '_')())
    for d in ('BOOL', 'I64', 'I32', 'F32') if name == 'square' else ('BOOL',):
        case('in_place(X(9, %s, 4), qn_%s_out(z, X(1, BOOL, 4)))' % (d, name), lambda: getattr(torch, name)(X(1, BOOL, 4), out=X(9, TYPES[d], 4)))
end()
