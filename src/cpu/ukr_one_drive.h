/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_one_drive.h -- products with one column or a few, written once: which columns are taken, and which rows are read, together.
 * A level's mm_one.c defines FN(name) and includes this after its one.h.
 *
 * The lanes take rows that lie far apart, each a run of its own: sequential streams, one a lane, that the processor's
 * prefetcher follows by itself. Measured on 2 cores of Sapphire Rapids, Q4_K, weights from memory, share of the read
 * bandwidth: runs of 1 row 60 %, 3 rows 78 %, 9 rows 88 %, 33 rows 92 %, and with prefetch from L2 to L1 (ukr_one.h) 96 to
 * 100 %. Streams a multiple of 4 KiB apart would share the sets of the first-level cache (86 %). */

enum { SETS_BYTES = 4096, TOO_CLOSE = 256 };

/* The length of a run: rows between two lanes. */
static int32_t run_of(int32_t rows, size_t row_bytes)
{
    const int32_t longest = rows / ROWS;
    for (int32_t run = longest; run > 0 && run > longest - 4; run--) {
        const size_t at = (size_t)run * row_bytes % SETS_BYTES;
        if (at >= TOO_CLOSE && at <= SETS_BYTES - TOO_CLOSE) return run;
    }
    return longest;
}

/* Columns that one kernel takes: as many as `n`, and the rest of its room repeats the last. */
typedef struct columns {
    const void *x;
    qn_one_fn fn;
    int n;
    int32_t first;
    int64_t blocks;
} columns;

/* Rows first, first + apart, ... */
static void some_rows(const qn_mm_args *a, const columns *x, int32_t first_row, int32_t apart)
{
    reals y[ONE_COLS_MANY];
    x->fn(a->w + (size_t)first_row * a->w_row_bytes, (size_t)apart * a->w_row_bytes, x->x, x->blocks, y);
    for (int c = 0; c < x->n; c++) r_scatter(a->y + (x->first + c) * a->y_stride + first_row, apart, y[c]);
}

/* Rows that do not fill the lanes are done again with their neighbours before, or, where there are none, each in all lanes. */
static void all_rows(const qn_mm_args *a, const columns *x)
{
    int32_t at = 0;
    while (a->rows - at >= ROWS) {
        const int32_t run = run_of(a->rows - at, a->w_row_bytes);
        for (int32_t i = 0; i < run; i++) some_rows(a, x, at + i, run);
        at += ROWS * run;
    }
    if (at == a->rows) return;
    if (a->rows >= ROWS) some_rows(a, x, a->rows - ROWS, 1);
    else for (; at < a->rows; at++) some_rows(a, x, at, 0);
}

/* Blocks side by side in the tile, so that a kernel has one pointer to all its columns. */
static void interleave(const qn_mm_args *a, const qn_one_kernel *kernel, const columns *x, int room)
{
    const size_t bytes = kernel->act_bytes;
    for (int c = 0; c < room; c++) {
        const uint8_t *from = (const uint8_t *)a->x + (size_t)(x->first + (c < x->n ? c : x->n - 1)) * a->x_row_bytes;
        uint8_t *to = (uint8_t *)a->tile + (size_t)c * bytes;
        for (int64_t b = 0; b < x->blocks; b++, from += bytes, to += (size_t)room * bytes) memcpy(to, from, bytes);
    }
}

/* Rows too long for the tile take fewer columns at a time. */
void FN(one)(const qn_mm_args *a, const qn_one_kernel *kernel)
{
    static const int room[] = {1, ONE_COLS_FEW, ONE_COLS_MANY};
    const int64_t blocks = a->k / kernel->block;
    const int64_t fit = blocks > 0 ? QN_MM_TILE_BYTES / (int64_t)kernel->act_bytes / blocks : 1;
    int64_t n;
    for (int64_t c = 0; c < a->cols; c += n) {
        const int64_t left = a->cols - c;
        const int which = left > ONE_COLS_FEW && fit >= ONE_COLS_MANY ? 2 : left > 1 && fit >= ONE_COLS_FEW ? 1 : 0;
        n = left < room[which] ? left : room[which];
        columns x = {a->tile, kernel->fn[which], (int)n, (int32_t)c, blocks};
        if (which == 0) x.x = (const uint8_t *)a->x + (size_t)c * a->x_row_bytes;
        else interleave(a, kernel, &x, room[which]);
        all_rows(a, &x);
    }
}

void FN(mm_one_init)(qn_ukr *ukr)
{
    FN(one_32_init)(ukr);
    FN(one_256_init)(ukr);
#ifndef ONE_BLOCKS_ONLY
    FN(one_float_init)(ukr);
#endif
}
