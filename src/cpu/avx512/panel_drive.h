/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/panel_drive.h -- what drivers of panels of 32 rows share, here and in amx. The sums of a column lie
 * side by side until all of k is done. */
#ifndef QN_CPU_AVX512_PANEL_DRIVE_H
#define QN_CPU_AVX512_PANEL_DRIVE_H

#include "cpu/avx512/lanes.h"
#include "cpu/dispatch.h"
#include "cpu/kernel/prefetch.h"

enum { PANEL_ROWS = 32 };

/* Pointers to sixteen rows; past the end the last one repeats, and is not stored. */
static inline void panel_rows(const qn_mm_args *a, int32_t first_row, const uint8_t *row[16])
{
    for (int r = 0; r < 16; r++) {
        const int32_t at = first_row + r;
        row[r] = a->w + (size_t)(at < a->rows ? at : a->rows - 1) * a->w_row_bytes;
    }
}

/* Not memset: compilers make rep stos of one as short as this, which took 18 % of the time. n: a multiple of 16. */
static inline void panel_clear(float *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) {
        lanes none = l_set(0);
        __asm__("" : "+v"(none));
        l_store(sums + i, none);
    }
}

/* sums: [n_cols][PANEL_ROWS] */
static inline void panel_store(const qn_mm_args *a, int32_t first_row, int32_t first_col, int n_cols, const float *sums)
{
    const int32_t n_rows = a->rows - first_row;
    for (int c = 0; c < n_cols; c++, sums += PANEL_ROWS) {
        float *y = a->y + (first_col + c) * a->y_stride + first_row;
        l_store_n(y, n_rows < 16 ? n_rows : 16, l_load(sums));
        if (n_rows > 16) l_store_n(y + 16, n_rows < 32 ? n_rows - 16 : 16, l_load(sums + 16));
    }
}

/* Prefetches y: its columns are far apart, so that each store would wait for its line. */
static inline void panel_fetch_y(const qn_mm_args *a, int32_t first_row, int32_t first_col, int n_cols)
{
    for (int c = 0; c < n_cols; c++) {
        const float *y = a->y + (first_col + c) * a->y_stride + first_row;
        __builtin_prefetch(y, 1);
        __builtin_prefetch(y + (a->rows - first_row > 16 ? 16 : 0), 1);
    }
}

/* Rows [from, to) of the next slice, while this one is multiplied. */
static inline void panel_prefetch_rows(const qn_mm_args *a, const uint8_t *w, size_t bytes, int32_t from, int32_t to)
{
    prefetch_rows(w, a->w_row_bytes, bytes, from, to);
}

#endif
