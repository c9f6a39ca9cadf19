/* SPDX-License-Identifier: MIT */
/* tests/check/split_act_bf16.c -- columns as two bfloat16: within 2^-17 of what they were, zeros after their end, damage stays visible. */
#include "check.h"

static double part(qn_act_bf16 *y, int64_t i, int p)
{
    const uint32_t u = (uint32_t)y[i / 32].x[i % 32 / 2][p][i % 2] << 16;
    float f;
    memcpy(&f, &u, 4);
    return (double)f;
}

static void verdict(check *t, const float *x, qn_act_bf16 *y, int64_t n)
{
    for (int64_t i = 0; i < (n + 31) / 32 * 32; i++) {
        const double v = i < n ? (double)x[i] : 0, got = part(y, i, 0) + part(y, i, 1);
        t->n_checks++;
        if (fabs(v) < 3.389e38 ? fabs(got - v) > 0x1p-17 * fabs(v) + FLT_MIN : isfinite(got))
            check_fail(t, "element %lld: %a became %a + %a", (long long)i, v, part(y, i, 0), part(y, i, 1));
    }
}

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    const size_t bytes = (size_t)(n + 31) / 32 * sizeof(qn_act_bf16);
    float *x = check_floats(t, 0, n, place);
    qn_act_bf16 *y = check_buffer(t, 1, bytes, 2, place), *ref = check_buffer(t, 2, bytes, 2, place);
    check_fill(t, x, n, fill);
    t->ukr->split_act_bf16(y, x, n);
    t->ref->split_act_bf16(ref, x, n);
    check_intact(t);
    for (int64_t i = 0; i < (n + 31) / 32 * 32; i++) /* NaNs may differ in their bits */
        for (int p = 0; p < 2; p++)
            if (isnan(part(y, i, p)) && isnan(part(ref, i, p)))
                ref[i / 32].x[i % 32 / 2][p][i % 2] = y[i / 32].x[i % 32 / 2][p][i % 2];
    check_same_bytes(t, y, ref, bytes, "at level ref");
    verdict(t, x, y, n);
}

CHECK_UKR(split_act_bf16)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        qn_act_bf16 *y = check_buffer(t, 1, CHECK_BENCH_N * 4, 2, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 8 * CHECK_BENCH_N, t->ukr->split_act_bf16(y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill), place);
                one_case(t, *n, (check_fill_kind)fill, (check_place)place);
            }
}
