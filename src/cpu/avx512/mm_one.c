/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_one.c -- which sixteen rows are read together.
 *
 * The lanes take rows that lie far apart, each a run of its own: sixteen sequential streams that the processor's prefetcher
 * follows by itself. Measured on 2 cores of Sapphire Rapids, Q4_K, weights from memory, share of the read bandwidth: runs of 1 row 60 %,
 * 3 rows 78 %, 9 rows 88 %, 33 rows 92 %; software prefetch adds nothing to that. Streams a multiple of 4 KiB apart would share
 * the sets of the first-level cache (86 %). */
#include "cpu/avx512/mm_one.h"

enum { SETS_BYTES = 4096, TOO_CLOSE = 256 };

/* The length of a run: rows between two lanes. */
static int32_t run_of(int32_t rows, size_t row_bytes)
{
    const int32_t longest = rows / 16;
    for (int32_t run = longest; run > 0 && run > longest - 4; run--) {
        const size_t at = (size_t)run * row_bytes % SETS_BYTES;
        if (at >= TOO_CLOSE && at <= SETS_BYTES - TOO_CLOSE) return run;
    }
    return longest;
}

/* Rows first, first + apart, ... */
static void sixteen(const qn_mm_args *a, int64_t n, qn_one_fn fn, int32_t first_row, int32_t apart)
{
    const uint8_t *w = a->w + (size_t)first_row * a->w_row_bytes;
    const __m512i at = _mm512_mullo_epi32(_mm512_set1_epi32(apart), _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    for (int32_t c = 0; c < a->cols; c++) {
        const __m512 y = fn(w, (size_t)apart * a->w_row_bytes, (const uint8_t *)a->x + (size_t)c * a->x_row_bytes, n);
        float *to = a->y + c * a->y_stride + first_row;
        if (apart == 1) _mm512_storeu_ps(to, y);
        else if (apart == 0) *to = _mm512_cvtss_f32(y);
        else _mm512_i32scatter_ps(to, at, y, 4);
    }
}

/* Rows that fill no sixteen are done again with their neighbours before, or, where there are none, each in all lanes. */
void qn__avx512_one(const qn_mm_args *a, int64_t n, qn_one_fn fn)
{
    int32_t at = 0;
    while (a->rows - at >= 16) {
        const int32_t run = run_of(a->rows - at, a->w_row_bytes);
        for (int32_t i = 0; i < run; i++) sixteen(a, n, fn, at + i, run);
        at += 16 * run;
    }
    if (at == a->rows) return;
    if (a->rows >= 16) sixteen(a, n, fn, a->rows - 16, 1);
    else for (; at < a->rows; at++) sixteen(a, n, fn, at, 0);
}

void qn__avx512_mm_one_init(qn_ukr *ukr)
{
    qn__avx512_one_32_init(ukr);
    qn__avx512_one_256_init(ukr);
}
