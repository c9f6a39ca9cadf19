/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/outer.c -- outer_f32 as dispatch.h defines it. */
#include "cpu/ref/ref.h"

#include <math.h>

void qn__ref_outer_f32(const qn_outer *t)
{
    for (int64_t o = 0; o < t->n_out; o++)
        for (int64_t l = 0; l < t->n_lanes; l++) {
            float *y = t->y + o * t->y_stride + l, sum = t->mode == QN_OUTER_go_on ? *y : 0;
            for (int64_t i = 0; i < t->n_in; i++)
                sum = fmaf(t->a[o * t->a_out + i * t->a_in], t->b[i * t->b_stride + l], sum);
            *y = t->mode == QN_OUTER_add ? *y + sum : sum;
        }
}
