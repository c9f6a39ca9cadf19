#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table behind tests/unit/array/parity.c: calls of the tensor functions beside what PyTorch gives for the same calls: dtype, shape,
strides of views, values, or that the call is an error. Inputs come from a formula on both sides.
Usage: parity.py > tests/unit/array/parity.inc   (needs torch)"""
import math
import torch
import torch.nn.functional as F
from parity_rows import *


def rope(x, pos, base=10000, neox=False, n_rot=None, first=False, freq=1, scale=1, factors=None):
    """Pair i of the first n_rot elements of x [.., n, heads, d], or [.., heads, n, d], by pos * base^(-2i / n_rot)."""
    n_rot = n_rot or x.shape[-1]
    turn = freq * base ** (-torch.arange(0, n_rot, 2).double() / n_rot)
    angle = pos.double()[..., None] * (turn if factors is None else turn / factors.double())
    c, s = angle.cos() * scale, angle.sin() * scale
    if not first:
        c, s = c.unsqueeze(-2), s.unsqueeze(-2)
    y = x.double()
    y, rest = y[..., :n_rot], y[..., n_rot:]
    a, b = (y[..., :n_rot // 2], y[..., n_rot // 2:]) if neox else (y[..., 0::2], y[..., 1::2])
    a, b = a * c - b * s, b * c + a * s
    y = torch.cat([a, b], -1) if neox else torch.stack([a, b], -1).flatten(-2)
    return torch.cat([y, rest], -1).to(x.dtype)


REAL = 'X(1, F32, 2, 3)', 'X(1, F64, 3)', 'X(2, I32, 4)', 'X(1, BF16, 3)'
# ---- one source ----
for name in ('neg abs sign square floor ceil round trunc frac exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh '
             'tanh asinh acosh atanh erf sigmoid relu logical_not isnan isinf isfinite').split():
    for x in REAL[:3]:
        if name == 'frac' and 'I32' in x:
            continue
        case('qn_%s(%s)' % (name, x), lambda: getattr(torch, name)(t(x)))
for x in REAL[:2]:
    case('qn_silu(%s)' % x, lambda: F.silu(t(x)))
for x in 'X(2, I32, 4)', 'X(2, BOOL, 4)', 'X(2, U8, 4)', 'X(1, F32, 2)':
    case('qn_bitwise_not(%s)' % x, lambda: torch.bitwise_not(t(x)))
# ---- two sources ----
TWO = [('X(1, F32, 2, 3)', 'X(2, F32, 3)'), ('X(1, F32, 2, 1)', 'X(2, F64, 3)'), ('X(1, I32, 3)', 'X(2, F32, 3)'),
       ('X(1, I64, 2, 2)', 'X(3, I16, 2)'), ('X(1, F32, 2)', 'X(2, F32, 3)')]
for name, theirs in (('add', 0), ('sub', 0), ('mul', 0), ('div', 0), ('floor_divide', 0), ('remainder', 0), ('fmod', 0), ('pow', 0), ('maximum', 0),
                     ('minimum', 0), ('atan2', 0), ('eq', 0), ('ne', 0), ('lt', 0), ('le', 0), ('gt', 0), ('ge', 0), ('logical_and', 0),
                     ('logical_or', 0), ('logical_xor', 0)):
    for a, b in TWO:
        if name in ('floor_divide', 'remainder', 'fmod', 'pow') and 'I16' in b:
            b = 'X(3, U8, 1)' if name == 'pow' else 'qn_full(c, QN_SCALAR, 2, QN_DTYPE_I64)'
            case('qn_%s(%s, %s)' % (name, a, b), lambda: getattr(torch, name)(t(a), t(b) if name == 'pow' else torch.tensor(2)))
            continue
        case('qn_%s(%s, %s)' % (name, a, b), lambda: getattr(torch, name)(t(a), t(b)))
for name in 'bitwise_and bitwise_or bitwise_xor'.split():
    for a, b in ('X(1, I32, 3)', 'X(2, I32, 3)'), ('X(1, BOOL, 3)', 'X(2, BOOL, 3)'), ('X(1, U8, 3)', 'X(2, I8, 3)'), ('X(1, F32, 3)', 'X(2, I32, 3)'):
        case('qn_%s(%s, %s)' % (name, a, b), lambda: getattr(torch, name)(t(a), t(b)))
# ---- promotion: every pair of types ----
for a in NAMES.values():
    for b in NAMES.values():
        case('qn_add(X(1, %s, 2), X(2, %s, 2))' % (a, b), lambda: X(1, TYPES[a], 2) + X(2, TYPES[b], 2))
for a in 'F32', 'F64', 'I32', 'U8', 'BF16':
    for v in 2, 2.5:
        case('qn_add_number(X(1, %s, 2), %s)' % (a, v), lambda: X(1, TYPES[a], 2) + v)
        case('qn_div_number(X(1, %s, 2), %s)' % (a, v), lambda: X(1, TYPES[a], 2) / v)
# ---- reductions ----
DIMS = [('QN_ALL', None), ('QN_DIMS(0)', (0,)), ('QN_DIMS(-1)', (-1,)), ('QN_DIMS(0, 2)', (0, 2)), ('QN_DIMS(3)', (3,))]
for name in 'sum mean amax amin logsumexp'.split():
    for x in 'X(1, F32, 2, 3, 2)', 'X(1, F64, 2, 3, 2)', 'X(1, I32, 2, 3, 2)':
        for c, d in DIMS:
            for keep in (False, True):
                if keep and 'F32' not in x:
                    continue
                every = d if d is not None else (0, 1, 2)
                case('qn_%s(%s, %s, %s)' % (name, x, c, 'true' if keep else 'false'), lambda: getattr(torch, name)(t(x), every, keep))
for c, d in DIMS:
    every = d if d is not None else (0, 1, 2)
    for corr in 0, 1:
        case('qn_var(X(1, F64, 2, 3, 2), %s, %d, false)' % (c, corr), lambda: torch.var(X(1, F64, 2, 3, 2), every, correction=corr))
        case('qn_std(X(1, F32, 2, 3, 2), %s, %d, true)' % (c, corr), lambda: torch.std(X(1, F32, 2, 3, 2), every, correction=corr, keepdim=True))
    for p, cp in (1, '1'), (2, '2'), (3, '3'), (math.inf, 'INFINITY'), (0, '0'):
        case('qn_norm(X(1, F64, 2, 3, 2), %s, %s, false)' % (cp, c), lambda: torch.linalg.vector_norm(X(1, F64, 2, 3, 2), p, every))
for x in 'X(1, F32, 2, 3)', 'X(1, I32, 2, 3)', 'X(1, F64, 2, 3)':
    for d in 0, 1, -1, 2:
        for name in 'cumsum cumprod softmax log_softmax prod argmax argmin any all'.split():
            if name in ('cumsum', 'cumprod', 'softmax', 'log_softmax'):
                c = 'qn_%s(%s, %d)' % (name, x, d)
            elif name in ('argmax', 'argmin'):
                c = 'qn_%s(%s, %d, false)' % (name, x, d)
            else:
                c = 'qn_%s(%s, QN_DIMS(%d), false)' % (name, x, d)
            case(c, lambda: getattr(torch, name)(t(x), d))
        case('qn_max(%s, %d, true, NULL)' % (x, d), lambda: torch.max(t(x), d, True)[0])
        case('qn_min(%s, %d, false, NULL)' % (x, d), lambda: torch.min(t(x), d)[0])
        case('qn_sort(%s, %d, true, NULL)' % (x, d), lambda: torch.sort(t(x), d, True)[0])
        case('qn_argsort(%s, %d, false)' % (x, d), lambda: torch.argsort(t(x), dim=d, stable=True))
        case('qn_topk(%s, 2, %d, true, NULL)' % (x, d), lambda: torch.topk(t(x), 2, d)[0])
# ---- products ----
for a, b in ('2, 3', '3, 4'), ('3', '3'), ('3', '3, 2'), ('2, 3', '3'), ('2, 1, 2, 3', '2, 3, 2'), ('3', '2, 3, 2'), ('2, 2, 3', '3'), ('4, 3', '5, 2'), ('2, 3', '4'):
    for d in 'F32', 'F64', 'I64':
        A, B = 'X(1, %s, %s)' % (d, a), 'X(2, %s, %s)' % (d, b)
        case('qn_matmul(%s, %s)' % (A, B), lambda: t(A) @ t(B))
    case('qn_mm(%s, %s)' % (A, B), lambda: torch.mm(t(A), t(B)))
    case('qn_bmm(%s, %s)' % (A, B), lambda: torch.bmm(t(A), t(B)))
case('qn_bmm(X(1, F64, 2, 2, 3), X(2, F64, 2, 3, 2))', lambda: torch.bmm(X(1, F64, 2, 2, 3), X(2, F64, 2, 3, 2)))
for shape in '2, 4', '4', '2, 1', '3':
    case('qn_addmm(X(3, F64, %s), X(1, F64, 2, 3), X(2, F64, 3, 4), 0.5, -2)' % shape,
         lambda: torch.addmm(t('X(3, F64, %s)' % shape), X(1, F64, 2, 3), X(2, F64, 3, 4), beta=0.5, alpha=-2))
case('qn_linear(X(1, F32, 2, 3), X(2, F32, 4, 3), X(3, F32, 4))', lambda: F.linear(X(1, F32, 2, 3), X(2, F32, 4, 3), X(3, F32, 4)))
case('qn_linear(X(1, F64, 2, 3), X(2, F64, 4, 3), X(3, F64, 4))', lambda: F.linear(X(1, F64, 2, 3), X(2, F64, 4, 3), X(3, F64, 4)))
case('qn_linear(X(1, F64, 2, 3), X(2, F64, 4, 2), NULL)', lambda: F.linear(X(1, F64, 2, 3), X(2, F64, 4, 2)))
# ---- with options ----
for d in 'F32', 'F64':
    x = 'X(1, %s, 2, 3)' % d
    case('qn_gelu(%s, false)' % x, lambda: F.gelu(t(x)))
    case('qn_gelu(%s, true)' % x, lambda: F.gelu(t(x), approximate='tanh'))
    case('qn_elu(%s, 0.5)' % x, lambda: F.elu(t(x), 0.5))
    case('qn_leaky_relu(%s, 0.25)' % x, lambda: F.leaky_relu(t(x), 0.25))
    case('qn_softplus(%s, 2, 1)' % x, lambda: F.softplus(t(x), 2, 1))
    case('qn_clamp(%s, -0.5, 1)' % x, lambda: torch.clamp(t(x), -0.5, 1))
    case('qn_lerp(%s, X(2, %s, 3), X(3, %s, 2, 1))' % (x, d, d), lambda: torch.lerp(t(x), X(2, TYPES[d], 3), X(3, TYPES[d], 2, 1)))
    case('qn_lerp_number(%s, X(2, %s, 3), 0.25)' % (x, d), lambda: torch.lerp(t(x), X(2, TYPES[d], 3), 0.25))
    case('qn_addcmul(%s, X(2, %s, 3), X(3, %s, 3), 0.5)' % (x, d, d), lambda: torch.addcmul(t(x), X(2, TYPES[d], 3), X(3, TYPES[d], 3), value=0.5))
    case('qn_masked_fill(%s, X(1, BOOL, 3), 7)' % x, lambda: t(x).masked_fill(X(1, BOOL, 3), 7))
    case('qn_where(X(1, BOOL, 3), %s, X(2, I32, 3))' % x, lambda: torch.where(X(1, BOOL, 3), t(x), X(2, I32, 3)))
case('qn_clamp(X(1, I32, 5), -1, 2)', lambda: torch.clamp(X(1, I32, 5), -1, 2))
case('qn_gelu(X(1, I32, 3), false)', lambda: F.gelu(X(1, I32, 3)))
case('qn_masked_fill(X(1, F32, 3), X(1, I32, 3), 1)', lambda: X(1, F32, 3).masked_fill(X(1, I32, 3), 1))
# ---- joining, rearranging ----
for d in 'F32', 'I64', 'BOOL', 'F16':
    a, b = 'X(1, %s, 2, 3)' % d, 'X(2, F32, 2, 3)'
    for dim in 0, 1, -1, 2, -3:
        case('cat2(%s, %s, %d)' % (a, b, dim), lambda: torch.cat([t(a), t(b)], dim))
        case('stack2(%s, %s, %d)' % (a, a, dim), lambda: torch.stack([t(a), t(a)], dim))
        case('qn_roll(%s, 2, %d)' % (a, dim), lambda: torch.roll(t(a), 2, dim))
        case('qn_flip(%s, QN_DIMS(%d))' % (a, dim), lambda: torch.flip(t(a), [dim]), True)
    case('cat2(%s, X(2, F32, 2, 2), 0)' % a, lambda: torch.cat([t(a), X(2, F32, 2, 2)], 0))
    case('qn_repeat(%s, qn_shape_of(2, 1, 2))' % a, lambda: t(a).repeat(2, 1, 2))
    case('qn_repeat(%s, qn_shape_of(2))' % a, lambda: t(a).repeat(2))
    for k in -1, 0, 1:
        case('qn_tril(%s, %d)' % (a, k), lambda: torch.tril(t(a), k))
        case('qn_triu(%s, %d)' % (a, k), lambda: torch.triu(t(a), k))
        case('qn_diagonal(%s, %d, 0, 1)' % (a, k), lambda: torch.diagonal(t(a), k), True)
for mode in 'constant', 'reflect', 'replicate', 'circular':
    for pads in (1, 2), (2, 0, 1, 1), (1, 9):
        case('pads(X(1, F32, 1, 2, 3, 4), "%s", %s)' % (mode, ', '.join(map(str, pads))), lambda: F.pad(X(1, F32, 1, 2, 3, 4), pads, mode)
             if len(pads) == 4 or mode == 'constant' else F.pad(X(1, F32, 2, 3, 4).reshape(2, 3, 4), pads, mode).reshape(1, 2, 3, -1))
# ---- views ----
case('qn_transpose(X(1, F32, 2, 3), 0, 1)', lambda: X(1, F32, 2, 3).transpose(0, 1), True)
case('qn_permute_to(X(1, F32, 2, 3, 4), 2, 0, 1)', lambda: X(1, F32, 2, 3, 4).permute(2, 0, 1), True)
case('qn_expand(X(1, F32, 2, 1), qn_shape_of(3, -1, 4))', lambda: X(1, F32, 2, 1).expand(3, -1, 4), True)
case('qn_slice(X(1, F32, 7), 0, 1, QN_END, 2)', lambda: X(1, F32, 7)[1::2], True)
case('qn_select(X(1, F32, 2, 3), 1, -1)', lambda: X(1, F32, 2, 3).select(1, -1), True)
case('qn_view_as(qn_transpose(X(1, F32, 2, 3), 0, 1), qn_shape_of(6))', lambda: X(1, F32, 2, 3).t().view(6))
case('qn_narrow(X(1, F32, 5), 0, 3, 3)', lambda: X(1, F32, 5).narrow(0, 3, 3))
# ---- indexing ----
for d in 'F32', 'I32', 'F64':
    x = 'X(1, %s, 4, 3)' % d
    case('qn_gather(%s, 0, ids(2, 4, 2, 3))' % x, lambda: torch.gather(t(x), 0, ids(2, 4, 2, 3)))
    case('qn_gather(%s, 1, ids(2, 3, 4, 5))' % x, lambda: torch.gather(t(x), 1, ids(2, 3, 4, 5)))
    case('qn_scatter_add(%s, 0, ids(2, 4, 5, 3), X(3, %s, 5, 3))' % (x, d), lambda: t(x).scatter_add(0, ids(2, 4, 5, 3), X(3, TYPES[d], 5, 3)))
    case('qn_index_select(%s, 1, ids(2, 3, 5))' % x, lambda: t(x).index_select(1, ids(2, 3, 5)))
    case('qn_index_add(%s, 0, ids(2, 4, 5), X(3, %s, 5, 3), 2)' % (x, d), lambda: t(x).index_add(0, ids(2, 4, 5), X(3, TYPES[d], 5, 3), alpha=2))
    case('index2(%s, ids(1, 4, 2, 1), ids(2, 3, 3))' % x, lambda: t(x)[ids(1, 4, 2, 1), ids(2, 3, 3)])
    case('put1(%s, ids(1, 4, 2), X(2, %s, 3), true)' % (x, d), lambda: t(x).index_put((ids(1, 4, 2),), X(2, TYPES[d], 3), True))
    case('qn_embedding(%s, ids(1, 4, 2, 2))' % x, lambda: F.embedding(ids(1, 4, 2, 2), t(x)))
case('qn_gather(X(1, F32, 2, 2), 0, X(1, F32, 2, 2))', lambda: torch.gather(X(1, F32, 2, 2), 0, X(1, F32, 2, 2)))
# ---- convolution and the like ----
for d in 'F32', 'F64':
    D = TYPES[d]
    case('qn_conv1d(X(1, %s, 2, 2, 5), X(2, %s, 3, 2, 3), X(3, %s, 3), NULL)' % (d, d, d), lambda: F.conv1d(X(1, D, 2, 2, 5), X(2, D, 3, 2, 3), X(3, D, 3)))
    case('qn_conv2d(X(1, %s, 4, 4, 5), X(2, %s, 2, 2, 3, 2), NULL, OPT(.stride = {2, 1}, .padding = {1, 1}, .groups = 2))' % (d, d),
         lambda: F.conv2d(X(1, D, 4, 4, 5), X(2, D, 2, 2, 3, 2), None, (2, 1), (1, 1), 1, 2))
    case('qn_conv_transpose2d(X(1, %s, 1, 2, 2, 3), X(2, %s, 2, 2, 2, 2), NULL, OPT(.stride = {2, 2}, .output_padding = {1, 0}))' % (d, d),
         lambda: F.conv_transpose2d(X(1, D, 1, 2, 2, 3), X(2, D, 2, 2, 2, 2), None, 2, 0, (1, 0)))
    case('qn_conv3d(X(1, %s, 1, 1, 2, 3, 3), X(2, %s, 1, 1, 2, 2, 2), NULL, NULL)' % (d, d), lambda: F.conv3d(X(1, D, 1, 1, 2, 3, 3), X(2, D, 1, 1, 2, 2, 2)))
    case('qn_max_pool2d(X(1, %s, 1, 2, 4, 5), POOL(.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 1}))' % d,
         lambda: F.max_pool2d(X(1, D, 1, 2, 4, 5), (2, 3), (1, 2), 1))
    case('qn_avg_pool2d(X(1, %s, 2, 4, 5), POOL(.kernel = {2, 2}, .padding = {1, 1}, .exclude_pad = true, .ceil_mode = true))' % d,
         lambda: F.avg_pool2d(X(1, D, 2, 4, 5), 2, None, 1, True, False))
    case('qn_adaptive_avg_pool(X(1, %s, 1, 2, 5, 4), qn_shape_of(3, 2))' % d, lambda: F.adaptive_avg_pool2d(X(1, D, 1, 2, 5, 4), (3, 2)))
    case('qn_interpolate(X(1, %s, 1, 1, 2, 3), qn_shape_of(3, 5), "bilinear", true)' % d,
         lambda: F.interpolate(X(1, D, 1, 1, 2, 3), (3, 5), mode='bilinear', align_corners=True))
    case('qn_interpolate(X(1, %s, 1, 1, 2, 3), qn_shape_of(3, 5), "nearest", false)' % d, lambda: F.interpolate(X(1, D, 1, 1, 2, 3), (3, 5)))
case('qn_conv2d(X(1, F32, 1, 3, 4, 4), X(2, F32, 2, 2, 3, 3), NULL, NULL)', lambda: F.conv2d(X(1, F32, 1, 3, 4, 4), X(2, F32, 2, 2, 3, 3)))
# ---- attention ----
def attend(q, k, v, softcap=0, sinks=None, window=0, **options):
    """PyTorch's own where it has it, else composed."""
    if not softcap and sinks is None and not window:
        return F.scaled_dot_product_attention(q, k, v, **options)
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if softcap:
        s = softcap * (s / softcap).tanh()
    n, m = s.shape[-2:]
    mask = options.get('attn_mask')
    if options.get('is_causal'):
        mask = torch.ones(n, m).bool().tril()
        mask = mask.triu(1 - window) if window else mask
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype == BOOL else s + mask
    if sinks is not None:
        s = torch.cat([s, sinks[:, None, None].expand(*s.shape[:-1], 1)], -1)
    return s.softmax(-1)[..., :m] @ v


