#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Trajectories of optimizers, norms and learning rates, by PyTorch: writes tests/unit/nn/optim_figures.inc.
# Usage: optim.py > tests/unit/nn/optim_figures.inc
import math
import torch
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import (CosineAnnealingLR, ExponentialLR, LinearLR, OneCycleLR, SequentialLR, StepLR)

torch.set_default_dtype(torch.float64)
STEPS = 12


def wave(shape, first):
    n = math.prod(shape)
    return torch.tensor([math.sin(first + i) for i in range(n)]).reshape(shape)


def figures(values):
    return "{" + ", ".join(float(v).hex() for v in values) + "}"


def run(make, clip=None):
    x, y = wave((8, 4), 0), wave((8, 3), 100) * 2
    w, b = wave((4, 3), 200).requires_grad_(), wave((3,), 300).requires_grad_()
    o = make(w, b)
    rates = [g["lr"] for g in o.param_groups]
    out = []
    for t in range(STEPS):
        for g, rate in zip(o.param_groups, rates):
            g["lr"] = rate * (1 - t / 20)
        o.zero_grad()
        ((x @ w + b - y) ** 2).mean().backward()
        if clip:
            clip([w, b])
        o.step()
        if t in (0, STEPS - 1):
            out.append(torch.cat([w.detach().reshape(-1), b.detach()]).clone())
    return out


def both(cls, **options):
    return lambda w, b: cls([w, b], **options)


def groups(cls, **options):
    return lambda w, b: cls([{"params": [w]}, {"params": [b], "lr": 0.03, "weight_decay": 0.2}], **options)


trajectories = [
    ("sgd", both(SGD, lr=0.1), None),
    ("sgd_decay", both(SGD, lr=0.1, weight_decay=0.1), None),
    ("sgd_momentum", both(SGD, lr=0.1, momentum=0.9), None),
    ("sgd_dampening", both(SGD, lr=0.1, momentum=0.8, dampening=0.3, weight_decay=0.05), None),
    ("sgd_nesterov", both(SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01), None),
    ("sgd_maximize", both(SGD, lr=0.1, momentum=0.5, weight_decay=0.1, maximize=True), None),
    ("adam", both(Adam, lr=0.05), None),
    ("adam_decay", both(Adam, lr=0.05, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1), None),
    ("adam_amsgrad", both(Adam, lr=0.3, amsgrad=True), None),
    ("adam_maximize", both(Adam, lr=0.05, maximize=True), None),
    ("adam_no_momentum", both(Adam, lr=0.05, betas=(0.0, 0.9)), None),
    ("adamw", both(AdamW, lr=0.05, weight_decay=0.1), None),
    ("adamw_amsgrad", both(AdamW, lr=0.3, weight_decay=0.01, amsgrad=True), None),
    ("adamw_groups", groups(AdamW, lr=0.05, weight_decay=0.1), None),
    ("sgd_groups", groups(SGD, lr=0.05, weight_decay=0.1, momentum=0.9), None),
    ("sgd_clipped", both(SGD, lr=0.1, momentum=0.9), lambda p: torch.nn.utils.clip_grad_norm_(p, 0.5)),
    ("adamw_clipped", both(AdamW, lr=0.05, weight_decay=0.1), lambda p: torch.nn.utils.clip_grad_norm_(p, 0.7)),
    ("sgd_clipped_value", both(SGD, lr=0.1, momentum=0.9), lambda p: torch.nn.utils.clip_grad_value_(p, 0.1)),
]
print("/* SPDX-License-Identifier: MIT */")
print(f"/* Written by tests/oracle/optim.py with PyTorch {torch.__version__.split('+')[0]}: parameters after step 1 and after step {STEPS}. */")
for name, make, clip in trajectories:
    first, last = run(make, clip)
    print(f"TRAJECTORY({name},\n    VALUES{figures(first)[1:-1].join('()')},\n    VALUES{figures(last)[1:-1].join('()')})")

for p in (1, 2, 3, 0.5, math.inf):
    a, b = wave((5, 7), 1).requires_grad_(), wave((3,), 9).requires_grad_()
    a.grad, b.grad = wave((5, 7), 40) * 3, wave((3,), 50) * 3
    norm = torch.nn.utils.clip_grad_norm_([a, b], 1.5, norm_type=p)
    order = "INFINITY" if math.isinf(p) else repr(float(p))
    print(f"NORM({order}, {float(norm).hex()}, VALUES{figures(torch.cat([a.grad.reshape(-1), b.grad]))[1:-1].join('()')})")


def rates(make, n, lr):
    p = torch.zeros(1, requires_grad=True)
    o = SGD([p], lr=lr)
    s = make(o)
    out = []
    for _ in range(n):
        out.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    return out


def warm(steps, rest):
    def make(o):
        return SequentialLR(o, [LinearLR(o, start_factor=1 / (steps + 1), total_iters=steps), rest(o)], milestones=[steps])
    return make


schedules = [
    ("{.kind = QN_LR_linear, .lr = 0.5, .min_lr = 0.125, .total = 10}", 14, 0.5, lambda o: LinearLR(o, start_factor=1, end_factor=0.25, total_iters=10)),
    ("{.kind = QN_LR_cosine, .lr = 0.5, .min_lr = 0.05, .total = 12}", 13, 0.5, lambda o: CosineAnnealingLR(o, T_max=12, eta_min=0.05)),
    ("{.kind = QN_LR_cosine, .lr = 0.5, .min_lr = 0.05, .total = 15, .warmup = 4}", 16, 0.5, warm(4, lambda o: CosineAnnealingLR(o, T_max=11, eta_min=0.05))),
    ("{.kind = QN_LR_constant, .lr = 0.5, .warmup = 3}", 8, 0.5, warm(3, lambda o: ExponentialLR(o, gamma=1))),
    ("{.kind = QN_LR_step, .lr = 0.5, .every = 3, .gamma = 0.2}", 11, 0.5, lambda o: StepLR(o, step_size=3, gamma=0.2)),
    ("{.kind = QN_LR_step, .lr = 0.5}", 5, 0.5, lambda o: StepLR(o, step_size=1)),
    ("{.kind = QN_LR_exponential, .lr = 0.5, .gamma = 0.9}", 9, 0.5, lambda o: ExponentialLR(o, gamma=0.9)),
    ("{.kind = QN_LR_one_cycle, .lr = 0.5, .total = 20}", 20, 0.5, lambda o: OneCycleLR(o, max_lr=0.5, total_steps=20)),
    ("{.kind = QN_LR_one_cycle, .lr = 0.5, .total = 17, .part = 0.4, .div = 10, .final_div = 100}", 17, 0.5,
     lambda o: OneCycleLR(o, max_lr=0.5, total_steps=17, pct_start=0.4, div_factor=10, final_div_factor=100)),
]
for text, n, lr, make in schedules:
    print(f"RATES(((qn_lr_schedule){text}), {n}, VALUES{figures(rates(make, n, lr))[1:-1].join('()')})")
