/* SPDX-License-Identifier: MIT */
/* src/train/update.c -- the learning rate's course, and AdamW with the gradient cut to a length. */
#include "train/train.h"
#include <math.h>
#include <quern/autograd.h>
#include <quern/ops.h>

#define ADAM_EPS 1e-8

double qn__train_rate(const qn_train_options *o, int32_t n_steps, int32_t step)
{
    const int32_t warmup = o->n_warmup ? o->n_warmup : (n_steps + 19) / 20;
    const double high = (double)o->lr, low = (double)o->min_lr;
    if (step <= warmup) return high * step / warmup;
    const double part = n_steps > warmup ? (double)(step - warmup) / (n_steps - warmup) : 1;
    return low + (high - low) * 0.5 * (1 + cos(3.14159265358979323846 * (part < 1 ? part : 1)));
}

qn_tensor *qn__train_update(qn_trainer *t, double lr, int32_t step)
{
    const double b1 = (double)t->o.beta1, b2 = (double)t->o.beta2, c1 = 1 - pow(b1, step), c2 = 1 - pow(b2, step);
    const bool was = qn_set_grad_enabled(t->ctx, false);
    qn_tensor *sum = NULL;
    for (int32_t i = 0; i < t->n_params; i++) {
        qn_tensor *part = qn_sum(qn_square(qn_grad(t->params[i].value)), QN_ALL, false);
        sum = sum ? qn_add(sum, part) : part;
    }
    qn_tensor *norm = qn_sqrt(sum), *scale = NULL;
    if (t->o.grad_clip > 0)
        scale = qn_clamp(qn_mul_number(qn_reciprocal(qn_add_number(norm, 1e-6)), (double)t->o.grad_clip), 0, 1);
    for (int32_t i = 0; i < t->n_params; i++) {
        qn_train_param *p = &t->params[i];
        qn_tensor *g = qn_grad(p->value);
        if (scale) g = qn_mul(g, scale);
        qn_add_(qn_mul_number_(p->m, b1), qn_mul_number(g, 1 - b1));
        qn_add_(qn_mul_number_(p->v, b2), qn_mul_number(qn_square(g), 1 - b2));
        if (p->decays && t->o.weight_decay > 0) qn_mul_number_(p->value, 1 - lr * (double)t->o.weight_decay);
        qn_tensor *root = qn_add_number(qn_mul_number(qn_sqrt(p->v), 1 / sqrt(c2)), ADAM_EPS);
        qn_add_(p->value, qn_mul_number(qn_div(p->m, root), -lr / c1));
        qn_zero_grad(p->value);
    }
    qn_set_grad_enabled(t->ctx, was);
    return norm;
}