def sdpa(q, k, v, text, **options):
    case('sdpa(%s, %s, %s, %s)' % (q, k, v, text or '.scale = 0'), lambda: attend(t(q), t(k), t(v), **options))


for d in 'F32', 'F64', 'BF16', 'F16':
    q, k, v = 'X(1, %s, 2, 2, 3, 4)' % d, 'X(2, %s, 2, 2, 5, 4)' % d, 'X(3, %s, 2, 2, 5, 3)' % d
    D = TYPES[d]
    sdpa(q, k, v, '')
    sdpa(q, k, v, '.is_causal = true', is_causal=True)
    sdpa(q, k, v, '.scale = 0.25', scale=0.25)
    sdpa(q, k, v, '.mask = X(4, BOOL, 3, 5)', attn_mask=X(4, BOOL, 3, 5))
    sdpa(q, k, v, '.mask = X(4, %s, 2, 1, 3, 1)' % d, attn_mask=X(4, D, 2, 1, 3, 1))
    sdpa(q, k, v, '.mask = X(4, F32, 3, 5)', attn_mask=X(4, F32, 3, 5))
    sdpa(q, k, v, '.mask = X(4, F64, 3, 5)', attn_mask=X(4, F64, 3, 5))
    sdpa(q, k, v, '.mask = X(4, BOOL, 3, 4)', attn_mask=X(4, BOOL, 3, 4))
    sdpa(q, k, v, '.mask = X(4, BOOL, 3, 5), .is_causal = true', attn_mask=X(4, BOOL, 3, 5), is_causal=True)
    sdpa(q, k, v, '.mask = X(4, I32, 3, 5)', attn_mask=X(4, I32, 3, 5))
    if d in ('F32', 'F64'):
        sdpa(q, k, v, '.is_causal = true, .window = 2', is_causal=True, window=2)
        sdpa(q, k, v, '.softcap = 0.5, .mask = X(4, BOOL, 3, 5)', softcap=0.5, attn_mask=X(4, BOOL, 3, 5))
        sdpa(q, k, v, '.sinks = X(5, %s, 2)' % d, sinks=X(5, D, 2))
        sdpa(q, k, v, '.sinks = X(5, %s, 2), .mask = X(4, BOOL, 3, 5)' % d, sinks=X(5, D, 2), attn_mask=X(4, BOOL, 3, 5))
