/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv_driver.h -- gemv, written once: which columns and which rows a kernel takes together. A
 * level's mm_gemv.c defines FN(name) and includes this after its gemv.h.
 *
 * The lanes take neighbouring rows, so that a weight is read and prefetched (PREFETCH in gemv.h) from its first byte
 * to its last. Where MAX_ROW_STRIDE is defined (gemv_streams.h), they take rows up to that far apart, each a stream
 * of its own. */
#ifndef MAX_ROW_STRIDE
#define MAX_ROW_STRIDE 1
#endif

/* Columns that one kernel takes: n of them; the rest of its room repeats the last. */
typedef struct col_set {
    const void *x;
    qn_gemv_fn fn;
    int n;
    int32_t first;
    int64_t blocks;
} col_set;

/* Rows first_row, first_row + stride, ...; stride 0: one row in all lanes. */
static void some_rows(const qn_mm_args *a, const col_set *x, int32_t first_row, int32_t stride)
{
    reals y[GEMV_COLS_MAX];
    x->fn(a->w + (size_t)first_row * a->w_row_bytes, (size_t)stride * a->w_row_bytes, x->x, x->blocks, y);
    for (int c = 0; c < x->n; c++) {
        float *to = a->y + (x->first + c) * a->y_stride + first_row, row[ROWS];
        if (stride == 1) {
            r_store(to, y[c]);
        } else if (stride == 0) {
            *to = r_first(y[c]);
        } else {
            r_store(row, y[c]);
            for (int r = 0; r < ROWS; r++) to[r * stride] = row[r];
        }
    }
}

/* Rows that do not fill the lanes are computed together with the rows before them, or, where there are none, each in
 * all lanes. */
static void all_rows(const qn_mm_args *a, const col_set *x)
{
    int32_t at = 0, stride;
    for (; a->rows - at >= ROWS; at += stride * ROWS) {
        stride = qn__row_stride(a, (a->rows - at) / ROWS, MAX_ROW_STRIDE);
        for (int32_t r = at; r < at + stride; r++) some_rows(a, x, r, stride);
    }
    if (at == a->rows) return;
    if (a->rows >= ROWS)
        some_rows(a, x, a->rows - ROWS, 1);
    else
        for (; at < a->rows; at++) some_rows(a, x, at, 0);
}

/* Puts the columns' blocks side by side in the tile, so that a kernel needs one pointer for all columns. */
static void interleave(const qn_mm_args *a, const qn_gemv_kernel *kernel, const col_set *x, int room)
{
    const size_t bytes = kernel->act_bytes;
    for (int c = 0; c < room; c++) {
        const uint8_t *from = (const uint8_t *)a->x + (size_t)(x->first + (c < x->n ? c : x->n - 1)) * a->x_row_bytes;
        uint8_t *to = (uint8_t *)a->tile + (size_t)c * bytes;
        for (int64_t b = 0; b < x->blocks; b++, from += bytes, to += (size_t)room * bytes) memcpy(to, from, bytes);
    }
}

/* Where rows are too long for the tile, fewer columns are taken at a time. */
void FN(gemv)(const qn_mm_args *a, const qn_gemv_kernel *kernel)
{
    static const int room[] = {1, GEMV_KERNELS(QN_GEMV_ROOM, )};
    const int64_t blocks = a->k / kernel->block;
    const int64_t fit = blocks > 0 ? QN_MM_TILE_BYTES / (int64_t)kernel->act_bytes / blocks : 1;
    int64_t n;
    for (int64_t c = 0; c < a->cols; c += n) {
        const int64_t left = a->cols - c, most = left > GEMV_COLS_MAX ? GEMV_COLS : left;
        int which = 0;
        while (room[which] < most && room[which + 1] <= fit) which++;
        n = left < room[which] ? left : room[which];
        col_set x = {a->tile, kernel->fn[which], (int)n, (int32_t)c, blocks};
        if (which == 0)
            x.x = (const uint8_t *)a->x + (size_t)c * a->x_row_bytes;
        else
            interleave(a, kernel, &x, room[which]);
        all_rows(a, &x);
    }
}

void FN(mm_gemv_init)(qn_kernels *kernels)
{
    FN(gemv_32_init)(kernels);
    FN(gemv_256_init)(kernels);
#ifndef GEMV_BLOCKS_ONLY
    FN(gemv_float_init)(kernels);
#endif
}
