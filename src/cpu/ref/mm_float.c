/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/mm_float.c -- products with columns of floats, as dispatch.h defines them: slice by slice, a row at a
 * time. */
#include "cpu/ref/ref.h"

#include <math.h>

static float slice(const float *w, const float *x, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum = fmaf(x[i], w[i], sum);
    return sum;
}

static void mm(const qn_mm_args *a, qn_dtype dtype)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    float w[QN_MM_SLICE];
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t c = 0; c < a->cols; c++) a->y[c * a->y_stride + r] = 0;
        for (int64_t at = 0; at < a->k; at += QN_MM_SLICE) {
            const int64_t n = a->k - at < QN_MM_SLICE ? a->k - at : QN_MM_SLICE;
            qn__quant_get(dtype)->unpack(a->w + (size_t)r * a->w_row_bytes +
                                             (size_t)(at / info->block_elems) * info->block_bytes,
                                         w, n);
            for (int64_t c = 0; c < a->cols; c++) {
                float *y = &a->y[c * a->y_stride + r];
                const float sum =
                    slice(w, (const float *)(const void *)((const uint8_t *)a->x + (size_t)c * a->x_row_bytes) + at, n);
                *y = at ? *y + sum : sum;
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