for q, k, v in (('3, 4', '5, 4', '5, 2'), ('2, 3, 4', '2, 5, 4', '2, 5, 2'), ('2, 1, 2, 3, 4', '2, 2, 5, 4', '3, 2, 5, 2'), ('2, 1, 2, 3, 4', '3, 2, 5, 4', '1, 2, 5, 2'), ('1, 3, 4', '2, 5, 4', '2, 5, 2'),
                ('2, 3, 4', '5, 4', '5, 2'), ('2, 3, 4', '5, 3', '5, 2'), ('2, 3, 4', '2, 5, 4', '2, 6, 2'), ('4', '5, 4', '5, 4'), ('4, 3, 4', '2, 5, 4', '2, 5, 2'),
                ('2, 2, 3, 4', '3, 2, 5, 4', '3, 2, 5, 2')):
    sdpa('X(1, F32, %s)' % q, 'X(2, F32, %s)' % k, 'X(3, F32, %s)' % v, '')
    sdpa('X(1, F32, %s)' % q, 'X(2, F32, %s)' % k, 'X(3, F32, %s)' % v, '.is_causal = true', is_causal=True)
for kv in '1', '2', '3':
    sdpa('X(1, F32, 4, 3, 4)', 'X(2, F32, %s, 5, 4)' % kv, 'X(3, F32, %s, 5, 2)' % kv, '.enable_gqa = true', enable_gqa=True)
