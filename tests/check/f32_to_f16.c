/* SPDX-License-Identifier: MIT */
/* tests/check/f32_to_f16.c -- nearest binary16, ties to even. */
#include "check.h"

enum { INF = 0x7c00, BITS = 10, EMIN = -14 };

/* Nearest by the definition of the format, ties to even: x in units of its last place, rounded in double. */
static uint16_t nearest(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs((double)x);
    if (isinf(x)) return (uint16_t)(sign | INF);
    int e = a > 0 ? ilogb(a) : EMIN;
    if (e < EMIN) e = EMIN;
    const double units = nearbyint(ldexp(a, BITS - e)); /* up to 2^(BITS + 1) */
    /* a carry runs into the exponent, as it should */
    const int64_t bits = ((int64_t)(e - EMIN) << BITS) + (int64_t)units;
    return (uint16_t)(sign | (bits < INF ? bits : INF));
}

static void verdict(check *t, const float *x, const uint16_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const bool nan = (y[i] & 0x7fff) > INF;
        t->n_checks++;
        if (isnan(x[i]) ? !nan : y[i] != nearest(x[i])) check_fail(t, "%a became %04x", (double)x[i], y[i]);
    }
}

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    float *x = check_floats(t, 0, n, place);
    uint16_t *y = check_buffer(t, 1, (size_t)n * 2, 2, place), *ref = check_buffer(t, 2, (size_t)n * 2, 2, place);
    check_fill(t, x, n, fill);
    t->kernels->f32_to_f16(y, x, n);
    t->ref->f32_to_f16(ref, x, n);
    check_intact(t);
    check_same_bytes(t, y, ref, (size_t)n * 2, "at level ref");
    verdict(t, x, y, n);
}

static void dense(check *t)
{
    enum { N = 1024 };
    float x[N];
    uint16_t y[N], ref[N];
    check_where(t, "one float in 1021, and all that are halfway");
    for (uint64_t bits = 0; bits >> 32 == 0;) {
        int n = 0;
        for (; n + 1 < N && bits >> 32 == 0; bits += 1021) {
            uint32_t u = (uint32_t)bits;
            memcpy(&x[n++], &u, 4);
            u = (u & ~UINT32_C(0x1fff)) | UINT32_C(0x1000);
            memcpy(&x[n++], &u, 4);
        }
        t->kernels->f32_to_f16(y, x, n);
        t->ref->f32_to_f16(ref, x, n);
        check_same_bytes(t, y, ref, (size_t)n * 2, "at level ref");
        verdict(t, x, y, n);
    }
}

CHECK_KERNEL(f32_to_f16)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        uint16_t *y = check_buffer(t, 1, CHECK_BENCH_N * 2, 2, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 6 * CHECK_BENCH_N, t->kernels->f32_to_f16(y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                one_case(t, *n, (check_fill_kind)fill, (check_place)place);
            }
    dense(t);
}
