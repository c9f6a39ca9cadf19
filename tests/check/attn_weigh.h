/* SPDX-License-Identifier: MIT */
/* tests/check/attn_weigh.h -- the oracle of attn_weigh and attn_weigh_row: one lane in double. */
#include "check.h"

typedef struct weighed {
    int64_t n;
    int32_t begin, end;
    const float *u; /* [n], `u_step` apart */
    int64_t u_step;
    const float *weight; /* [n] */
    float max, sum;      /* what the kernel gave */
    const int16_t *p;    /* p(c) = p[c / 2 * pair_step + c % 2 * p_step] */
    int64_t p_step, pair_step;
    const float *scale; /* [blocks], `scale_step` apart */
    int64_t scale_step;
} weighed;

static void weighed_check(check *t, const weighed *w)
{
    double top = -INFINITY, sum = 0;
    for (int64_t c = w->begin; c < w->end; c++) top = fmax(top, w->u[c * w->u_step]);
    check_close(t, w->max, top, 0, 0);
    for (int64_t b = 0; 16 * b < w->n; b++) {
        int64_t total = 0;
        const double step = w->scale[b * w->scale_step];
        for (int64_t c = 16 * b; c < 16 * b + 16 && c < w->n; c++) {
            const bool in = c >= w->begin && c < w->end;
            const double e = in ? exp(w->u[c * w->u_step] - top) : 0;
            const int p = w->p[c / 2 * w->pair_step + c % 2 * w->p_step];
            if (p < 0 || (!in && p != 0)) check_fail(t, "cell %d: p %d", (int)c, p);
            check_close(t, p * step, e, 0.501 * step + e * 3e-7 * (2 + fabs(w->u[c * w->u_step])) + 1e-37, c);
            sum += in ? e * w->weight[c] : 0;
            total += p;
        }
        if (total > 65536) check_fail(t, "block %d: the integers add up to %lld", (int)b, (long long)total);
        if (total > 0 && total < 16384)
            check_fail(t, "block %d: the integers add up to %lld only", (int)b, (long long)total);
    }
    double reach = 0;
    for (int64_t c = w->begin; c < w->end; c++) reach = fmax(reach, fabs(w->u[c * w->u_step]));
    check_close(t, w->sum, sum, sum * 3e-7 * (10 + reach) + 1e-36, 0);
}
