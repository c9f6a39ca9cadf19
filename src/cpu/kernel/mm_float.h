/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/mm_float.h -- products with columns of floats over sixteen float lanes, written once: one qn_mm_fn
 * for each real and block dtype. Weight rows stand in lanes. A level's mm_float.c includes its lanes.h, defines
 * FN(name), ROOM, and chunk4 (loads four neighbouring elements of sixteen rows, ROOM floats apart, as four vectors),
 * and then includes this. dispatch.h defines the sums.
 *
 * Few columns: rows are read once and transposed in registers. Two slices run at a time, since one chain of fused
 * multiply-adds alone would wait for its latency. Many columns: a slice of up to 64 rows is unpacked and transposed
 * into a panel in L2, which outer_f32 multiplies with all columns. Their sums stay beside the panel until the row
 * ends, since the rows of y are too far apart for a cache. What comes next is prefetched meanwhile. */
#include "cpu/dispatch.h"
#include "cpu/kernel/inline.h"
#include "cpu/kernel/prefetch.h"

#include <string.h>

#ifndef PANEL_FROM
#define PANEL_FROM 6
#endif
enum {
    SLICE = QN_MM_SLICE,
    PANEL_ROWS = 64,
    CHUNK_COLS = 640,        /* columns whose sums fit beside a panel: 160 KiB */
    TILE_COLS = 48,          /* columns between two prefetches; a multiple of what outer_f32 takes at once */
    SKINNY_COLS = 4,         /* columns at a time: registers for the sums of two slices and for transposing */
    PANEL_COLS = PANEL_FROM, /* from here on a panel is faster */
};
_Static_assert((PANEL_ROWS * SLICE + CHUNK_COLS * PANEL_ROWS + 16 * ROOM) * 4 <= QN_MM_TILE_BYTES,
               "panel, sums and rows");
_Static_assert(2 * 16 * ROOM * 4 <= QN_MM_TILE_BYTES, "rows of two slices");

typedef struct weights {
    const qn_mm_args *a;
    const qn_dtype_info *dtype;
    qn_unpack_fn unpack;
    bool floats; /* aligned F32: no unpacking needed */
} weights;

static const float *column(const qn_mm_args *a, int64_t c)
{
    return (const float *)(const void *)((const uint8_t *)a->x + (size_t)c * a->x_row_bytes);
}

static const uint8_t *place(const weights *w, int64_t r, int64_t at)
{
    return w->a->w + (size_t)r * w->a->w_row_bytes + (size_t)(at / w->dtype->block_elems) * w->dtype->block_bytes;
}

/* Elements [at, at + n) of row r. */
static inline void load_row(const weights *w, int64_t r, int64_t at, int64_t n, float *room)
{
    w->unpack(place(w, r, at), room, n);
}

/* ---- few columns ----------------------------------------------------------------------------- */

/* What comes next is prefetched evenly while this is computed, half of it while rows are unpacked: of sixteen rows,
 * eight times `eighth` bytes. Otherwise memory and arithmetic alternate. One F16 column from memory: 12 GB/s, 8
 * without. */
typedef struct ahead {
    const uint8_t *at;
    int64_t row_bytes, eighth;
} ahead;

/* sums[s][c] of sixteen rows. Slice s of row r is w + (s * 16 + r) * ROOM, that of column c x[c] + s * SLICE. All
 * slices have n elements. */
INLINE void slices(const float *w, const float *const *x, const int n_slices, const int n_cols, int64_t n,
                   const ahead *next, lanes (*sums)[SKINNY_COLS])
{
    lanes acc[2][SKINNY_COLS];
    UNROLL
    for (int s = 0; s < n_slices; s++) UNROLL
    for (int c = 0; c < n_cols; c++) acc[s][c] = l_set(0);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const uint8_t *soon = next->at + i / 16 * next->row_bytes + (4 + i % 16 / 4) * next->eighth;
        for (int64_t b = 0; b < next->eighth; b += 64) __builtin_prefetch(soon + b, 0, 2);
        UNROLL
        for (int s = 0; s < n_slices; s++) {
            lanes v[4];
            chunk4(w + s * 16 * ROOM + i, v);
            UNROLL
            for (int j = 0; j < 4; j++) UNROLL
            for (int c = 0; c < n_cols; c++) acc[s][c] = l_fma(l_set(x[c][s * SLICE + i + j]), v[j], acc[s][c]);
        }
    }
    for (; i < n; i++) UNROLL
    for (int s = 0; s < n_slices; s++) {
        float v[16];
        for (int r = 0; r < 16; r++) v[r] = w[(s * 16 + r) * ROOM + i];
        UNROLL
        for (int c = 0; c < n_cols; c++) acc[s][c] = l_fma(l_set(x[c][s * SLICE + i]), l_load(v), acc[s][c]);
    }
    UNROLL
    for (int s = 0; s < n_slices; s++) UNROLL
    for (int c = 0; c < n_cols; c++) sums[s][c] = acc[s][c];
}

