/* SPDX-License-Identifier: MIT */
/* tests/check/outer_f64.c -- a product of two matrices of doubles: near the one in long double, the reference level's
 * bits, any strides of a; nothing outside y is written. */
#include "check.h"

static void fill(check *t, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = check_uniform(t, -2, 2);
}

static void one_case(check *t, int64_t lanes, int64_t out, int64_t in, int64_t a_out, int64_t a_in, qn_outer_mode mode,
                     check_place place)
{
    const int64_t y_stride = lanes + 3, b_stride = lanes + 5, n_y = out * y_stride, n_b = in * b_stride;
    const int64_t n_a = out > 0 && in > 0 ? (out - 1) * a_out + (in - 1) * a_in + 1 : 0;
    double *y = check_buffer(t, 0, (size_t)n_y * 8, 8, place), *a = check_buffer(t, 1, (size_t)n_a * 8, 8, place);
    double *b = check_buffer(t, 2, (size_t)n_b * 8, 8, place), *old = malloc((size_t)n_y * 8 + 8),
           *ref = malloc((size_t)n_y * 8 + 8);
    check_where(t, "%lld lanes, %lld out, %lld in, mode %d", (long long)lanes, (long long)out, (long long)in, mode);
    fill(t, a, n_a);
    fill(t, b, n_b);
    fill(t, old, n_y);
    if (n_y) memcpy(y, old, (size_t)n_y * 8);
    memcpy(ref, old, (size_t)n_y * 8);
    qn_outer_f64 args = {.y = y,
                         .a = a,
                         .b = b,
                         .y_stride = y_stride,
                         .a_out = a_out,
                         .a_in = a_in,
                         .b_stride = b_stride,
                         .n_lanes = lanes,
                         .n_out = out,
                         .n_in = in,
                         .mode = mode};
    t->kernels->outer_f64(&args);
    check_intact(t);
    args.y = ref;
    t->ref->outer_f64(&args);
    check_same_bytes(t, y, ref, (size_t)n_y * 8, "at level ref, or between the rows");
    for (int64_t o = 0; o < out; o++)
        for (int64_t l = 0; l < lanes; l += 3) {
            long double want = mode == QN_OUTER_set ? 0 : old[o * y_stride + l], size = want < 0 ? -want : want;
            for (int64_t i = 0; i < in; i++) {
                const long double x = (long double)a[o * a_out + i * a_in] * b[i * b_stride + l];
                want += x;
                size += x < 0 ? -x : x;
            }
            check_close(t, y[o * y_stride + l], (double)want, (double)(in + 1) * DBL_EPSILON * (double)size,
                        o * y_stride + l);
        }
    free(old);
    free(ref);
}

CHECK_KERNEL(outer_f64)
{
    if (t->bench) {
        double *y = check_buffer(t, 0, 64 * 48 * 8, 8, CHECK_AT_START),
               *a = check_buffer(t, 1, 64 * 128 * 8, 8, CHECK_AT_START);
        double *b = check_buffer(t, 2, 128 * 48 * 8, 8, CHECK_AT_START);
        fill(t, a, 64 * 128);
        fill(t, b, 128 * 48);
        const qn_outer_f64 args = {.y = y,
                                   .a = a,
                                   .b = b,
                                   .y_stride = 48,
                                   .a_out = 128,
                                   .a_in = 1,
                                   .b_stride = 48,
                                   .n_lanes = 48,
                                   .n_out = 64,
                                   .n_in = 128};
        CHECK_BENCH(t, "outer_f64, 48 x 64 x 128", "Gflop/s", 2.0 * 48 * 64 * 128, t->kernels->outer_f64(&args));
        return;
    }
    static const int8_t outs[] = {0, 1, 2, 5, 6, 7, 11, 12, 25}, ins[] = {0, 1, 2, 3, 4, 5, 63};
    for (int64_t lanes = 8; lanes <= 56; lanes += 8)
        for (size_t o = 0; o < sizeof outs; o++)
            for (size_t i = 0; i < sizeof ins; i++) {
                const bool dense = (lanes / 8 + (int64_t)o + (int64_t)i) % 2;
                one_case(t, lanes, outs[o], ins[i], dense ? ins[i] + 2 : 1, dense ? 1 : outs[o] + 3,
                         (qn_outer_mode)((o + i) % 3), (check_place)((o * 3 + i) % CHECK_PLACE_COUNT));
            }
    one_case(t, 16, 9, 17, 2, 40, QN_OUTER_set, CHECK_AT_END);
    one_case(t, 24, 6, 5, 0, 0, QN_OUTER_add, CHECK_AT_END);
}
