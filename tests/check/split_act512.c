/* SPDX-License-Identifier: MIT */
/* tests/check/split_act512.c -- columns as two bfloat16: within 2^-17 of what they were, zeros after their end, damage stays visible. */
#include "check.h"

static double part(qn_act512 *y, int64_t i, int p) { return (double)y[i / 512].x[p][i % 512]; }

static void verdict(check *t, const float *x, qn_act512 *y, int64_t n)
{
    for (int64_t i = 0; i < (n + 511) / 512 * 512; i++) {
        const double v = i < n ? (double)x[i] : 0, got = part(y, i, 0) + part(y, i, 1);
        t->n_checks++;
        if (fabs(v) < 3.389e38 ? fabs(got - v) > 0x1p-17 * fabs(v) + FLT_MIN : isfinite(got))
            check_fail(t, "element %lld: %a became %a + %a", (long long)i, v, part(y, i, 0), part(y, i, 1));
    }
}

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    const size_t bytes = (size_t)(n + 511) / 512 * sizeof(qn_act512);
    float *x = check_floats(t, 0, n, place);
    qn_act512 *y = check_buffer(t, 1, bytes, 4, place), *ref = check_buffer(t, 2, bytes, 4, place);
    check_fill(t, x, n, fill);
    t->ukr->split_act512(y, x, n);
    t->ref->split_act512(ref, x, n);
    check_intact(t);
    for (int64_t i = 0; i < (n + 511) / 512 * 512; i++) /* NaNs may differ in their bits */
        for (int p = 0; p < 2; p++)
            if (isnan(part(y, i, p)) && isnan(part(ref, i, p)))
                ref[i / 512].x[p][i % 512] = y[i / 512].x[p][i % 512];
    check_same_bytes(t, y, ref, bytes, "at level ref");
    verdict(t, x, y, n);
}

CHECK_UKR(split_act512)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        qn_act512 *y = check_buffer(t, 1, (CHECK_BENCH_N + 511) / 512 * sizeof *y, 4, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 12 * CHECK_BENCH_N, t->ukr->split_act512(y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill), place);
                one_case(t, *n, (check_fill_kind)fill, (check_place)place);
            }
}
