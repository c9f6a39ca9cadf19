/* SPDX-License-Identifier: MIT */
/* tests/check/halves.c -- 16-bit floats against their definition. */
#include "halves.h"

static int infinity(const check_half *half) { return 0x7fff >> half->bits << half->bits; }

/* ---- to one ---------------------------------------------------------------------------------- */

/* x in units of its last place, rounded in double. */
static uint16_t nearest(const check_half *half, float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs((double)x);
    if (isinf(x)) return (uint16_t)(sign | infinity(half));
    uint64_t u;
    memcpy(&u, &a, 8); /* a float is no subnormal double, but for zeros */
    const int e = (int)(u >> 52) - 1023 < half->emin ? half->emin : (int)(u >> 52) - 1023;
    u = (uint64_t)(1023 + half->bits - e) << 52;
    double scale;
    memcpy(&scale, &u, 8);
    const double units = a * scale + 0x1p52 - 0x1p52; /* up to 2^(bits + 1), a whole number of them */
    /* a carry runs into the exponent, as it should */
    const int64_t bits = ((int64_t)(e - half->emin) << half->bits) + (int64_t)units;
    return (uint16_t)(sign | (bits < infinity(half) ? bits : infinity(half)));
}

static void packed_well(check *t, const check_half *half, const float *x, const uint16_t *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const bool nan = (y[i] & 0x7fff) > infinity(half);
        t->n_checks++;
        if (isnan(x[i]) ? !nan : y[i] != nearest(half, x[i])) check_fail(t, "%a became %04x", (double)x[i], y[i]);
    }
}

static void pack_case(check *t, const check_half *half, int64_t n, check_fill_kind fill, check_place place)
{
    float *x = check_floats(t, 0, n, place);
    uint16_t *y = check_buffer(t, 1, (size_t)n * 2, 2, place), *ref = check_buffer(t, 2, (size_t)n * 2, 2, place);
    check_fill(t, x, n, fill);
    half->pack(t->kernels, y, x, n);
    half->pack(t->ref, ref, x, n);
    check_intact(t);
    check_same_bytes(t, y, ref, (size_t)n * 2, "at level ref");
    packed_well(t, half, x, y, n);
}

static void pack_dense(check *t, const check_half *half)
{
    enum { N = 1024 };
    const uint32_t tie = UINT32_C(1) << (22 - half->bits); /* half of the last place */
    float x[N];
    uint16_t y[N], ref[N];
    check_where(t, "one float in 1021, and all that are halfway");
    for (uint64_t bits = 0; bits >> 32 == 0;) {
        int n = 0;
        for (; n + 1 < N && bits >> 32 == 0; bits += 1021) {
            uint32_t u = (uint32_t)bits;
            memcpy(&x[n++], &u, 4);
            u = (u & ~(2 * tie - 1)) | tie;
            memcpy(&x[n++], &u, 4);
        }
        half->pack(t->kernels, y, x, n);
        half->pack(t->ref, ref, x, n);
        check_same_bytes(t, y, ref, (size_t)n * 2, "at level ref");
        packed_well(t, half, x, y, n);
    }
}

void check_half_pack(check *t, const check_half *half)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        uint16_t *y = check_buffer(t, 1, CHECK_BENCH_N * 2, 2, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 6 * CHECK_BENCH_N, half->pack(t->kernels, y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
                check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill),
                            place);
                pack_case(t, half, *n, (check_fill_kind)fill, (check_place)place);
            }
    pack_dense(t, half);
}

/* ---- from one -------------------------------------------------------------------------------- */

static double value(const check_half *half, uint16_t h)
{
    const int one = 1 << half->bits, exponent = (h & 0x7fff) / one, significand = h % one;
    const double sign = h >> 15 ? -1 : 1;
    if (exponent == 0x7fff / one) return significand ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(one + significand, exponent - 1 + half->emin - half->bits)
                            : ldexp(significand, half->emin - half->bits));
}

static void unpack_case(check *t, const check_half *half, int64_t n, check_place place, uint16_t first)
{
    uint16_t *x = check_buffer(t, 0, (size_t)n * 2, 2, place);
    float *y = check_floats(t, 1, n, place), *ref = check_floats(t, 2, n, place);
    for (int64_t i = 0; i < n; i++) x[i] = (uint16_t)(first + i * 40503); /* odd: 65536 in a row are all there are */
    half->unpack(t->kernels, y, x, n);
    half->unpack(t->ref, ref, x, n);
    check_intact(t);
    check_same(t, y, ref, n, "at level ref");
    for (int64_t i = 0; i < n; i++) check_close(t, y[i], value(half, x[i]), 0, x[i]);
    for (int64_t i = 0; i < n; i++)
        if (y[i] == 0) check_close(t, signbit(y[i]) != 0, x[i] >> 15, 0, x[i]);
}

void check_half_unpack(check *t, const check_half *half)
{
    if (t->bench) {
        uint16_t *x = check_buffer(t, 0, CHECK_BENCH_N * 2, 2, CHECK_AT_START);
        float *y = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        memset(x, 0x3c, CHECK_BENCH_N * 2);
        CHECK_BENCH(t, t->row, "GB/s", 6 * CHECK_BENCH_N, half->unpack(t->kernels, y, x, CHECK_BENCH_N));
        return;
    }
    for (int place = 0; place < CHECK_PLACE_COUNT; place++) {
        check_where(t, "every value, place %d", place);
        unpack_case(t, half, 65536, (check_place)place, 0);
        for (const int64_t *n = check_sizes; *n >= 0; n++) {
            check_where(t, "n %lld, place %d", (long long)*n, place);
            unpack_case(t, half, *n, (check_place)place, (uint16_t)check_random(t));
        }
    }
}