sdpa('X(1, F32, 2, 4, 3, 4)', 'X(2, F32, 2, 2, 5, 4)', 'X(3, F32, 2, 2, 5, 2)', '.enable_gqa = true, .softcap = 2, .is_causal = true', softcap=2, is_causal=True)
sdpa('X(1, F32, 3, 4)', 'X(2, F64, 5, 4)', 'X(3, F32, 5, 4)', '')
sdpa('X(1, I32, 3, 4)', 'X(2, I32, 5, 4)', 'X(3, I32, 5, 4)', '')
# ---- layers and losses ----
for d in 'F32', 'F64', 'BF16', 'F16':
    D = TYPES[d]
    x = 'X(1, %s, 2, 3, 4)' % d
    case('qn_rms_norm(%s, X(2, %s, 4), 1e-5)' % (x, d), lambda: F.rms_norm(t(x), (4,), X(2, D, 4), 1e-5))
    case('qn_rms_norm(qn_transpose(%s, 1, 2), NULL, 1e-6)' % x, lambda: F.rms_norm(t(x).transpose(1, 2), (3,), None, 1e-6))
    case('qn_layer_norm(%s, 1, X(2, %s, 4), X(3, %s, 4), 1e-5)' % (x, d, d), lambda: F.layer_norm(t(x), (4,), X(2, D, 4), X(3, D, 4), 1e-5))
    case('qn_layer_norm(%s, 2, X(2, %s, 3, 4), NULL, 1e-3)' % (x, d), lambda: F.layer_norm(t(x), (3, 4), X(2, D, 3, 4), None, 1e-3))
    case('qn_layer_norm(%s, 3, NULL, X(2, %s, 2, 3, 4), 1e-5)' % (x, d), lambda: F.layer_norm(t(x), (2, 3, 4), None, X(2, D, 2, 3, 4), 1e-5))
    case('qn_layer_norm(%s, 2, NULL, NULL, 1e-5)' % x, lambda: F.layer_norm(t(x), (3, 4), None, None, 1e-5))
    case('qn_group_norm(X(1, %s, 2, 4, 3), 2, X(2, %s, 4), X(3, %s, 4), 1e-5)' % (d, d, d), lambda: F.group_norm(X(1, D, 2, 4, 3), 2, X(2, D, 4), X(3, D, 4), 1e-5))
    case('qn_group_norm(X(1, %s, 2, 6, 2, 2), 3, NULL, NULL, 1e-5)' % d, lambda: F.group_norm(X(1, D, 2, 6, 2, 2), 3, None, None, 1e-5))
    case('qn_group_norm(X(1, %s, 2, 4), 1, X(2, %s, 4), NULL, 1e-5)' % (d, d), lambda: F.group_norm(X(1, D, 2, 4), 1, X(2, D, 4), None, 1e-5))
    case('qn_group_norm(X(1, %s, 2, 4), 2, NULL, X(2, %s, 4), 1e-5)' % (d, d), lambda: F.group_norm(X(1, D, 2, 4), 2, None, X(2, D, 4), 1e-5))
    case('qn_swiglu(X(1, %s, 2, 5), X(2, %s, 2, 5))' % (d, d), lambda: F.silu(X(1, D, 2, 5)) * X(2, D, 2, 5))
    case('qn_swiglu(qn_transpose(X(1, %s, 5, 2), 0, 1), X(2, %s, 2, 5))' % (d, d), lambda: F.silu(X(1, D, 5, 2).t()) * X(2, D, 2, 5))
    for o, kw in (('.base = 100', dict(base=100)), ('.neox = true', dict(neox=True)), ('.n_rot = 4, .heads_first = true', dict(n_rot=4, first=True)),
                  ('.neox = true, .n_rot = 2, .freq_scale = 0.5, .attn_factor = 2', dict(neox=True, n_rot=2, freq=0.5, scale=2))):
        case('qn_rope(X(1, %s, 2, 3, 2, 6), ids(4, 50, %s), ROPE(%s))' % (d, 2 if 'first' in kw else 3, o),
             lambda: rope(X(1, D, 2, 3, 2, 6), ids(4, 50, 2 if 'first' in kw else 3), **kw))
    case('qn_rope(X(1, %s, 2, 3, 2, 4), ids(4, 50, 2, 3), NULL)' % d, lambda: rope(X(1, D, 2, 3, 2, 4), ids(4, 50, 2, 3)))
    case('qn_rope(X(1, %s, 3, 2, 4), NULL, ROPE(.factors = qn_add_number(X(5, F32, 2), 3)))' % d,
         lambda: rope(X(1, D, 3, 2, 4), torch.arange(3), factors=X(5, F32, 2) + 3))
    for i, r in enumerate(('mean', 'sum', 'none')):
        R = 'QN_REDUCTION_%s' % r.upper()
        case('qn_cross_entropy(X(1, %s, 4, 5), ids(2, 5, 4), CE(.reduction = %s))' % (d, R), lambda: F.cross_entropy(X(1, D, 4, 5), ids(2, 5, 4), reduction=r))
        case('qn_cross_entropy(X(1, %s, 4, 5), ids(2, 5, 4), CE(.reduction = %s, .label_smoothing = 0.1, .ignore_index = 3))' % (d, R),
             lambda: F.cross_entropy(X(1, D, 4, 5), ids(2, 5, 4), reduction=r, label_smoothing=0.1, ignore_index=3))
        case('qn_cross_entropy(X(1, %s, 2, 5, 3), ids(2, 5, 2, 3), CE(.reduction = %s, .label_smoothing = 0.2, .ignore_zero = true, .weight = qn_abs(X(3, %s, 5))))' % (d, R, d),
             lambda: F.cross_entropy(X(1, D, 2, 5, 3), ids(2, 5, 2, 3), X(3, D, 5).abs(), reduction=r, label_smoothing=0.2, ignore_index=0))
        case('qn_cross_entropy(X(1, %s, 3, 4), qn_softmax(X(2, %s, 3, 4), 1), CE(.reduction = %s, .label_smoothing = 0.1, .weight = qn_abs(X(3, %s, 4))))' % (d, d, R, d),
             lambda: F.cross_entropy(X(1, D, 3, 4), X(2, D, 3, 4).softmax(1), X(3, D, 4).abs(), reduction=r, label_smoothing=0.1))
        case('qn_nll_loss(X(1, %s, 4, 5), ids(2, 5, 4), CE(.reduction = %s, .ignore_index = 3, .weight = qn_abs(X(3, %s, 5))))' % (d, R, d),
             lambda: F.nll_loss(X(1, D, 4, 5), ids(2, 5, 4), X(3, D, 5).abs(), reduction=r, ignore_index=3))
        case('qn_nll_loss(X(1, %s, 2, 5, 3), ids(2, 5, 2, 3), CE(.reduction = %s))' % (d, R), lambda: F.nll_loss(X(1, D, 2, 5, 3), ids(2, 5, 2, 3), reduction=r))
        for name in 'mse_loss', 'l1_loss':
            case('qn_%s(X(1, %s, 2, 3), X(2, %s, 2, 3), %s)' % (name, d, d, R), lambda: getattr(F, name)(X(1, D, 2, 3), X(2, D, 2, 3), reduction=r))
        case('qn_smooth_l1_loss(X(1, %s, 2, 3), X(2, %s, 2, 3), 0.75, %s)' % (d, d, R), lambda: F.smooth_l1_loss(X(1, D, 2, 3), X(2, D, 2, 3), reduction=r, beta=0.75))
        case('qn_smooth_l1_loss(X(1, %s, 2, 3), X(2, %s, 2, 3), 0, %s)' % (d, d, R), lambda: F.smooth_l1_loss(X(1, D, 2, 3), X(2, D, 2, 3), reduction=r, beta=0))
        case('qn_huber_loss(X(1, %s, 2, 3), X(2, %s, 2, 3), 0.75, %s)' % (d, d, R), lambda: F.huber_loss(X(1, D, 2, 3), X(2, D, 2, 3), reduction=r, delta=0.75))
        if d in ('F32', 'F64'):
            case('qn_binary_cross_entropy(qn_sigmoid(X(1, %s, 2, 3)), qn_sigmoid(X(2, %s, 2, 3)), X(3, %s, 3), %s)' % (d, d, d, R),
                 lambda: F.binary_cross_entropy(X(1, D, 2, 3).sigmoid(), X(2, D, 2, 3).sigmoid(), X(3, D, 3), reduction=r))
        case('qn_binary_cross_entropy_with_logits(qn_mul_number(X(1, %s, 2, 3), 20), qn_sigmoid(X(2, %s, 2, 3)), X(3, %s, 3), X(4, %s, 3), %s)' % (d, d, d, d, R),
             lambda: F.binary_cross_entropy_with_logits(X(1, D, 2, 3) * 20, X(2, D, 2, 3).sigmoid(), X(3, D, 3), pos_weight=X(4, D, 3), reduction=r))
        case('qn_kl_div(qn_log_softmax(X(1, %s, 2, 3), 1), qn_relu(X(2, %s, 2, 3)), false, %s)' % (d, d, R),
             lambda: F.kl_div(X(1, D, 2, 3).log_softmax(1), X(2, D, 2, 3).relu(), reduction=r))
    case('qn_kl_div(qn_log_softmax(X(1, %s, 2, 3), 1), qn_log_softmax(X(2, %s, 2, 3), 1), true, QN_REDUCTION_BATCHMEAN)' % (d, d),
         lambda: F.kl_div(X(1, D, 2, 3).log_softmax(1), X(2, D, 2, 3).log_softmax(1), reduction='batchmean', log_target=True))
