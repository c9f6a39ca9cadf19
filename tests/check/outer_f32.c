/* SPDX-License-Identifier: MIT */
/* tests/check/outer_f32.c -- a product of two matrices of floats: near the exact one, the reference level's bits,
 * whichever of a's dimensions is dense; nothing outside y is written. */
#include "check.h"

typedef struct product {
    int64_t lanes, out, in;
    bool in_dense;
    qn_outer_mode mode;
} product;

static void one_case(check *t, const product *p, check_fill_kind fill, check_place place)
{
    const int64_t gap = 3, y_stride = p->lanes + gap, b_stride = p->lanes + 5,
                  a_other = (p->in_dense ? p->in : p->out) + 2;
    const int64_t n_a = (p->in_dense ? p->out : p->in) * a_other, n_y = p->out * y_stride, n_b = p->in * b_stride;
    float *y = check_floats(t, 0, n_y, place), *a = check_floats(t, 1, n_a, place), *b = check_floats(t, 2, n_b, place);
    float *ref = malloc((size_t)n_y * 4 + 4), *old = malloc((size_t)n_y * 4 + 4);
    check_where(t, "%lld lanes, %lld out, %lld in, %s dense, mode %d, fill %s", (long long)p->lanes, (long long)p->out,
                (long long)p->in, p->in_dense ? "in" : "out", p->mode, check_fill_name(fill));
    check_fill(t, a, n_a, fill);
    check_fill(t, b, n_b, CHECK_FILL_random);
    check_fill(t, old, n_y, CHECK_FILL_random);
    memcpy(ref, old, (size_t)n_y * 4);
    if (n_y) memcpy(y, old, (size_t)n_y * 4);
    qn_outer args = {.y = y,
                     .a = a,
                     .b = b,
                     .y_stride = y_stride,
                     .a_out = p->in_dense ? a_other : 1,
                     .a_in = p->in_dense ? 1 : a_other,
                     .b_stride = b_stride,
                     .n_lanes = p->lanes,
                     .n_out = p->out,
                     .n_in = p->in,
                     .mode = p->mode};
    t->kernels->outer_f32(&args);
    check_intact(t);
    args.y = ref;
    t->ref->outer_f32(&args);
    check_same(t, y, ref, n_y, "at level ref, or between the rows");
    for (int64_t o = 0; o < p->out && check_fill_finite(fill); o++)
        for (int64_t l = 0; l < p->lanes; l += 7) {
            double want = p->mode == QN_OUTER_set ? 0 : old[o * y_stride + l], size = fabs(want);
            for (int64_t i = 0; i < p->in; i++) {
                const double x = (double)a[o * args.a_out + i * args.a_in] * b[i * b_stride + l];
                want += x;
                size += fabs(x);
            }
            check_close(t, y[o * y_stride + l], want, (double)(p->in + 1) * (FLT_EPSILON * size + FLT_TRUE_MIN),
                        o * y_stride + l);
        }
    free(ref);
    free(old);
}

CHECK_KERNEL(outer_f32)
{
    if (t->bench) {
        static const int32_t lanes[] = {64, 64, 64, 16, 64}, out[] = {512, 64, 64, 64, 8}, in[] = {128, 64, 64, 64, 64};
        for (int i = 0; i < 5; i++) {
            const bool in_dense = i != 2 && i != 4;
            float *y = check_floats(t, 0, out[i] * lanes[i], CHECK_AT_START),
                  *a = check_floats(t, 1, out[i] * in[i], CHECK_AT_START);
            float *b = check_floats(t, 2, in[i] * lanes[i], CHECK_AT_START);
            check_fill(t, a, out[i] * in[i], CHECK_FILL_random);
            check_fill(t, b, in[i] * lanes[i], CHECK_FILL_random);
            const qn_outer args = {.y = y,
                                   .a = a,
                                   .b = b,
                                   .y_stride = lanes[i],
                                   .a_out = in_dense ? in[i] : 1,
                                   .a_in = in_dense ? 1 : out[i],
                                   .b_stride = lanes[i],
                                   .n_lanes = lanes[i],
                                   .n_out = out[i],
                                   .n_in = in[i]};
            char what[64];
            snprintf(what, sizeof what, "%s, %d x %d x %d", t->row, lanes[i], out[i], in[i]);
            CHECK_BENCH(t, what, "Gflop/s", 2.0 * lanes[i] * out[i] * in[i], t->kernels->outer_f32(&args));
        }
        return;
    }
    static const int16_t outs[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 23, 24, 25, 47, 61},
                         ins[] = {0, 1, 2, 3, 4, 5, 7, 8, 63, 130};
    for (int64_t lanes = 16; lanes <= 144; lanes += 16)
        for (size_t o = 0; o < sizeof outs / sizeof outs[0]; o++)
            for (size_t i = 0; i < sizeof ins / sizeof ins[0]; i++) {
                const product p = {.lanes = lanes,
                                   .out = outs[o],
                                   .in = ins[i],
                                   .in_dense = (lanes / 16 + (int64_t)o + (int64_t)i) % 2,
                                   .mode = (qn_outer_mode)((o + i) % 3)};
                one_case(t, &p, (check_fill_kind)(check_random(t) % CHECK_FILL_COUNT),
                         (check_place)((o * 3 + i) % CHECK_PLACE_COUNT));
            }
    for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
        one_case(t, &(product){.lanes = 64, .out = 7, .in = 33, .in_dense = fill % 2}, (check_fill_kind)fill,
                 CHECK_AT_END);
}
