/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/mm.c -- products of the reference level: floats in sixteen lanes, and block formats with quantized columns as
 * ukr.h defines them. A group of a format's row is first brought to plain integers, 32 at a time, whatever the format. */
#include "cpu/ref/ref.h"
#include "cpu/ukr_tile.h"
#include "quant/blocks.h"

#include <math.h>

/* ---- float
 * ---------------------------------------------------------------------------------------------------------------- */

static void run(const float *const *w, const float *const *x, int n_cols, int64_t k, float (*acc)[16])
{
    (void)n_cols;
    qn__ref_lanes(acc[0], w[0], x[0], k);
}

static void sum(float (*acc)[16], int n, float *sums)
{
    for (int i = 0; i < n; i++) sums[i] = qn__ref_sum16(acc[i]);
}

static const qn_tile_kernel kernel = {1, 1, run, sum};

#include "cpu/ukr_tile_fns.h"

/* ---- integer
 * -------------------------------------------------------------------------------------------------------------- */

/* 32 weights: d * scale[k / 16] * w[k] - m * min */
typedef struct ints {
    float d, m;
    int scale[2], min;
    int w[32];
} ints;

typedef void (*ints_fn)(const uint8_t *row, int64_t b, ints *out); /* block b of 32 */

static void ints_Q8_0(const uint8_t *row, int64_t b, ints *out)
{
    const qn_block_Q8_0 *p = (const qn_block_Q8_0 *)row + b;
    *out = (ints){.d = qn__f16_to_f32(p->d), .scale = {1, 1}};
    for (int i = 0; i < 32; i++) out->w[i] = p->qs[i];
}

static void ints_Q4_0(const uint8_t *row, int64_t b, ints *out)
{
    const qn_block_Q4_0 *p = (const qn_block_Q4_0 *)row + b;
    *out = (ints){.d = qn__f16_to_f32(p->d), .scale = {1, 1}};
    for (int i = 0; i < 32; i++) out->w[i] = (i < 16 ? p->qs[i] & 15 : p->qs[i - 16] >> 4) - 8;
}

static void ints_Q4_K(const uint8_t *row, int64_t b, ints *out)
{
    const qn_block_Q4_K *p = (const qn_block_Q4_K *)row + b / 8;
    const int j = (int)(b % 8);
    *out = (ints){.d = qn__f16_to_f32(p->d), .m = qn__f16_to_f32(p->dmin)};
    qn__k4_scale_min(p->scales, j, &out->scale[0], &out->min);
    out->scale[1] = out->scale[0];
    for (int i = 0; i < 32; i++) out->w[i] = p->qs[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
}

static void ints_Q6_K(const uint8_t *row, int64_t b, ints *out)
{
    const qn_block_Q6_K *p = (const qn_block_Q6_K *)row + b / 8;
    const int half = (int)(b % 8) / 4, j = (int)(b % 4); /* 128 elements a half, 32 a step */
    *out = (ints){.d = qn__f16_to_f32(p->d), .scale = {p->scales[half * 8 + 2 * j], p->scales[half * 8 + 2 * j + 1]}};
    for (int i = 0; i < 32; i++) {
        const int low = p->ql[half * 64 + j % 2 * 32 + i] >> (j / 2 * 4) & 15, high = p->qh[half * 32 + i] >> (2 * j) & 3;
        out->w[i] = (low | high << 4) - 32;
    }
}

/* y is the accumulator: block by block over all columns, so that a row's blocks are unpacked once. */
static void mm_ints(const qn_mm_args *a, ints_fn unpack, bool with_min)
{
    ints v;
    for (int32_t r = 0; r < a->rows; r++) {
        for (int32_t c = 0; c < a->cols; c++) a->y[c * a->y_stride + r] = 0;
        for (int64_t b = 0; b < a->k / 32; b++) {
            unpack(a->w + (size_t)r * a->w_row_bytes, b, &v);
            for (int32_t c = 0; c < a->cols; c++) {
                const qn_act *x = (const qn_act *)(const void *)((const uint8_t *)a->x + (size_t)c * a->x_row_bytes) + b;
                float *acc = &a->y[c * a->y_stride + r];
                int s = 0;
                for (int i = 0; i < 32; i++) s += v.scale[i / 16] * v.w[i] * (x->q[i] - x->zero);
                *acc = fmaf((float)s, v.d * x->d, *acc);
                if (with_min) *acc = fmaf((float)(v.min * x->sum), -(v.m * x->d), *acc);
            }
        }
    }
}

/* QN_INTS(name, has a minimum) */
#define INTS_ROWS(QN_INTS) QN_INTS(Q8_0, false) QN_INTS(Q4_0, false) QN_INTS(Q4_K, true) QN_INTS(Q6_K, false)
#define QN_INTS(name, with_min)                                                                                        \
    static void mm_ints_##name(const qn_mm_args *a) { mm_ints(a, ints_##name, with_min); }
INTS_ROWS(QN_INTS)
#undef QN_INTS

void qn__ref_mm_init(qn_ukr *ukr)
{
    mm_init(ukr);
#define QN_INTS(name, with_min) ukr->mm[QN_DTYPE_##name] = (qn_mm){mm_ints_##name, true};
    INTS_ROWS(QN_INTS)
#undef QN_INTS
}
