#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fourth table behind tests/unit/array/parity.c: corners that no other table reaches, and gradients there.
Usage: parity_edges.py > tests/unit/array/parity_edges.inc   (needs torch)"""
import torch
import torch.nn.functional as F
from parity_rows import *


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
__MORE__
end()
