#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures for tests/unit/cpu/op_tensor.c: products, indexing, order, padding, convolution, pooling, resizing and bags as PyTorch
computes them in float64 (gradients by its autograd). Inputs are not stored: both sides make them from a formula whose values are
multiples of 1/64. Usage: tensor_index_conv.py > tests/unit/cpu/op_tensor_figures.inc   (needs torch)"""
import torch
import torch.nn.functional as F

D = torch.float64


def real(seed, *shape):
    n = 1
    for s in shape:
        n *= s
    i = torch.arange(n, dtype=torch.int64)
    return (((i * 7919 + seed * 104729 + (i * i) % 131 * 31) % 257).to(D) / 64 - 2).reshape(shape)


def ints(seed, lo, hi, *shape):
    n = 1
    for s in shape:
        n *= s
    i = torch.arange(n, dtype=torch.int64)
    return (lo + (i * 7919 + seed * 104729 + (i * i) % 131 * 31) % (hi - lo)).reshape(shape)


def put(name, y):
    y = y.detach().contiguous().flatten()
    text = ', '.join('%.12g' % v for v in y.tolist())
    print('FIGURES(%s, %d, %s)' % (name, y.numel(), text if y.numel() else '0'))


def grads(name, fn, *xs):
    xs = [x.clone().requires_grad_(True) for x in xs]
    y = fn(*xs)
    g = real(99, *y.shape)
    y.backward(g)
    put(name, y)
    for k, x in enumerate(xs):
        put('%s_d%d' % (name, k), x.grad)


put('matmul_2d', real(1, 5, 7) @ real(2, 7, 19))
put('matmul_nt', real(1, 5, 7) @ real(2, 19, 7).t())
put('matmul_tn', real(1, 7, 5).t() @ real(2, 7, 19))
put('matmul_batch', real(1, 2, 1, 3, 4) @ real(2, 3, 4, 5))
put('matmul_1d', torch.matmul(real(1, 6), real(2, 3, 6, 4)))
put('matmul_d1', torch.matmul(real(1, 3, 5, 6), real(2, 6)))
put('addmm', torch.addmm(real(3, 9), real(1, 4, 6), real(2, 6, 9), beta=0.5, alpha=-2))

put('gather0', torch.gather(real(1, 5, 4, 3), 0, ints(2, 0, 5, 2, 4, 3)))
put('gather1', torch.gather(real(1, 5, 4, 3), 1, ints(2, 0, 4, 5, 6, 2)))
put('gather2', torch.gather(real(1, 5, 4, 3), 2, ints(2, 0, 3, 4, 4, 5)))
put('scatter_add1', real(1, 3, 5, 4).scatter_add(1, ints(2, 0, 5, 3, 7, 4), real(3, 3, 7, 4)))
put('scatter_add2', real(1, 3, 5).scatter_add(1, ints(2, 0, 5, 2, 9), real(3, 3, 10)))
put('scatter_max0', real(1, 4, 3).scatter_reduce(0, ints(2, 0, 4, 6, 3), real(3, 6, 3), 'amax'))
put('scatter_mul0', real(1, 4, 3).scatter_reduce(0, ints(2, 0, 4, 6, 3), real(3, 6, 3), 'prod'))
put('index_select0', real(1, 5, 3).index_select(0, ints(2, 0, 5, 7)))
put('index_select1', real(1, 2, 5, 3).index_select(1, ints(2, 0, 5, 7)))
put('index_select2', real(1, 2, 3, 5).index_select(2, ints(2, 0, 5, 7)))
put('index_add0', real(1, 5, 3).index_add(0, ints(2, 0, 5, 7), real(3, 7, 3)))
put('index_add1', real(1, 2, 5).index_add(1, ints(2, 0, 5, 7), real(3, 2, 7)))
put('index_copy', real(1, 5, 3).index_copy(0, torch.tensor([3, 0, 4]), real(3, 3, 3)))
put('tril', real(1, 2, 4, 5).tril(1))
put('triu', real(1, 5, 4).triu(-1))
put('diagonal', torch.diagonal(real(1, 3, 4, 5), 1, 0, 2))
put('cat', torch.cat([real(1, 2, 3), real(2, 2, 1), real(3, 2, 4), real(1, 2, 3)], 1))
put('stack', torch.stack([real(1, 2, 3), real(2, 2, 3), real(3, 2, 3)], -1))
put('repeat', real(1, 2, 3).repeat(2, 3, 2))
put('roll', real(1, 3, 7).roll(-2, 1))
put('sort', torch.sort(real(1, 3, 40), dim=1, stable=True)[1])
put('sort_down', torch.sort(real(1, 30, 3), dim=0, descending=True, stable=True)[1])
put('pad', F.pad(real(1, 2, 3, 4), (1, 2, -1, 1), value=7))
put('pad_reflect', F.pad(real(1, 1, 2, 4, 5), (2, 3, 1, 2), mode='reflect'))
put('pad_replicate', F.pad(real(1, 1, 2, 3), (2, 3), mode='replicate'))
put('pad_circular', F.pad(real(1, 1, 2, 3), (2, 3), mode='circular'))

grads('conv1', lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), real(1, 2, 3, 11), real(2, 4, 3, 4), real(3, 4))
grads('conv2', lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
      real(1, 2, 4, 7, 8), real(2, 6, 2, 3, 2), real(3, 6))
grads('conv2s', lambda x, w: F.conv2d(x, w, stride=3, padding=1), real(1, 1, 2, 10, 8), real(2, 3, 2, 2, 2))
grads('conv2k', lambda x, w: F.conv2d(x, w, padding=1), real(1, 2, 3, 6, 6), real(2, 5, 3, 3, 3))
grads('conv3', lambda x, w: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 0, 1)), real(1, 1, 2, 4, 5, 6), real(2, 3, 2, 2, 3, 2))
grads('convd', lambda x, w: F.conv2d(x, w, padding=1, groups=3), real(1, 1, 3, 5, 5), real(2, 3, 1, 3, 3))
put('convt1', F.conv_transpose1d(real(1, 2, 4, 5), real(2, 4, 3, 4), real(3, 3), stride=3, padding=1, output_padding=2))
put('convt2', F.conv_transpose2d(real(1, 1, 4, 3, 4), real(2, 4, 2, 3, 2), real(3, 4), stride=2, padding=1, dilation=2, groups=2))

grads('max2', lambda x: F.max_pool2d(x, 3, 2, 1), real(1, 2, 2, 7, 8))
grads('max1', lambda x: F.max_pool1d(x, 3, 2, 0, 2, ceil_mode=True), real(1, 2, 2, 12))
grads('max3', lambda x: F.max_pool3d(x, 2), real(1, 1, 2, 4, 5, 4))
put('max2_places', F.max_pool2d(real(1, 2, 2, 7, 8), 3, 2, 1, return_indices=True)[1])
grads('avg2', lambda x: F.avg_pool2d(x, 3, 2, 1), real(1, 2, 2, 7, 8))
grads('avg2n', lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), real(1, 1, 2, 6, 8))
grads('avg2c', lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), real(1, 1, 2, 6, 8))
grads('avg1', lambda x: F.avg_pool1d(x, 4, 3), real(1, 2, 2, 11))
grads('avg3', lambda x: F.avg_pool3d(x, (2, 1, 3), (1, 2, 2), (1, 0, 1), divisor_override=5), real(1, 1, 2, 3, 4, 5))
grads('adaptive2', lambda x: F.adaptive_avg_pool2d(x, (3, 5)), real(1, 2, 2, 7, 8))
grads('adaptivemax', lambda x: F.adaptive_max_pool1d(x, 4), real(1, 2, 2, 11))

grads('near2', lambda x: F.interpolate(x, size=(7, 5), mode='nearest'), real(1, 1, 2, 3, 4))
grads('lin1', lambda x: F.interpolate(x, size=11, mode='linear'), real(1, 2, 2, 4))
grads('bi', lambda x: F.interpolate(x, size=(7, 3), mode='bilinear'), real(1, 1, 2, 3, 5))
grads('bia', lambda x: F.interpolate(x, size=(7, 9), mode='bilinear', align_corners=True), real(1, 1, 2, 3, 5))
grads('bis', lambda x: F.interpolate(x, scale_factor=(1.7, 2.3), mode='bilinear'), real(1, 1, 2, 3, 5))
grads('tri', lambda x: F.interpolate(x, size=(4, 5, 3), mode='trilinear'), real(1, 1, 2, 2, 3, 4))

ids, off = ints(5, 0, 6, 11), torch.tensor([0, 3, 3, 8])
grads('bag_sum', lambda t: F.embedding_bag(ids, t, off, mode='sum'), real(1, 6, 5))
grads('bag_mean', lambda t: F.embedding_bag(ids, t, off, mode='mean', padding_idx=2), real(1, 6, 5))
grads('bag_max', lambda t: F.embedding_bag(ids, t, off, mode='max'), real(1, 6, 5))
grads('bag_weighted', lambda t: F.embedding_bag(ids, t, off, mode='sum', per_sample_weights=real(7, 11)), real(1, 6, 5))
