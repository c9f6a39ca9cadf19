#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Gradients through writes into parts of tensors, by PyTorch: the lists of numbers in tests/unit/array/writes.c.
import torch

torch.set_default_dtype(torch.float64)


def leaf(*shape):
    n = torch.Size(shape).numel()
    return (torch.arange(n, dtype=torch.float64) + 1).reshape(shape).requires_grad_()


def weights(t):
    return (torch.arange(t.numel(), dtype=torch.float64) + 1).reshape(t.shape)


def show(name, loss_of, *leaves):
    (loss_of * weights(loss_of)).sum().backward()
    for i, x in enumerate(leaves):
        g = x.grad if x.grad is not None else torch.zeros_like(x)
        print(name, i, ", ".join(repr(float(v)) for v in g.reshape(-1)))


x = leaf(2, 3); y = x * x; y[0].fill_(1); show("constant", y, x)
x, z = leaf(2, 3), leaf(2, 2); y = x * x; y[:, 1:].mul_(z); show("product", y, x, z)
x = leaf(2); b = torch.zeros(2, 3); b[:, 1] = x; show("into zeros", b * b, x)
x = leaf(2, 3); y = x * x; v, u = y[0], y.t(); v.sqrt_(); show("seen by others", u, x)
x = leaf(2, 3); y = x * x; y[:1].mul_(3); y[:, 0].add_(x[:, 0]); y[1].mul_(x[1]); show("overlapping", y, x)
x = leaf(2, 3); y = x * x; y.view(6).mul_(3); show("whole", y, x)
x = leaf(2, 3); y = x * x; a = y[1]; a.mul_(2); c = y[:, ::2]; c.add_(a[0].clone() * x[0, 0]); a.mul_(3); show("steps", y, x)
