/* SPDX-License-Identifier: MIT */
/* tests/check/attn_score_skinny.c -- scores of few rows: exact sums, so the bits of sums made here in 64 bits; what
 * lies between the rows stays. */
#include "check.h"

#include <math.h>

enum { SCORE_ROWS = 16, SCORE_CELLS = 128, SCORE_N = 256 };

static void fill_halves(check *t, int16_t *x, int64_t n) /* 256 products of up to 2^11 stay within int32 */
{
    for (int64_t i = 0; i < n; i++) x[i] = (int16_t)(check_random(t) % 4096 - 2048);
}

static void one_case(check *t, int64_t rows, int64_t cells, int64_t n, check_place place)
{
    static float want[SCORE_ROWS * (SCORE_CELLS + 3)];
    const int64_t lanes = (cells + 15) / 16 * 16, s_stride = lanes + 3, q_stride = n + 16, n_s = rows * s_stride;
    float *s = check_floats(t, 0, n_s, place), *q_scale = check_floats(t, 1, rows, place),
          *k_scale = check_floats(t, 2, lanes, place);
    int16_t *q = check_buffer(t, 3, (size_t)(rows * q_stride) * 2, 2, place),
            *k = check_buffer(t, 4, (size_t)(lanes * n) * 2, 2, place);
    int16_t *kt = check_buffer(t, 5, (size_t)(lanes * n) * 2, 4, place);
    check_where(t, "%lld rows, %lld cells, %lld elements", (long long)rows, (long long)cells, (long long)n);
    fill_halves(t, q, rows * q_stride);
    fill_halves(t, k, lanes * n);
    if (cells > 0) q[0] = 32767, q[1] = 32767, k[0] = 32767, k[1] = -32767;
    check_fill(t, q_scale, rows, CHECK_FILL_random);
    check_fill(t, k_scale, lanes, CHECK_FILL_wide);
    check_fill(t, want, n_s, CHECK_FILL_random);
    memcpy(s, want, (size_t)n_s * 4);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cells; c++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < n; i++) sum += q[r * q_stride + i] * k[c * n + i];
            want[r * s_stride + c] = fmaf((float)sum, q_scale[r] * k_scale[c], want[r * s_stride + c]);
        }
    t->kernels->attn_score_skinny(s, s_stride, q, q_stride, q_scale, rows, k, k_scale, kt, cells, n);
    check_intact(t);
    for (int64_t r = 0; r < rows; r++) {
        check_same(t, s + r * s_stride, want + r * s_stride, cells, "exact sums give");
        check_same(t, s + r * s_stride + lanes, want + r * s_stride + lanes, 3, "between the rows");
    }
}

CHECK_KERNEL(attn_score_skinny)
{
    if (t->bench) {
        enum { ROWS = 8, N = 64 };
        float *s = check_floats(t, 0, ROWS * SCORE_CELLS, CHECK_AT_END),
              *q_scale = check_floats(t, 1, ROWS, CHECK_AT_END);
        float *k_scale = check_floats(t, 2, SCORE_CELLS, CHECK_AT_END);
        int16_t *q = check_buffer(t, 3, ROWS * N * 2, 2, CHECK_AT_END),
                *k = check_buffer(t, 4, SCORE_CELLS * N * 2, 2, CHECK_AT_END);
        int16_t *kt = check_buffer(t, 5, SCORE_CELLS * N * 2, 4, CHECK_AT_END);
        fill_halves(t, q, ROWS * N);
        fill_halves(t, k, SCORE_CELLS * N);
        check_fill(t, s, ROWS * SCORE_CELLS, CHECK_FILL_random);
        check_fill(t, q_scale, ROWS, CHECK_FILL_random);
        check_fill(t, k_scale, SCORE_CELLS, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "Gop/s", 2.0 * ROWS * SCORE_CELLS * N,
                    t->kernels->attn_score_skinny(s, SCORE_CELLS, q, N, q_scale, ROWS, k, k_scale, kt, SCORE_CELLS, N));
        return;
    }
    for (int64_t rows = 1; rows <= SCORE_ROWS; rows += rows < 4 ? 1 : 4)
        for (int64_t cells = 0; cells <= SCORE_CELLS; cells += cells < 2 ? 1 : cells < 32 ? 7 : 31)
            for (int64_t n = 16; n <= SCORE_N; n *= n < 64 ? 2 : 1, n += n < 64 ? 0 : 64)
                for (int place = 0; place < CHECK_PLACE_COUNT; place++) one_case(t, rows, cells, n, (check_place)place);
}
