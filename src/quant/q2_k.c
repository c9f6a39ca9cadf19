/* SPDX-License-Identifier: MIT */
/* src/quant/q2_k.c -- Q2_K: 16 sub-blocks of 16, d sc q - dmin m with 2-bit q, 4-bit sc and m. Byte l of a half's 32
 * bytes of qs holds elements l, l + 32, l + 64 and l + 96 of that half, the first in the lowest bits. */
#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/starts.h"
#include "quant/super.h"

static void unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q2_K *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d), dmin = qn__f16_to_f32(b->dmin);

        for (int s = 0; s < 16; s++, dst += 16) {
            const uint8_t *qs = b->qs + s / 8 * 32 + s % 2 * 16;
            const float scale = d * (float)(b->scales[s] & 15), min = dmin * (float)(b->scales[s] >> 4);
            const int shift = s / 2 % 4 * 2;

            for (int j = 0; j < 16; j++) dst[j] = scale * (float)(qs[j] >> shift & 3) - min;
        }
    }
}

static void put(void *block, const qn_super_packed *p)
{
    qn_block_Q2_K *b = block;

    b->d = p->d;
    b->dmin = p->dmin;
    for (int s = 0; s < 16; s++) b->scales[s] = (uint8_t)(p->scale[s] | p->min[s] << 4);
    for (int l = 0; l < 64; l++) {
        const int8_t *q = p->q + l / 32 * 128 + l % 32;
        b->qs[l] = (uint8_t)(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
}

static void pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_super_spec spec = {
        .sub = 16,
        .block_bytes = sizeof(qn_block_Q2_K),
        .codes = {0, 3, QN_CODE_integer},
        .scale_lo = 0,
        .scale_hi = 15,
        .affine = true,
        .starts = &qn__starts_affine_2,
        .put = put,
    };

    qn__super_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q2_K = {unpack, pack, false};