typedef void (*slices_fn)(const float *w, const float *const *x, int64_t n, const ahead *next,
                          lanes (*sums)[SKINNY_COLS]);
#define SLICES(S, C) \
    static void slices_##S##_##C(const float *w, const float *const *x, int64_t n, const ahead *next, \
                                 lanes(*sums)[SKINNY_COLS]) \
    { \
        slices(w, x, S, C, n, next, sums); \
    }
/* clang-format off */
SLICES(1, 1) SLICES(1, 2) SLICES(1, 3) SLICES(1, 4) SLICES(2, 1) SLICES(2, 2) SLICES(2, 3) SLICES(2, 4)
/* clang-format on */
#undef SLICES

static void skinny_rows(const weights *t, int64_t first_row, int64_t first_col, int n_cols)
{
    static const slices_fn fns[2][SKINNY_COLS] = {
        {slices_1_1, slices_1_2, slices_1_3, slices_1_4},
        {slices_2_1, slices_2_2, slices_2_3, slices_2_4},
    };
    const qn_mm_args *a = t->a;
    const int64_t left = a->rows - first_row < 16 ? a->rows - first_row : 16;
    const float *x[SKINNY_COLS];
    lanes total[SKINNY_COLS], sums[2][SKINNY_COLS];
    for (int64_t at = 0; at < a->k;) {
        const int n_slices = a->k - at >= 2 * SLICE ? 2 : 1;
        const int64_t n = a->k - at < SLICE ? a->k - at : SLICE;
        const int64_t end = at + n_slices * n, bytes = n_slices * n / t->dtype->block_elems * t->dtype->block_bytes;
        const ahead next = {end < a->k ? place(t, first_row, end) : place(t, first_row + 16, 0),
                            (int64_t)a->w_row_bytes, bytes / 8};
        for (int64_t r = 0; r < 16; r++) /* rows past the end repeat the last one and are not stored */
            for (int s = 0; s < n_slices; s++) {
                const uint8_t *soon = next.at + r * next.row_bytes + s * 4 / n_slices * next.eighth;
                for (int64_t b = 0; b < 4 / n_slices * next.eighth; b += 64) __builtin_prefetch(soon + b, 0, 2);
                load_row(t, first_row + (r < left ? r : left - 1), at + s * SLICE, n, a->tile + (s * 16 + r) * ROOM);
            }
        for (int c = 0; c < n_cols; c++) x[c] = column(a, first_col + c) + at;
        fns[n_slices - 1][n_cols - 1](a->tile, x, n, &next, sums);
        for (int s = 0; s < n_slices; s++, at += n)
            for (int c = 0; c < n_cols; c++) total[c] = at == 0 ? sums[s][c] : l_add(total[c], sums[s][c]);
    }
    for (int c = 0; c < n_cols; c++) {
        float *y = a->y + (first_col + c) * a->y_stride + first_row;
        if (left == 16)
            l_store(y, total[c]);
        else
            l_store_n(y, (int)left, total[c]);
    }
}

/* ---- many columns ---------------------------------------------------------------------------- */

/* A slice of up to 64 rows as the panel that outer_f32 takes: [n, n_lanes], or, where registers hold PANEL_STRIP
 * lanes at a time, strips of as many lanes one after the other: a strip is then contiguous in L1. */
#ifdef PANEL_STRIP
#define EACH_STRIP(l, n_lanes) for (int64_t l = 0; l < (n_lanes); l += PANEL_STRIP)
#define STRIP_WIDTH(n_lanes)   PANEL_STRIP
#define STRIP_AT(n, lane)      ((n) * (lane))
#else
#define EACH_STRIP(l, n_lanes) for (int64_t l = 0; l < 1; l++)
#define STRIP_WIDTH(n_lanes)   (n_lanes)
#define STRIP_AT(n, lane)      (lane)
#endif
static void fill_panel(const weights *t, int64_t first_row, int64_t rows, int64_t at, int64_t n, float *panel,
                       float *room)
{
    const qn_mm_args *a = t->a;
    const int64_t n_lanes = (rows + 15) / 16 * 16;
    if (rows < n_lanes) memset(panel, 0, (size_t)(n * n_lanes) * 4);
    for (int64_t r = 0; r < rows; r += 16) {
        const int64_t some = rows - r < 16 ? rows - r : 16;
        const float *from = t->floats ? (const float *)(const void *)place(t, first_row + r, at) : room;
        const int64_t stride = t->floats ? (int64_t)(a->w_row_bytes / 4) : ROOM;
        for (int64_t i = 0; i < some && !t->floats; i++) load_row(t, first_row + r + i, at, n, room + i * ROOM);
        FN(transpose_f32)(panel + STRIP_AT(n, r), STRIP_WIDTH(n_lanes), from, stride, some, n);
    }
}

static void prefetch_y(const qn_mm_args *a, int64_t first_row, int64_t rows, int64_t first_col, int64_t n_cols)
{
    for (int64_t c = first_col; c < first_col + n_cols; c++)
        for (int64_t r = 0; r < rows; r += 16) __builtin_prefetch(a->y + c * a->y_stride + first_row + r, 1);
}

