/* SPDX-License-Identifier: MIT */
/* tests/check/outer_i16.c -- a product of two matrices of int16: exact sums, so the bits of sums made here in 64 bits;
 * nothing outside y is written. */
#include "check.h"

typedef struct product {
    int64_t lanes, out, in;
    bool in_dense;
    int mode; /* 0: lane scales, 1: both, 2: both and a start */
} product;

/* Up to 2^12 keeps 2 * 130 products within int32; the extremes go in pairs that cancel. */
static void fill_pairs(check *t, int16_t *x, int64_t n, int16_t extreme)
{
    for (int64_t i = 0; i < n; i += 2) {
        x[i] = (int16_t)(check_random(t) % 4096 - 2048);
        x[i + 1] = (int16_t)(check_random(t) % 4096 - 2048);
        if (extreme && i == 0) x[i] = 32767, x[i + 1] = extreme;
    }
}

static void one_case(check *t, const product *p, check_place place)
{
    const int64_t y_stride = p->lanes + 3, b_stride = p->lanes + 5, a_other = (p->in_dense ? p->in : p->out) + 2;
    const int64_t n_a = 2 * (p->in_dense ? p->out : p->in) * a_other, n_b = 2 * p->in * b_stride,
                  n_y = p->out * y_stride;
    float *y = check_floats(t, 0, n_y, place), *want = malloc((size_t)n_y * 4 + 4);
    int16_t *a = check_buffer(t, 1, (size_t)n_a * 2, 2, place), *b = check_buffer(t, 2, (size_t)n_b * 2, 2, place);
    float *out_scale = check_floats(t, 3, p->out, place), *lane_scale = check_floats(t, 4, p->lanes, place);
    float *out_start = check_floats(t, 5, p->out, place);
    check_where(t, "%lld lanes, %lld out, %lld in, %s dense, mode %d", (long long)p->lanes, (long long)p->out,
                (long long)p->in, p->in_dense ? "in" : "out", p->mode);
    fill_pairs(t, a, n_a, 32767);
    fill_pairs(t, b, n_b, -32767);
    check_fill(t, out_scale, p->out, CHECK_FILL_random);
    check_fill(t, lane_scale, p->lanes, CHECK_FILL_wide);
    check_fill(t, out_start, p->out, CHECK_FILL_random);
    check_fill(t, want, n_y, CHECK_FILL_random);
    if (n_y) memcpy(y, want, (size_t)n_y * 4);
    const qn_outer_i16 args = {.y = y,
                               .a = a,
                               .b = b,
                               .out_scale = p->mode > 0 ? out_scale : NULL,
                               .out_start = p->mode > 1 ? out_start : NULL,
                               .lane_scale = lane_scale,
                               .y_stride = y_stride,
                               .a_out = p->in_dense ? a_other : 1,
                               .a_in = p->in_dense ? 1 : a_other,
                               .b_stride = b_stride,
                               .n_lanes = p->lanes,
                               .n_out = p->out,
                               .n_in = p->in};
    for (int64_t o = 0; o < p->out; o++)
        for (int64_t l = 0; l < p->lanes; l++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < p->in; i++)
                for (int h = 0; h < 2; h++)
                    sum += a[2 * (o * args.a_out + i * args.a_in) + h] * b[2 * (i * b_stride + l) + h];
            const float scale = p->mode > 0 ? out_scale[o] * lane_scale[l] : lane_scale[l];
            float *w = want + o * y_stride + l;
            *w = fmaf((float)sum, scale, p->mode > 1 ? out_start[o] : *w);
        }
    t->kernels->outer_i16(&args);
    check_intact(t);
    check_same(t, y, want, n_y, "exact sums give, or between the rows");
    free(want);
}

CHECK_KERNEL(outer_i16)
{
    if (t->bench) {
        static const int32_t lanes[] = {64, 64, 128, 64}, out[] = {128, 64, 8, 8}, in[] = {32, 8, 32, 8};
        for (int i = 0; i < 4; i++) {
            const bool in_dense = i != 1;
            float *y = check_floats(t, 0, out[i] * lanes[i], CHECK_AT_START),
                  *scale = check_floats(t, 3, 128, CHECK_AT_START);
            int16_t *a = check_buffer(t, 1, (size_t)(out[i] * in[i]) * 4, 2, CHECK_AT_START);
            int16_t *b = check_buffer(t, 2, (size_t)(in[i] * lanes[i]) * 4, 2, CHECK_AT_START);
            fill_pairs(t, a, 2 * out[i] * in[i], 0);
            fill_pairs(t, b, 2 * in[i] * lanes[i], 0);
            check_fill(t, scale, 128, CHECK_FILL_random);
            const qn_outer_i16 args = {.y = y,
                                       .a = a,
                                       .b = b,
                                       .out_scale = in_dense ? scale : NULL,
                                       .out_start = in_dense ? scale : NULL,
                                       .lane_scale = scale,
                                       .y_stride = lanes[i],
                                       .a_out = in_dense ? in[i] : 1,
                                       .a_in = in_dense ? 1 : out[i],
                                       .b_stride = lanes[i],
                                       .n_lanes = lanes[i],
                                       .n_out = out[i],
                                       .n_in = in[i]};
            char what[64];
            if (!in_dense) memset(y, 0, (size_t)(out[i] * lanes[i]) * 4);
            snprintf(what, sizeof what, "%s, %d x %d x %d pairs", t->row, lanes[i], out[i], in[i]);
            CHECK_BENCH(t, what, "Gop/s", 4.0 * lanes[i] * out[i] * in[i], t->kernels->outer_i16(&args));
        }
        return;
    }
    static const int16_t outs[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 23, 24, 25, 47},
                         ins[] = {0, 1, 2, 3, 4, 5, 7, 8, 63, 130};
    for (int64_t lanes = 16; lanes <= 144; lanes += 16)
        for (size_t o = 0; o < sizeof outs / sizeof outs[0]; o++)
            for (size_t i = 0; i < sizeof ins / sizeof ins[0]; i++) {
                const product p = {.lanes = lanes,
                                   .out = outs[o],
                                   .in = ins[i],
                                   .in_dense = (lanes / 16 + (int64_t)o + (int64_t)i) % 2,
                                   .mode = (int)((o + i) % 3)};
                one_case(t, &p, (check_place)((o * 3 + i) % CHECK_PLACE_COUNT));
            }
}
