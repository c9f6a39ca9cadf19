/* SPDX-License-Identifier: MIT */
/* tests/check/gather.h -- rows of numbers from scattered cells: the bits that the plain conversion gives, nothing else
 * written. */
#include "check.h"

typedef void (*gather_fn)(float *y, int64_t y_stride, const void *base, int64_t cell_bytes, const int32_t *cell,
                          int64_t n_cells, int64_t n);

static void gather_case(check *t, gather_fn fn, qn_dtype dtype, int64_t n, int32_t cells, check_place place)
{
    enum { EXIST = 40 };
    const int64_t row_bytes = qn_dtype_row_bytes(dtype, n), cell_bytes = row_bytes + 6, y_stride = n + 3;
    const int64_t n_y = cells > 0 ? (cells - 1) * y_stride + n : 0;
    uint8_t *base = check_buffer(t, 0, (size_t)((EXIST - 1) * cell_bytes + row_bytes), 2, place);
    float *y = check_floats(t, 1, n_y, place), *want = malloc((size_t)n_y * 4 + 4);
    int32_t *cell = check_buffer(t, 2, (size_t)cells * 4, 4, CHECK_AT_END);
    check_where(t, "%lld elements of %d cells, place %d", (long long)n, cells, place);
    for (int64_t i = 0; i < (EXIST - 1) * cell_bytes + row_bytes; i++) base[i] = (uint8_t)check_random(t);
    for (int64_t i = 0; i < n_y; i++) y[i] = want[i] = -1;
    for (int32_t c = 0; c < cells; c++) {
        cell[c] = (int32_t)(check_random(t) % EXIST);
        qn__quant_get(dtype)->unpack(base + cell[c] * cell_bytes, want + c * y_stride, n);
    }
    fn(y, y_stride, base, cell_bytes, cell, cells, n);
    check_intact(t);
    check_same(t, y, want, n_y, "by quant");
    free(want);
}

static void gather_check(check *t, gather_fn fn, qn_dtype dtype)
{
    if (t->bench) {
        uint8_t *base = check_buffer(t, 0, (size_t)qn_dtype_row_bytes(dtype, 64 * 64), 2, CHECK_AT_START);
        float *y = check_floats(t, 1, 64 * 64, CHECK_AT_START);
        int32_t cell[64];
        memset(base, 0, (size_t)qn_dtype_row_bytes(dtype, 64 * 64));
        for (int i = 0; i < 64; i++) cell[i] = i;
        CHECK_BENCH(t, t->row, "G elements/s", 64 * 64, fn(y, 64, base, qn_dtype_row_bytes(dtype, 64), cell, 64, 64));
        return;
    }
    static const int16_t sizes[] = {0, 1, 2, 15, 16, 17, 40, 64, 129};
    const int64_t block = qn_dtype_get(dtype)->block_elems;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int32_t cells = 0; cells <= 39; cells += cells < 2 ? 1 : 37)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++)
                if (block == 1 || place != CHECK_SHIFTED)
                    gather_case(t, fn, dtype, sizes[i] * (block == 1 ? 1 : block), cells, (check_place)place);
}
