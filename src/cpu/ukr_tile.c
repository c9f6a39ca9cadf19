/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_tile.c -- the loops around a level's float register block.
 *
 * The thread's tile holds a few weight rows, K_TILE elements long, as float32 (32 KiB), and the accumulators of these rows
 * with up to ACCS / rows columns (32 KiB). Unpacked rows meet all these columns before the next piece of k is unpacked, so
 * that unpacking is paid once a hundred columns; the columns of a chunk take about X_BYTES and stay in L2 while the rows go
 * by. */
#include "cpu/ukr_tile.h"

#include <string.h>

enum {
    AREA = QN_MM_TILE_BYTES / 2,
    ACCS = AREA / 64,
    X_BYTES = 1024 * 1024,
    COLS_MIN = 32, /* fewer would unpack too often */
};

typedef struct chunk {
    const qn_mm_args *a;
    const qn_tile_kernel *kernel;
    int64_t k_tile;
    const qn_dtype_info *dtype;
    qn_unpack_fn unpack; /* NULL: weights are used where they lie */
    float *floats;     /* [rows, k_tile] */
    float (*acc)[16];  /* [cols, rows, 16] */
    int first_col, n_cols;
} chunk;

static const float *column(const qn_mm_args *a, int c)
{
    return (const float *)(const void *)((const uint8_t *)a->x + (size_t)c * a->x_row_bytes);
}

/* Elements [at, at + n) of `rows` weight rows from `first` on; rows past the end repeat the last one and are not stored. */
static void load_rows(const chunk *t, int32_t first, int64_t at, int64_t n, const float **w)
{
    const int32_t left = t->a->rows - first;
    for (int r = 0; r < t->kernel->rows; r++) {
        if (r >= left) {
            w[r] = w[left - 1];
            continue;
        }
        const uint8_t *row = t->a->w + (size_t)(first + r) * t->a->w_row_bytes;
        const uint8_t *from = row + (size_t)(at / t->dtype->block_elems) * (size_t)t->dtype->block_bytes;
        w[r] = (const float *)(const void *)from;
        if (!t->unpack) continue;
        t->unpack(from, t->floats + r * t->k_tile, n);
        w[r] = t->floats + r * t->k_tile;
    }
}

static void store(const chunk *t, int32_t first)
{
    const qn_mm_args *a = t->a;
    const int n_rows = t->kernel->rows, left = a->rows - first < n_rows ? a->rows - first : n_rows;
    float sums[ACCS];
    t->kernel->sum(t->acc, t->n_cols * n_rows, sums);
    for (int c = 0; c < t->n_cols; c++)
        for (int r = 0; r < left; r++) a->y[(t->first_col + c) * a->y_stride + first + r] = sums[c * n_rows + r];
}

static void row_group(const chunk *t, int32_t first)
{
    const qn_mm_args *a = t->a;
    const int n_rows = t->kernel->rows, step = t->kernel->cols;
    const float *w[QN_TILE_ROWS_MAX], *x[QN_TILE_COLS_MAX];

    memset(t->acc, 0, (size_t)(t->n_cols * n_rows) * sizeof t->acc[0]);
    for (int64_t at = 0; at < a->k; at += t->k_tile) {
        const int64_t n = a->k - at < t->k_tile ? a->k - at : t->k_tile;
        load_rows(t, first, at, n, w);
        for (int c = 0; c < t->n_cols; c += step) {
            const int n_cols = t->n_cols - c < step ? t->n_cols - c : step;
            for (int i = 0; i < n_cols; i++) x[i] = column(a, t->first_col + c + i) + at;
            t->kernel->run(w, x, n_cols, n, t->acc + c * n_rows);
        }
    }
    store(t, first);
}

void qn__tile_mm(const qn_mm_args *a, qn_dtype dtype, qn_unpack_fn unpack, const qn_tile_kernel *kernel)
{
    const bool in_place = dtype == QN_DTYPE_F32 && ((uintptr_t)a->w | a->w_row_bytes) % 4 == 0;
    chunk t = {.a = a, .kernel = kernel, .dtype = qn_dtype_get(dtype), .unpack = in_place ? NULL : unpack};
    t.k_tile = AREA / 4 / kernel->rows / 256 * 256; /* 256: a multiple of every block */
    t.floats = a->tile;
    t.acc = (float(*)[16])(a->tile + AREA / 4);

    const int64_t in_cache = X_BYTES / 4 / (a->k > 0 ? a->k : 1);
    int64_t cols = in_cache < COLS_MIN ? COLS_MIN : in_cache;
    if (cols > ACCS / kernel->rows) cols = ACCS / kernel->rows;
    cols -= cols % kernel->cols;
    for (int64_t c = 0; c < a->cols; c += cols) {
        t.first_col = (int)c;
        t.n_cols = (int)(a->cols - c < cols ? a->cols - c : cols);
        for (int64_t r = 0; r < a->rows; r += kernel->rows) row_group(&t, (int32_t)r);
    }
}
