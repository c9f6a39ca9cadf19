/* SPDX-License-Identifier: MIT */
/* src/quant/q5_0.c -- Q5_0: 32 elements, d (q - 16); the fifth bits lie together. */
#include "quant/blocks.h"
#include "quant/plain.h"
#include "quant/quant.h"
#include "quant/starts.h"

static void unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q5_0 *b = src; n > 0; b++, n -= 32, dst += 32) {
        const float d = qn__f16_to_f32(b->d);
        const uint32_t qh = b->qh;

        for (int j = 0; j < 16; j++) {
            dst[j] = (float)((int)((b->qs[j] & 15) | (qh >> j & 1) << 4) - 16) * d;
            dst[j + 16] = (float)((int)(b->qs[j] >> 4 | (qh >> (j + 16) & 1) << 4) - 16) * d;
        }
    }
}

static void put(void *block, uint16_t d, uint16_t m, const int8_t *q)
{
    qn_block_Q5_0 *b = block;
    uint32_t qh = 0;

    (void)m;
    for (int j = 0; j < 16; j++) {
        const unsigned low = (unsigned)(q[j] + 16), high = (unsigned)(q[j + 16] + 16);
        b->qs[j] = (uint8_t)((low & 15) | (high & 15) << 4);
        qh |= (low >> 4) << j | (high >> 4) << (j + 16);
    }
    b->d = d;
    b->qh = qh;
}

static void pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_plain_spec spec = {
        .n = 32,
        .block_bytes = sizeof(qn_block_Q5_0),
        .codes = {-16, 15, QN_CODE_integer},
        .affine = false,
        .starts = &qn__starts_scale_5,
        .put = put,
    };

    qn__plain_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q5_0 = {unpack, pack, true};
