/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/outer.c -- outer_f32 as dispatch.h defines it: a sum for each output and lane, in the order of i. */
#include "cpu/ref/ref.h"

#include <math.h>
#include <string.h>

/* Lanes whose sums are kept while i runs; n_lanes is a multiple. */
enum { SIDE_BY_SIDE = 16 };

QN_REF_BODY qn__ref_outer_f32_body(const qn_outer *t)
{
    for (int64_t o = 0; o < t->n_out; o++)
        for (int64_t from = 0; from < t->n_lanes; from += SIDE_BY_SIDE) {
            float sum[SIDE_BY_SIDE] = {0}, *y = t->y + o * t->y_stride + from;
            if (t->mode == QN_OUTER_go_on) memcpy(sum, y, sizeof sum);
            for (int64_t i = 0; i < t->n_in; i++) {
                const float a = t->a[o * t->a_out + i * t->a_in], *b = t->b + i * t->b_stride + from;
                for (int l = 0; l < SIDE_BY_SIDE; l++) sum[l] = fmaf(a, b[l], sum[l]);
            }
            for (int l = 0; l < SIDE_BY_SIDE; l++) y[l] = t->mode == QN_OUTER_add ? y[l] + sum[l] : sum[l];
        }
}
QN_REF_FMA(qn__ref_outer_f32, (const qn_outer *t), (t))
