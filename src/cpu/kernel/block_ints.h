/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/block_ints.h -- a block of any format that has an integer product (act.h), as plain integers: one
 * function a format, and a row in its list. Each file that includes it compiles it for its own level. */
#ifndef QN_CPU_KERNEL_BLOCK_INTS_H
#define QN_CPU_KERNEL_BLOCK_INTS_H

#include "quant/blocks.h"
#include "quant/quant.h"

#include <string.h>

/* value[i] = d * scale[i / sub] * w[i] - m * min[i / sub] in super-blocks, d * w[i] + m in blocks of 32. Fields that
 * a format does not have are not written. */
typedef struct qn_ints {
    float d, m;
    int16_t scale[16], min[16];
    int8_t w[256];
} qn_ints;

typedef void (*qn_ints_fn)(const void *block, qn_ints *out);

/* FORMAT(name, elements of a sub-block; 32 in QN_INTS_32, has a minimum, lowest w, highest w) */
/* clang-format off */
#define QN_INTS_32(FORMAT) \
    FORMAT(Q4_0, 32, 0, -8, 7) FORMAT(Q4_1, 32, 1, 0, 15) FORMAT(Q5_0, 32, 0, -16, 15) FORMAT(Q5_1, 32, 1, 0, 31) \
    FORMAT(Q8_0, 32, 0, -128, 127) FORMAT(IQ4_NL, 32, 0, -127, 113) FORMAT(MXFP4, 32, 0, -12, 12)
#define QN_INTS_256(FORMAT) \
    FORMAT(Q2_K, 16, 1, 0, 3) FORMAT(Q3_K, 16, 0, -4, 3) FORMAT(Q4_K, 32, 1, 0, 15) FORMAT(Q5_K, 32, 1, 0, 31) \
    FORMAT(Q6_K, 16, 0, -32, 31) FORMAT(IQ4_XS, 32, 0, -127, 113)
/* clang-format on */

static inline void qn__ints_nibbles(const uint8_t *qs, int off, int8_t *w)
{
    for (int i = 0; i < 16; i++) w[i] = (int8_t)((qs[i] & 15) - off);
    for (int i = 0; i < 16; i++) w[16 + i] = (int8_t)((qs[i] >> 4) - off);
}
static inline void qn__ints_levels(const int8_t *values, const uint8_t *qs, int8_t *w)
{
    for (int i = 0; i < 16; i++) w[i] = values[qs[i] & 15];
    for (int i = 0; i < 16; i++) w[16 + i] = values[qs[i] >> 4];
}

static inline void qn__ints_Q4_0(const void *block, qn_ints *out)
{
    const qn_block_Q4_0 *b = block;
    out->d = qn__f16_to_f32(b->d);
    qn__ints_nibbles(b->qs, 8, out->w);
}

static inline void qn__ints_Q4_1(const void *block, qn_ints *out)
{
    const qn_block_Q4_1 *b = block;
    out->d = qn__f16_to_f32(b->d);
    out->m = qn__f16_to_f32(b->m);
    qn__ints_nibbles(b->qs, 0, out->w);
}

static inline void qn__ints_Q5_0(const void *block, qn_ints *out)
{
    const qn_block_Q5_0 *b = block;
    out->d = qn__f16_to_f32(b->d);
    qn__ints_nibbles(b->qs, 16, out->w);
    for (int i = 0; i < 32; i++) out->w[i] = (int8_t)(out->w[i] + (int)(b->qh >> i & 1) * 16);
}

static inline void qn__ints_Q5_1(const void *block, qn_ints *out)
{
    const qn_block_Q5_1 *b = block;
    out->d = qn__f16_to_f32(b->d);
    out->m = qn__f16_to_f32(b->m);
    qn__ints_nibbles(b->qs, 0, out->w);
    for (int i = 0; i < 32; i++) out->w[i] = (int8_t)(out->w[i] + (int)(b->qh >> i & 1) * 16);
}

