/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/outer_f64.h -- outer_f64 over eight double lanes, written once. A level defines FN(name), the type
 * `wide` and w_set, w_load, w_store, w_add, w_fma, and includes this. */
#include "cpu/dispatch.h"
#include "cpu/kernel/inline.h"

#define EACH(WHAT) \
    do { \
        UNROLL \
        for (int o = 0; o < no; o++) { \
            UNROLL \
            for (int v = 0; v < nv; v++) WHAT; \
        } \
    } while (0)

INLINE void block(const qn_outer_f64 *t, double *y, const double *a, const double *b, const int nv, const int no)
{
    wide acc[6][2];
    const int64_t y_stride = t->y_stride, a_out = t->a_out;
    if (t->mode == QN_OUTER_go_on)
        EACH(acc[o][v] = w_load(y + o * y_stride + 8 * v));
    else
        EACH(acc[o][v] = w_set(0));
    for (int64_t i = t->n_in; i > 0; i--, a += t->a_in, b += t->b_stride) {
        wide x[2];
        UNROLL
        for (int v = 0; v < nv; v++) x[v] = w_load(b + 8 * v);
        EACH(acc[o][v] = w_fma(w_set(a[o * a_out]), x[v], acc[o][v]));
    }
    if (t->mode == QN_OUTER_add) EACH(acc[o][v] = w_add(w_load(y + o * y_stride + 8 * v), acc[o][v]));
    EACH(w_store(y + o * y_stride + 8 * v, acc[o][v]));
}

#define BLOCKS(NV, NO) \
    for (; o + (NO) <= t->n_out; o += (NO)) block(t, t->y + o * t->y_stride + l, t->a + o * t->a_out, t->b + l, NV, NO)

void FN(outer_f64)(const qn_outer_f64 *t)
{
    int64_t l = 0;
    for (; l + 16 <= t->n_lanes; l += 16) {
        int64_t o = 0;
        BLOCKS(2, 6);
        BLOCKS(2, 1);
    }
    for (; l < t->n_lanes; l += 8) {
        int64_t o = 0;
        BLOCKS(1, 6);
        BLOCKS(1, 1);
    }
}
