/* SPDX-License-Identifier: MIT */
/* src/grad/basic.c -- sums, products and factors. */
#include "grad/rows.h"

void qn__grad_add(qn_grad_task *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->wanted[i]) give(t, i, t->dy);
    }
}

void qn__grad_mul(qn_grad_task *t)
{
    for (int i = 0; i < 2; i++) {
        if (t->wanted[i]) give(t, i, mul(t, t->dy, t->src[1 - i]));
    }
}

void qn__grad_scale(qn_grad_task *t)
{
    t->dx[0] = qn__scale(t->g, t->dy, ((const qn_scale_attrs *)t->attrs)->scale, 0.0f);
}
