/* SPDX-License-Identifier: MIT */
/* src/quant/q3_k.c -- Q3_K: 16 sub-blocks of 16, d (sc - 32) (q - 4) with 3-bit q and 6-bit sc. qs is laid out as in
 * Q2_K and holds the low two bits; bit k of hmask[l] is the third bit of element 32 k + l. */
#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/starts.h"
#include "quant/super.h"

#include <string.h>

/* The low four bits of scales 0 to 7 lie in low nibbles, of 8 to 15 in high ones; the upper two bits in the last four
 * bytes. */
int qn__q3_k_scale(const uint8_t scales[12], int j)
{
    const int low = j < 8 ? scales[j] & 15 : scales[j - 8] >> 4, high = scales[8 + j % 4] >> j / 4 * 2 & 3;

    return (low | high << 4) - 32;
}

static void unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q3_K *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int s = 0; s < 16; s++, dst += 16) {
            const uint8_t *qs = b->qs + s / 8 * 32 + s % 2 * 16, *hmask = b->hmask + s % 2 * 16;
            const float scale = d * (float)qn__q3_k_scale(b->scales, s);
            const int shift = s / 2 % 4 * 2, high = s / 2;

            for (int j = 0; j < 16; j++)
                dst[j] = scale * (float)((qs[j] >> shift & 3) + (hmask[j] >> high & 1) * 4 - 4);
        }
    }
}

static void put(void *block, const qn_super_packed *p)
{
    qn_block_Q3_K *b = block;

    memset(b, 0, sizeof *b);
    b->d = p->d;
    for (int s = 0; s < 16; s++) {
        const int scale = p->scale[s] + 32;
        b->scales[s % 8] |= (uint8_t)((scale & 15) << s / 8 * 4);
        b->scales[8 + s % 4] |= (uint8_t)(scale >> 4 << s / 4 * 2);
    }
    for (int i = 0; i < 256; i++) {
        const int q = p->q[i] + 4, l = i % 32;
        b->qs[i / 128 * 32 + l] |= (uint8_t)((q & 3) << i / 32 % 4 * 2);
        b->hmask[l] |= (uint8_t)(q >> 2 << i / 32);
    }
}

static void pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_super_spec spec = {
        .sub = 16,
        .block_bytes = sizeof(qn_block_Q3_K),
        .codes = {-4, 3, QN_CODE_integer},
        .scale_lo = -32,
        .scale_hi = 31,
        .affine = false,
        .starts = &qn__starts_scale_3,
        .put = put,
    };

    qn__super_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q3_K = {unpack, pack, false};