static void panel_rows(const weights *t, int64_t first_row, int64_t first_col, int64_t n_cols)
{
    const qn_mm_args *a = t->a;
    const int64_t rows = a->rows - first_row < PANEL_ROWS ? a->rows - first_row : PANEL_ROWS,
                  n_lanes = (rows + 15) / 16 * 16;
    float *panel = a->tile, *sums = panel + PANEL_ROWS * SLICE, *room = sums + CHUNK_COLS * PANEL_ROWS;

    for (int64_t at = 0; at < a->k; at += SLICE) {
        const int64_t n = a->k - at < SLICE ? a->k - at : SLICE, end = at + n;
        const uint8_t *next = end < a->k ? place(t, first_row, end) : place(t, first_row + PANEL_ROWS, 0);
        const int64_t bytes = (n + t->dtype->block_elems - 1) / t->dtype->block_elems * t->dtype->block_bytes;
        fill_panel(t, first_row, rows, at, n, panel, room);
        for (int64_t c = 0; c < n_cols; c += TILE_COLS) {
            const int64_t some = n_cols - c < TILE_COLS ? n_cols - c : TILE_COLS;
            prefetch_rows(next, a->w_row_bytes, (size_t)bytes, PANEL_ROWS * c / n_cols,
                          PANEL_ROWS * (c + some) / n_cols);
            if (end == a->k) prefetch_y(a, first_row, rows, first_col + c, some);
            EACH_STRIP(l, n_lanes)
            FN(outer_f32)
            (&(qn_outer){.y = sums + c * n_lanes + l,
                         .y_stride = n_lanes,
                         .a = column(a, first_col + c) + at,
                         .a_out = (int64_t)(a->x_row_bytes / 4),
                         .a_in = 1,
                         .b = panel + STRIP_AT(n, l),
                         .b_stride = STRIP_WIDTH(n_lanes),
                         .n_lanes = STRIP_WIDTH(n_lanes),
                         .n_out = some,
                         .n_in = n,
                         .mode = at ? QN_OUTER_add : QN_OUTER_set});
            if (end < a->k) continue;
            for (int64_t i = c; i < c + some; i++)
                memcpy(a->y + (first_col + i) * a->y_stride + first_row, sums + i * n_lanes, (size_t)rows * 4);
        }
    }
}

static void mm(const qn_mm_args *a, qn_dtype dtype, qn_unpack_fn unpack)
{
    const bool floats = dtype == QN_DTYPE_F32 && ((uintptr_t)a->w | a->w_row_bytes) % 4 == 0;
    const weights t = {.a = a, .dtype = qn_dtype_get(dtype), .unpack = unpack, .floats = floats};
    if (a->k == 0) {
        for (int64_t c = 0; c < a->cols; c++) memset(a->y + c * a->y_stride, 0, (size_t)a->rows * 4);
    } else if (a->cols >= PANEL_COLS) {
        for (int64_t c = 0; c < a->cols; c += CHUNK_COLS)
            for (int64_t r = 0; r < a->rows; r += PANEL_ROWS)
                panel_rows(&t, r, c, a->cols - c < CHUNK_COLS ? a->cols - c : CHUNK_COLS);
    } else {
        for (int64_t r = 0; r < a->rows; r += 16)
            for (int64_t c = 0; c < a->cols; c += SKINNY_COLS)
                skinny_rows(&t, r, c, a->cols - c < SKINNY_COLS ? (int)(a->cols - c) : SKINNY_COLS);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static qn_unpack_fn level_unpack[QN_DTYPE_COUNT]; /* this level's, set by mm_init */

#define FN_block(name) \
    static void mm_##name(const qn_mm_args *a) { mm(a, QN_DTYPE_##name, level_unpack[QN_DTYPE_##name]); }
#define FN_real(name) FN_block(name)
#define FN_integer(name)
#define FN_boolean(name)
#define ROW(name, id, block_elems, block_bytes, class) FN_##class(name)
QN_DTYPE_ROWS(ROW)
#undef ROW

/* Formats whose columns a lower level quantizes keep its kernels, so that levels agree to the bit. */
static void mm_init(qn_kernels *kernels)
{
#define SET_block(name) \
    if (kernels->mm[QN_DTYPE_##name].act == QN_ACT_f32) \
        kernels->mm[QN_DTYPE_##name] = (qn_mm){.act = QN_ACT_f32, \
                                               .gemv = mm_##name, \
                                               .panel = {{.fn = mm_##name, .from = PANEL_COLS, .rows = PANEL_ROWS}}};
#define SET_real(name) SET_block(name)
#define SET_integer(name)
#define SET_boolean(name)
#define ROW(name, id, block_elems, block_bytes, class) SET_##class(name)
    QN_DTYPE_ROWS(ROW)
#undef ROW
    for (int t = 0; t < QN_DTYPE_COUNT; t++) level_unpack[t] = kernels->unpack[t];
}
