/* SPDX-License-Identifier: MIT */
/* src/quant/q4_k.c -- Q4_K and Q5_K: 8 sub-blocks of 32, d sc q - dmin m with 6-bit sc and m. Two sub-blocks share 32
 * bytes of qs, the first in the low nibbles; bit s of qh[l] is the fifth bit of element l of sub-block s. */
#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/starts.h"
#include "quant/super.h"

#include <string.h>

/* Sub-blocks 0 to 3 have their six bits in one byte; 4 to 7 have four bits in the last four bytes (scale low, minimum
 * high) and two above those of 0 to 3. */
void qn__k4_scale_min(const uint8_t scales[12], int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = scales[j] & 63;
        *min = scales[j + 4] & 63;
    } else {
        *scale = (scales[j + 4] & 15) | scales[j - 4] >> 6 << 4;
        *min = scales[j + 4] >> 4 | scales[j] >> 6 << 4;
    }
}

static void put_scales(uint8_t scales[12], const qn_super_packed *p)
{
    for (int j = 0; j < 4; j++) {
        const int scale = p->scale[j + 4], min = p->min[j + 4];
        scales[j] = (uint8_t)(p->scale[j] | scale >> 4 << 6);
        scales[j + 4] = (uint8_t)(p->min[j] | min >> 4 << 6);
        scales[j + 8] = (uint8_t)((scale & 15) | (min & 15) << 4);
    }
}

static void q4_k_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q4_K *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d), dmin = qn__f16_to_f32(b->dmin);

        for (int s = 0; s < 8; s++, dst += 32) {
            const uint8_t *qs = b->qs + s / 2 * 32;
            const int shift = s % 2 * 4;
            int sc, m;

            qn__k4_scale_min(b->scales, s, &sc, &m);
            const float scale = d * (float)sc, min = dmin * (float)m;
            for (int j = 0; j < 32; j++) dst[j] = scale * (float)(qs[j] >> shift & 15) - min;
        }
    }
}

static void q4_k_put(void *block, const qn_super_packed *p)
{
    qn_block_Q4_K *b = block;

    b->d = p->d;
    b->dmin = p->dmin;
    put_scales(b->scales, p);
    for (int l = 0; l < 128; l++) {
        const int8_t *q = p->q + l / 32 * 64 + l % 32;
        b->qs[l] = (uint8_t)(q[0] | q[32] << 4);
    }
}

static void q4_k_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_super_spec spec = {
        .sub = 32,
        .block_bytes = sizeof(qn_block_Q4_K),
        .codes = {0, 15, QN_CODE_integer},
        .scale_lo = 0,
        .scale_hi = 63,
        .affine = true,
        .starts = &qn__starts_affine_4,
        .put = q4_k_put,
    };

    qn__super_pack(&spec, src, dst, n, importance);
}

static void q5_k_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q5_K *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d), dmin = qn__f16_to_f32(b->dmin);

        for (int s = 0; s < 8; s++, dst += 32) {
            const uint8_t *qs = b->qs + s / 2 * 32, *qh = b->qh;
            const int shift = s % 2 * 4;
            int sc, m;

            qn__k4_scale_min(b->scales, s, &sc, &m);
            const float scale = d * (float)sc, min = dmin * (float)m;
            for (int j = 0; j < 32; j++) dst[j] = scale * (float)((qs[j] >> shift & 15) + (qh[j] >> s & 1) * 16) - min;
        }
    }
}

static void q5_k_put(void *block, const qn_super_packed *p)
{
    qn_block_Q5_K *b = block;

    memset(b, 0, sizeof *b);
    b->d = p->d;
    b->dmin = p->dmin;
    put_scales(b->scales, p);
    for (int i = 0; i < 256; i++) {
        b->qs[i / 64 * 32 + i % 32] |= (uint8_t)((p->q[i] & 15) << i / 32 % 2 * 4);
        b->qh[i % 32] |= (uint8_t)(p->q[i] >> 4 << i / 32);
    }
}

static void q5_k_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_super_spec spec = {
        .sub = 32,
        .block_bytes = sizeof(qn_block_Q5_K),
        .codes = {0, 31, QN_CODE_integer},
        .scale_lo = 0,
        .scale_hi = 63,
        .affine = true,
        .starts = &qn__starts_affine_5,
        .put = q5_k_put,
    };

    qn__super_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q4_K = {q4_k_unpack, q4_k_pack, false};
const qn_quant_row qn__quant_Q5_K = {q5_k_unpack, q5_k_pack, false};
