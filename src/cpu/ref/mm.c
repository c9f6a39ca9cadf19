/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/mm.c -- products with quantized columns, as act.h defines them; mm_float.c has those with columns of
 * floats. */
#include "cpu/ref/ref.h"
#include "cpu/kernel/block_ints.h"

#include <math.h>

/* ---- integer --------------------------------------------------------------------------------- */

/* sum_w: of each sub-block of v */
static float add_32(const qn_ints *v, const int *sum_w, int sub, int with_min, const void *columns, int64_t b,
                    float acc)
{
    const qn_act32 *x = (const qn_act32 *)columns + b;
    int s = 0;
    (void)sub;
    for (int i = 0; i < 32; i++) s += v->w[i] * x->q[i];
    acc = fmaf((float)(s - x->zero * sum_w[0]), v->d * x->d, acc);
    return with_min ? fmaf(v->m, x->d * (float)x->sum, acc) : acc;
}

static float add_256(const qn_ints *v, const int *sum_w, int sub, int with_min, const void *columns, int64_t b,
                     float acc)
{
    const qn_act256 *x = (const qn_act256 *)columns + b;
    int t = 0, z = 0, m = 0;
    for (int j = 0; j < 256 / sub; j++) {
        int s = 0;
        for (int i = j * sub; i < (j + 1) * sub; i++) s += v->w[i] * x->q[i];
        t += v->scale[j] * s;
        z += v->scale[j] * sum_w[j];
        if (with_min)
            for (int i = j * sub; i < (j + 1) * sub; i += 16) m += v->min[j] * x->sum[i / 16];
    }
    acc = fmaf(fmaf((float)-x->zero, (float)z, (float)t), v->d * x->d, acc);
    return with_min ? fmaf((float)m, -(v->m * x->d), acc) : acc;
}

typedef struct family {
    int block;
    float (*add)(const qn_ints *v, const int *sum_w, int sub, int with_min, const void *columns, int64_t b, float acc);
} family;
static const family family_32 = {32, add_32}, family_256 = {256, add_256};

/* y is the accumulator: block by block over all columns, so that a row's blocks are unpacked once. */
static void mm_ints(const qn_mm_args *a, const family *f, size_t block_bytes, qn_ints_fn unpack, int sub, int with_min)
{
    qn_ints v;
    for (int32_t r = 0; r < a->rows; r++) {
        for (int32_t c = 0; c < a->cols; c++) a->y[c * a->y_stride + r] = 0;
        for (int64_t b = 0; b < a->k / f->block; b++) {
            int sum_w[16] = {0};
            unpack(a->w + (size_t)r * a->w_row_bytes + (size_t)b * block_bytes, &v);
            for (int i = 0; i < f->block; i++) sum_w[i / sub] += v.w[i];
            for (int32_t c = 0; c < a->cols; c++) {
                float *acc = &a->y[c * a->y_stride + r];
                *acc = f->add(&v, sum_w, sub, with_min, (const uint8_t *)a->x + (size_t)c * a->x_row_bytes, b, *acc);
            }
        }
    }
}

#define FN_INTS(name, family, sub, with_min) \
    static void mm_ints_##name(const qn_mm_args *a) \
    { \
        mm_ints(a, &family, sizeof(qn_block_##name), qn__ints_##name, sub, with_min); \
    }
#define FORMAT(name, sub, with_min, lo, hi) FN_INTS(name, family_32, sub, with_min)
QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) FN_INTS(name, family_256, sub, with_min)
QN_INTS_256(FORMAT)
#undef FORMAT

void qn__ref_mm_init(qn_kernels *kernels)
{
    qn__ref_mm_float_init(kernels);
#define FORMAT(name, sub, with_min, lo, hi) \
    kernels->mm[QN_DTYPE_##name] = (qn_mm){.act = QN_ACT_32, .gemv = mm_ints_##name};
    QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) \
    kernels->mm[QN_DTYPE_##name] = (qn_mm){.act = QN_ACT_256, .gemv = mm_ints_##name};
    QN_INTS_256(FORMAT)
#undef FORMAT
}
