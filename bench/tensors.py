#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What bench/tensors.c times, in PyTorch, eager: tensors.py [THREADS [PART]]   (needs torch)"""
import sys

import torch
import torch.nn.functional as F

from torch_timing import measure

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
PART = sys.argv[2] if len(sys.argv) > 2 else ''
LEAVES = []


def leaf(*shape, made=None):
    t = (torch.randn(*shape) if made is None else made).requires_grad_()
    LEAVES.append(t)
    return t


def below(n, *shape):
    return torch.randint(n, shape)


a, b, row, col, cube = leaf(1024, 1024), leaf(1024, 1024), leaf(1024), leaf(1024, 1), leaf(64, 128, 128)
pos, small, heads, wide = leaf(made=torch.empty(1024, 1024).uniform_(0.1, 4)), leaf(64, 64), leaf(8, 256, 8, 64), leaf(64, 16384)
image, w3, w1, wd, wt = leaf(8, 64, 56, 56), leaf(64, 64, 3, 3), leaf(128, 64, 1, 1), leaf(64, 1, 3, 3), leaf(64, 32, 4, 4)
photo, wp, signal, ws = leaf(8, 3, 112, 112), leaf(32, 3, 7, 7), leaf(8, 128, 1024), leaf(128, 128, 5)
video, wv, channel = leaf(2, 16, 16, 32, 32), leaf(32, 16, 3, 3, 3), leaf(64)
q, k, v = leaf(4, 8, 256, 64), leaf(4, 8, 256, 64), leaf(4, 8, 256, 64)
places, rows, ints, mask = below(1024, 1024, 1024), below(1024, 4096), below(1000, 1024, 1024), a.detach() > 0
half, src = a.detach().bfloat16(), torch.randn(4096, 1024)

