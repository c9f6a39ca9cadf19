/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/mm_float.c -- products with columns of floats, as dispatch.h defines them: slice by slice, a row at a
 * time. */
#include "cpu/ref/ref.h"

#include <math.h>

/* Columns at a time: a chain waits four cycles for each of its sums. */
enum { SIDE_BY_SIDE = 4 };

/* sum[c] = the slice of n elements of column c; columns lie x_row_bytes apart */
QN_REF_BODY chains(const float *w, const uint8_t *x, size_t x_row_bytes, int n_cols, int64_t n, float *sum)
{
    float chain[SIDE_BY_SIDE] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < n_cols; c++)
            chain[c] = fmaf(((const float *)(const void *)(x + (size_t)c * x_row_bytes))[i], w[i], chain[c]);
    for (int c = 0; c < n_cols; c++) sum[c] = chain[c];
}

static void slices(const float *w, const uint8_t *x, size_t x_row_bytes, int n_cols, int64_t n, float *sum);
QN_REF_BODY slices_body(const float *w, const uint8_t *x, size_t x_row_bytes, int n_cols, int64_t n, float *sum)
{
    if (n_cols == SIDE_BY_SIDE)
        chains(w, x, x_row_bytes, SIDE_BY_SIDE, n, sum);
    else
        for (int c = 0; c < n_cols; c++) chains(w, x + (size_t)c * x_row_bytes, x_row_bytes, 1, n, sum + c);
}
QN_REF_FMA(slices, (const float *w, const uint8_t *x, size_t x_row_bytes, int n_cols, int64_t n, float *sum),
           (w, x, x_row_bytes, n_cols, n, sum))

static void mm(const qn_mm_args *a, qn_dtype dtype)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    float w[QN_MM_SLICE], sum[SIDE_BY_SIDE];
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c < a->cols; c++) a->y[c * a->y_stride + r] = 0;
        for (int64_t at = 0; at < a->k; at += QN_MM_SLICE) {
            const int64_t n = a->k - at < QN_MM_SLICE ? a->k - at : QN_MM_SLICE;
            qn__quant_get(dtype)->unpack(a->w + (size_t)r * a->w_row_bytes +
                                             (size_t)(at / info->block_elems) * info->block_bytes,
                                         w, n);
            for (int32_t c = 0; c < a->cols; c += SIDE_BY_SIDE) {
                const int n_cols = a->cols - c < SIDE_BY_SIDE ? a->cols - c : SIDE_BY_SIDE;
                slices(w, (const uint8_t *)a->x + (size_t)c * a->x_row_bytes + (size_t)at * sizeof(float),
                       a->x_row_bytes, n_cols, n, sum);
                for (int j = 0; j < n_cols; j++) {
                    float *y = &a->y[(c + j) * a->y_stride + r];
                    *y = at ? *y + sum[j] : sum[j];
                }
            }
        }
    }
}

#define FN_block(name) \
    static void mm_##name(const qn_mm_args *a) { mm(a, QN_DTYPE_##name); }
#define FN_real(name) FN_block(name)
#define FN_integer(name)
#define FN_boolean(name)
#define ROW(name, id, block_elems, block_bytes, class) FN_##class(name)
QN_DTYPE_ROWS(ROW)
#undef ROW

void qn__ref_mm_float_init(qn_kernels *kernels)
{
#define SET_block(name) kernels->mm[QN_DTYPE_##name] = (qn_mm){.act = QN_ACT_f32, .gemv = mm_##name};
#define SET_real(name)  SET_block(name)
#define SET_integer(name)
#define SET_boolean(name)
#define ROW(name, id, block_elems, block_bytes, class) SET_##class(name)
    QN_DTYPE_ROWS(ROW)
#undef ROW
}