static inline void qn__ints_Q8_0(const void *block, qn_ints *out)
{
    const qn_block_Q8_0 *b = block;
    out->d = qn__f16_to_f32(b->d);
    memcpy(out->w, b->qs, 32);
}

static inline void qn__ints_IQ4_NL(const void *block, qn_ints *out)
{
    const qn_block_IQ4_NL *b = block;
    out->d = qn__f16_to_f32(b->d);
    qn__ints_levels(qn__iq4_values, b->qs, out->w);
}

static inline void qn__ints_MXFP4(const void *block, qn_ints *out)
{
    const qn_block_MXFP4 *b = block;
    out->d = qn__e8m0_half(b->e);
    qn__ints_levels(qn__fp4_values, b->qs, out->w);
}

static inline void qn__ints_Q2_K(const void *block, qn_ints *out)
{
    const qn_block_Q2_K *b = block;
    out->d = qn__f16_to_f32(b->d);
    out->m = qn__f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++) /* 32 elements each */
        for (int i = 0; i < 32; i++) out->w[j * 32 + i] = (int8_t)(b->qs[j / 4 * 32 + i] >> j % 4 * 2 & 3);
    for (int j = 0; j < 16; j++) {
        out->scale[j] = b->scales[j] & 15;
        out->min[j] = b->scales[j] >> 4;
    }
}

static inline void qn__ints_Q3_K(const void *block, qn_ints *out)
{
    const qn_block_Q3_K *b = block;
    out->d = qn__f16_to_f32(b->d);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) {
            const int low = b->qs[j / 4 * 32 + i] >> j % 4 * 2 & 3, high = b->hmask[i] >> j & 1;
            out->w[j * 32 + i] = (int8_t)((low | high << 2) - 4);
        }
    for (int j = 0; j < 16; j++) out->scale[j] = (int16_t)qn__q3_k_scale(b->scales, j);
}

static inline void qn__ints_k4(const uint8_t scales[12], qn_ints *out)
{
    for (int j = 0; j < 8; j++) {
        int scale, min;
        qn__k4_scale_min(scales, j, &scale, &min);
        out->scale[j] = (int16_t)scale;
        out->min[j] = (int16_t)min;
    }
}

static inline void qn__ints_Q4_K(const void *block, qn_ints *out)
{
    const qn_block_Q4_K *b = block;
    out->d = qn__f16_to_f32(b->d);
    out->m = qn__f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) out->w[j * 32 + i] = (int8_t)(b->qs[j / 2 * 32 + i] >> j % 2 * 4 & 15);
    qn__ints_k4(b->scales, out);
}

static inline void qn__ints_Q5_K(const void *block, qn_ints *out)
{
    const qn_block_Q5_K *b = block;
    out->d = qn__f16_to_f32(b->d);
    out->m = qn__f16_to_f32(b->dmin);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) {
            const int low = b->qs[j / 2 * 32 + i] >> j % 2 * 4 & 15, high = b->qh[i] >> j & 1;
            out->w[j * 32 + i] = (int8_t)(low | high << 4);
        }
    qn__ints_k4(b->scales, out);
}

static inline void qn__ints_Q6_K(const void *block, qn_ints *out)
{
    const qn_block_Q6_K *b = block;
    out->d = qn__f16_to_f32(b->d);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) {
            const int low = b->ql[j / 4 * 64 + j % 2 * 32 + i] >> j / 2 % 2 * 4 & 15,
                      high = b->qh[j / 4 * 32 + i] >> j % 4 * 2 & 3;
            out->w[j * 32 + i] = (int8_t)((low | high << 4) - 32);
        }
    for (int j = 0; j < 16; j++) out->scale[j] = b->scales[j];
}

static inline void qn__ints_IQ4_XS(const void *block, qn_ints *out)
{
    const qn_block_IQ4_XS *b = block;
    out->d = qn__f16_to_f32(b->d);
    for (int j = 0; j < 8; j++) qn__ints_levels(qn__iq4_values, b->qs + j * 16, out->w + j * 32);
    for (int j = 0; j < 8; j++) out->scale[j] = (int16_t)qn__iq4_xs_scale(b, j);
}

#endif