ROWS = dict(
    add=lambda: a + b, add_row=lambda: a + row, mul_column=lambda: a * col, add_number=lambda: a + 2.5, add_transposed=lambda: a + b.T,
    div=lambda: a / pos, add_bf16=lambda: half + half, add_ints=lambda: ints + places, lt=lambda: a < b, where=lambda: torch.where(mask, a, b),
    masked_fill=lambda: a.masked_fill(mask, 0.5), clamp=lambda: a.clamp(-1, 1), maximum=lambda: torch.maximum(a, b),
    addcmul=lambda: torch.addcmul(a, b, pos, value=0.5), lerp=lambda: torch.lerp(a, b, 0.3), relu=lambda: a.relu(),
    leaky_relu=lambda: F.leaky_relu(a, 0.1), elu=lambda: F.elu(a), softplus=lambda: F.softplus(a), exp=lambda: a.exp(), log=lambda: pos.log(),
    sqrt=lambda: pos.sqrt(), rsqrt=lambda: pos.rsqrt(), sigmoid=lambda: a.sigmoid(), tanh=lambda: a.tanh(), erf=lambda: a.erf(),
    sin=lambda: a.sin(), cos=lambda: a.cos(), tan=lambda: a.tan(), atan=lambda: a.atan(), sinh=lambda: a.sinh(), expm1=lambda: a.expm1(),
    log1p=lambda: pos.log1p(), log2=lambda: pos.log2(), pow=lambda: pos.pow(b), pow_number=lambda: pos.pow(2.5), square=lambda: a.square(),
    pow_3=lambda: a.pow(3), floor=lambda: a.floor(), round=lambda: a.round(), abs=lambda: a.abs(), atan2=lambda: torch.atan2(a, b),
    remainder=lambda: torch.remainder(a, 0.7), to_bf16=lambda: a.bfloat16(), to_f32=lambda: half.float(), ints_to_f32=lambda: ints.float(),
    to_f64=lambda: a.double(), sum_all=lambda: a.sum(), sum_columns=lambda: a.sum(0), sum_rows=lambda: a.sum(1), sum_middle=lambda: cube.sum(1),
    mean_rows=lambda: a.mean(1), var_rows=lambda: a.var(1), var_columns=lambda: a.var(0), sum_ints=lambda: ints.sum(), prod_rows=lambda: pos.prod(1),
    norm_all=lambda: a.norm(), norm_rows=lambda: a.norm(dim=1), logsumexp=lambda: a.logsumexp(1), logsumexp_columns=lambda: a.logsumexp(0),
    amax_rows=lambda: a.amax(1), amax_columns=lambda: a.amax(0), max_rows=lambda: a.max(1).values, argmax_rows=lambda: a.argmax(1),
    argmax_columns=lambda: a.argmax(0), argmax_all=lambda: a.argmax(), any_rows=lambda: mask.any(1), count_nonzero=lambda: mask.count_nonzero(),
    softmax_rows=lambda: a.softmax(1), softmax_columns=lambda: a.softmax(0), softmax_middle=lambda: cube.softmax(1),
    log_softmax=lambda: a.log_softmax(1), log_softmax_middle=lambda: cube.log_softmax(1), softmax_wide=lambda: wide.softmax(1),
    cumsum_rows=lambda: a.cumsum(1), cumsum_columns=lambda: a.cumsum(0), cumprod_rows=lambda: pos.cumprod(1),
    sort_rows=lambda: a.sort(dim=1, stable=True).values, sort_columns=lambda: a.sort(dim=0, stable=True).values,
    argsort_ints=lambda: ints.argsort(dim=1, stable=True), topk_8=lambda: a.topk(8).values, topk_40_wide=lambda: wide.topk(40).values,
    contiguous_transposed=lambda: a.T.contiguous(), contiguous_heads=lambda: heads.transpose(1, 2).contiguous(), clone=lambda: a.clone(),
    cat_rows=lambda: torch.cat([a, b]), cat_columns=lambda: torch.cat([a, b], 1), stack_last=lambda: torch.stack([a, b], -1),
    flip=lambda: a.flip(1), roll=lambda: a.roll(3, 1), tril=lambda: a.tril(), repeat=lambda: small.repeat(16, 16),
    pad_reflect=lambda: F.pad(image, (1, 1, 1, 1), 'reflect'), pad_zeros=lambda: F.pad(image, (1, 1, 1, 1)), slice_step=lambda: a[:, ::2].contiguous(),
    gather_rows=lambda: a.gather(1, places), gather_columns=lambda: a.gather(0, places), scatter=lambda: a.scatter(1, places, b),
    scatter_add=lambda: a.scatter_add(1, places, b), scatter_add_columns=lambda: a.scatter_add(0, places, b),
    index_select_rows=lambda: a.index_select(0, rows), index_select_columns=lambda: a.index_select(1, rows),
    index_add=lambda: a.index_add(0, rows, src), index_put=lambda: a.index_put((rows,), src, accumulate=True),
    embedding=lambda: F.embedding(rows, a), embedding_bag=lambda: F.embedding_bag(rows.view(256, 16), a), matmul=lambda: a @ b,
    matmul_transposed=lambda: a.T @ b, bmm=lambda: cube @ cube.transpose(1, 2), matvec=lambda: a @ row, addmm=lambda: torch.addmm(row, a, b),
    linear=lambda: F.linear(a, b, row), layer_norm=lambda: F.layer_norm(a, (1024,), row, row),
    group_norm=lambda: F.group_norm(image, 8, channel, channel), conv2d_3x3=lambda: F.conv2d(image, w3, channel, padding=1),
    conv2d_1x1=lambda: F.conv2d(image, w1), conv2d_depthwise=lambda: F.conv2d(image, wd, padding=1, groups=64),
    conv2d_7x7_by_2=lambda: F.conv2d(photo, wp, padding=3, stride=2),
    conv_transpose2d=lambda: F.conv_transpose2d(image, wt, stride=2, padding=1), conv1d=lambda: F.conv1d(signal, ws, padding=2),
    conv3d=lambda: F.conv3d(video, wv, padding=1), max_pool2d=lambda: F.max_pool2d(image, 2), max_pool2d_3=lambda: F.max_pool2d(image, 3, 2, 1),
    avg_pool2d=lambda: F.avg_pool2d(image, 2), max_pool1d=lambda: F.max_pool1d(signal, 2), avg_pool3d=lambda: F.avg_pool3d(video, 2),
    adaptive_avg_pool=lambda: F.adaptive_avg_pool2d(image, 7), upsample_nearest=lambda: F.interpolate(image, (112, 112)),
    upsample_bilinear=lambda: F.interpolate(image, (112, 112), mode='bilinear'), sdpa=lambda: F.scaled_dot_product_attention(q, k, v),
    sdpa_causal=lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    bce_with_logits=lambda: F.binary_cross_entropy_with_logits(a, b), smooth_l1=lambda: F.smooth_l1_loss(a, b),
    kl_div=lambda: F.kl_div(a, pos, reduction='sum'), rand=lambda: torch.rand(1024, 1024), randn=lambda: torch.randn(1024, 1024),
    randint=lambda: torch.randint(1000, (1024, 1024)), dropout=lambda: F.dropout(a, 0.1), zeros=lambda: torch.zeros(1024, 1024),
    ones=lambda: torch.ones(1024, 1024), arange=lambda: torch.arange(0, 1 << 20, 1, dtype=torch.float32), small_add=lambda: small + small)


print('%-22s %10s %10s' % ('us', 'forward', 'both'))
for name, fn in ROWS.items():
    if PART not in name:
        continue
    y = fn()
    line = '%-22s %10.0f' % (name, measure(fn, None, LEAVES))
    if y.requires_grad:
        line += ' %10.0f' % measure(fn, torch.randn_like(y), LEAVES)
    print(line)
