/* SPDX-License-Identifier: MIT */
/* tests/check/transpose_f32.c -- every number arrives where it belongs, and nothing else is written. */
#include "check.h"

static void one_case(check *t, int64_t rows, int64_t cols, check_place place)
{
    const int64_t x_stride = cols + 1, y_stride = rows + 2, n_x = rows ? (rows - 1) * x_stride + cols : 0;
    const int64_t n_y = cols ? (cols - 1) * y_stride + rows : 0;
    float *x = check_floats(t, 0, n_x, place), *y = check_floats(t, 1, n_y, place), *want = malloc((size_t)n_y * 4 + 4);
    check_where(t, "%lld rows, %lld columns, place %d", (long long)rows, (long long)cols, place);
    check_fill(t, x, n_x, CHECK_FILL_random);
    for (int64_t i = 0; i < n_y; i++) y[i] = want[i] = -1;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) want[c * y_stride + r] = x[r * x_stride + c];
    t->kernels->transpose_f32(y, y_stride, x, x_stride, rows, cols);
    check_intact(t);
    check_same(t, y, want, n_y, "expected");
    free(want);
}

CHECK_KERNEL(transpose_f32)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START),
              *y = check_floats(t, 1, CHECK_BENCH_N, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", 8 * CHECK_BENCH_N, t->kernels->transpose_f32(y, 64, x, 64, 64, 64));
        return;
    }
    static const int16_t sizes[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 64};
    const size_t n = sizeof sizes / sizeof sizes[0];
    for (size_t r = 0; r < n; r++)
        for (size_t c = 0; c < n; c++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++) one_case(t, sizes[r], sizes[c], (check_place)place);
}