case('qn_binary_cross_entropy(X(1, BOOL, 3), X(2, F32, 3), NULL, 0)', lambda: F.binary_cross_entropy(X(1, BOOL, 3), X(2, F32, 3)))
case('qn_binary_cross_entropy(qn_to(X(1, BOOL, 4), QN_DTYPE_F32), qn_to(X(2, BOOL, 4), QN_DTYPE_F32), NULL, QN_REDUCTION_NONE)',
     lambda: F.binary_cross_entropy(X(1, BOOL, 4).float(), X(2, BOOL, 4).float(), reduction='none'))
case('qn_cross_entropy(X(1, F32, 5), qn_scalar(c, 2, QN_DTYPE_I64), NULL)', lambda: F.cross_entropy(X(1, F32, 5), torch.tensor(2)))
case('qn_cross_entropy(X(1, F32, 3, 5), ids(2, 1, 3), CE(.ignore_zero = true))', lambda: F.cross_entropy(X(1, F32, 3, 5), ids(2, 1, 3), ignore_index=0))
case('qn_cross_entropy(X(1, F32, 0, 5), ids(2, 5, 0), CE(.reduction = QN_REDUCTION_SUM))', lambda: F.cross_entropy(X(1, F32, 0, 5), ids(2, 5, 0), reduction='sum'))
case('qn_cross_entropy(X(1, F32, 0, 5), ids(2, 5, 0), NULL)', lambda: F.cross_entropy(X(1, F32, 0, 5), ids(2, 5, 0)))
case('qn_rms_norm(X(1, F32, 0, 5), X(2, F32, 5), 1e-5)', lambda: F.rms_norm(X(1, F32, 0, 5), (5,), X(2, F32, 5), 1e-5))
case('qn_layer_norm(X(1, F32, 2, 0), 1, NULL, NULL, 1e-5)', lambda: F.layer_norm(X(1, F32, 2, 0), (0,), None, None, 1e-5))
case('qn_layer_norm(X(1, F32, 1, 2, 1, 2, 3), 2, NULL, NULL, 1e-5)', lambda: F.layer_norm(X(1, F32, 1, 2, 1, 2, 3), (2, 3), None, None, 1e-5))
for c, fn in (
        ('qn_cross_entropy(X(1, F32, 4, 5), ids(2, 5, 3), NULL)', lambda: F.cross_entropy(X(1, F32, 4, 5), ids(2, 5, 3))),
        ('qn_cross_entropy(X(1, F32, 4, 5), ids(2, 5, 4), CE(.weight = X(3, F32, 4)))', lambda: F.cross_entropy(X(1, F32, 4, 5), ids(2, 5, 4), X(3, F32, 4))),
        ('qn_cross_entropy(X(1, F32, 4, 5), ids(2, 5, 4), CE(.label_smoothing = 1.5))', lambda: F.cross_entropy(X(1, F32, 4, 5), ids(2, 5, 4), label_smoothing=1.5)),
        ('qn_cross_entropy(X(1, I64, 4, 5), ids(2, 5, 4), NULL)', lambda: F.cross_entropy(X(1, I64, 4, 5), ids(2, 5, 4))),
        ('qn_cross_entropy(X(1, F32, 4, 5), X(2, F32, 4), NULL)', lambda: F.cross_entropy(X(1, F32, 4, 5), X(2, F32, 4))),
        ('qn_nll_loss(X(1, F32, 4, 5), ids(2, 5, 3), NULL)', lambda: F.nll_loss(X(1, F32, 4, 5), ids(2, 5, 3))),
        ('qn_rms_norm(X(1, F32, 2, 4), X(2, F32, 3), 1e-5)', lambda: F.rms_norm(X(1, F32, 2, 4), (4,), X(2, F32, 3), 1e-5)),
        ('qn_rms_norm(X(1, I32, 2, 4), NULL, 1e-5)', lambda: F.rms_norm(X(1, I32, 2, 4), (4,), None, 1e-5)),
        ('qn_layer_norm(X(1, F32, 2, 4), 1, X(2, F32, 3), NULL, 1e-5)', lambda: F.layer_norm(X(1, F32, 2, 4), (4,), X(2, F32, 3), None, 1e-5)),
        ('qn_layer_norm(X(1, F32, 2, 4), 3, NULL, NULL, 1e-5)', lambda: F.layer_norm(X(1, F32, 2, 4), (1, 2, 4), None, None, 1e-5)),
        ('qn_group_norm(X(1, F32, 2, 4), 3, NULL, NULL, 1e-5)', lambda: F.group_norm(X(1, F32, 2, 4), 3, None, None, 1e-5)),
        ('qn_group_norm(X(1, F32, 2, 4), 2, X(2, F32, 2), NULL, 1e-5)', lambda: F.group_norm(X(1, F32, 2, 4), 2, X(2, F32, 2), None, 1e-5)),
        ('qn_huber_loss(X(1, F32, 3), X(2, F32, 3), 0, QN_REDUCTION_MEAN)', lambda: F.huber_loss(X(1, F32, 3), X(2, F32, 3), delta=0)),
        ('qn_smooth_l1_loss(X(1, F32, 3), X(2, F32, 3), -1, QN_REDUCTION_MEAN)', lambda: F.smooth_l1_loss(X(1, F32, 3), X(2, F32, 3), beta=-1)),
        ('qn_mse_loss(X(1, F32, 3), X(2, F32, 2), QN_REDUCTION_MEAN)', lambda: F.mse_loss(X(1, F32, 3), X(2, F32, 2))),
        ('qn_binary_cross_entropy(X(1, F32, 3), X(2, F32, 2), NULL, QN_REDUCTION_MEAN)', lambda: F.binary_cross_entropy(X(1, F32, 3), X(2, F32, 2))),
        ('qn_binary_cross_entropy_with_logits(X(1, F32, 3), X(2, F32, 1), NULL, NULL, QN_REDUCTION_MEAN)', lambda: F.binary_cross_entropy_with_logits(X(1, F32, 3), X(2, F32, 1)))):
    case(c, fn)
