/* SPDX-License-Identifier: MIT */
/* tests/check/quantize_act.c -- activations within half a step, 0 exactly 0, sums that are sums; damaged blocks stay
 * visible. */
#include "check.h"

static void verdict(check *t, const float *x, const qn_act *a)
{
    double lo = 0, hi = 0;
    bool finite = true;
    for (int i = 0; i < 32; i++) {
        finite = finite && isfinite(x[i]);
        lo = fmin(lo, x[i]);
        hi = fmax(hi, x[i]);
    }
    const bool zeros = !finite || hi - lo < 0x1p-100;
    const double d = !finite ? NAN : zeros ? 0 : (hi - lo) / 254;
    check_close(t, a->d, d, 2 * FLT_EPSILON * d, -1);
    check_close(t, a->zero, zeros ? 0 : -127 - lo / d, 0.5001, -2);
    int sum[2] = {0};
    for (int i = 0; i < 32; i++) {
        const int q = a->q[i] - a->zero;
        sum[i / 16] += q;
        check_close(t, a->q[i], 0, 127, i);
        if (zeros) check_close(t, q, 0, 0, i);
        else check_close(t, a->d * (double)q, x[i], (0.5 + 1e-4) * d, i);
        if (x[i] == 0) check_close(t, q, 0, 0, i);
    }
    check_close(t, a->half[0], sum[0], 0, -3);
    check_close(t, a->half[1], sum[1], 0, -4);
    check_close(t, a->sum, sum[0] + sum[1], 0, -5);
}

static void one_case(check *t, int64_t n, check_fill_kind fill, check_place place)
{
    const size_t bytes = (size_t)n / 32 * sizeof(qn_act);
    float *x = check_floats(t, 0, n, place);
    qn_act *y = check_buffer(t, 1, bytes, 4, place), *ref = check_buffer(t, 2, bytes, 4, place);
    check_fill(t, x, n, fill);
    for (int64_t i = 0; i < n && fill == CHECK_FILL_random; i += 7) x[i] = 0;
    t->ukr->quantize_act(y, x, n);
    t->ref->quantize_act(ref, x, n);
    check_intact(t);
    for (int64_t b = 0; b < n / 32; b++) {
        check_same(t, &y[b].d, &ref[b].d, 1, "at level ref, a scale");
        check_same_bytes(t, &y[b].sum, &ref[b].sum, sizeof(qn_act) - sizeof(float), "at level ref");
        verdict(t, x + b * 32, &y[b]);
    }
}

CHECK_UKR(quantize_act)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        qn_act *y = check_buffer(t, 1, CHECK_BENCH_N / 32 * sizeof(qn_act), 4, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", CHECK_BENCH_N * (4 + sizeof(qn_act) / 32.0), t->ukr->quantize_act(y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes_32; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++)
                for (int times = 0; times < 4; times++) {
                    check_where(t, "n %lld, fill %s, place %d", (long long)*n, check_fill_name((check_fill_kind)fill), place);
                    one_case(t, *n, (check_fill_kind)fill, (check_place)place);
                }
}
