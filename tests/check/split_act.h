/* SPDX-License-Identifier: MIT */
/* tests/check/split_act.h -- columns as two bfloat16: within 2^-17 of what they were, zeros after their end, damage
 * stays visible. */
#ifndef QN_CHECK_SPLIT_ACT_H
#define QN_CHECK_SPLIT_ACT_H

#include "check.h"

typedef struct split_kind {
    int64_t block;       /* elements */
    size_t bytes, align; /* of a block */
    void (*split)(const qn_kernels *kernels, void *y, const float *x, int64_t n);
    double (*part)(const void *y, int64_t i, int p);
    void (*copy)(void *to, const void *from, int64_t i, int p); /* part p of element i */
} split_kind;

static inline void split_case(check *t, const split_kind *kind, int64_t n, check_fill_kind fill, check_place place)
{
    const int64_t all = (n + kind->block - 1) / kind->block * kind->block;
    const size_t bytes = (size_t)(all / kind->block) * kind->bytes;
    float *x = check_floats(t, 0, n, place);
    void *y = check_buffer(t, 1, bytes, kind->align, place), *ref = check_buffer(t, 2, bytes, kind->align, place);
    check_fill(t, x, n, fill);
    kind->split(t->kernels, y, x, n);
    kind->split(t->ref, ref, x, n);
    check_intact(t);
    for (int64_t i = 0; i < all; i++) {
        const double v = i < n ? (double)x[i] : 0, got = kind->part(y, i, 0) + kind->part(y, i, 1);
        t->n_checks++;
        if (fabs(v) < 3.389e38 ? fabs(got - v) > 0x1p-17 * fabs(v) + FLT_MIN : isfinite(got))
            check_fail(t, "element %lld: %a became %a + %a", (long long)i, v, kind->part(y, i, 0), kind->part(y, i, 1));
        for (int p = 0; p < 2; p++) /* NaNs may differ in their bits */
            if (isnan(kind->part(y, i, p)) && isnan(kind->part(ref, i, p))) kind->copy(ref, y, i, p);
    }
    check_same_bytes(t, y, ref, bytes, "at level ref");
}

static inline void split_check(check *t, const split_kind *kind)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        void *y =
            check_buffer(t, 1, (CHECK_BENCH_N / (size_t)kind->block + 1) * kind->bytes, kind->align, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "G elements/s", CHECK_BENCH_N, kind->split(t->kernels, y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                split_case(t, kind, *n, (check_fill_kind)fill, (check_place)place);
            }
}

#endif