# torch has no such functions: errors by our own rules
for c in ('qn_rope(X(1, F32, 3, 2, 4), ids(1, 9, 2), NULL)', 'qn_rope(X(1, F32, 2, 4), NULL, NULL)', 'qn_rope(X(1, F32, 3, 2, 5), NULL, NULL)',
          'qn_rope(X(1, F32, 3, 2, 4), X(1, F32, 3), NULL)', 'qn_rope(X(1, F32, 3, 2, 4), NULL, ROPE(.n_rot = 6))',
          'qn_rope(X(1, F32, 3, 2, 4), NULL, ROPE(.factors = X(1, F32, 3)))', 'qn_rope(X(1, F32, 3, 2, 4), NULL, ROPE(.base = -1))',
          'qn_swiglu(X(1, F32, 2, 3), X(2, F32, 3, 2))', 'qn_kl_div(X(1, F32, 2), X(2, I32, 2), false, QN_REDUCTION_MEAN)',
          'qn_mse_loss(X(1, F32, 2), X(2, F32, 2), QN_REDUCTION_BATCHMEAN)', 'qn_nll_loss(X(1, F32, 4, 5), ids(2, 5, 4), CE(.label_smoothing = 0.5))'):
    case(c, lambda: None.refused)
# ---- empty ----
for name in 'sum prod mean'.split():
    case('qn_%s(X(1, F32, 0, 3), QN_DIMS(0), false)' % name, lambda: getattr(torch, name)(X(1, F32, 0, 3), 0))
case('qn_amax(X(1, F32, 0, 3), QN_DIMS(0), false)', lambda: torch.amax(X(1, F32, 0, 3), 0))
case('qn_matmul(X(1, F32, 2, 0), X(1, F32, 0, 3))', lambda: X(1, F32, 2, 0) @ X(1, F32, 0, 3))
end()
