/* SPDX-License-Identifier: MIT */
/* src/quant/q4_1.c -- Q4_1: 32 elements, d q + m. */
#include "quant/blocks.h"
#include "quant/plain.h"
#include "quant/quant.h"
#include "quant/starts.h"

static void unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q4_1 *b = src; n > 0; b++, n -= 32, dst += 32) {
        const float d = qn__f16_to_f32(b->d), m = qn__f16_to_f32(b->m);

        for (int j = 0; j < 16; j++) {
            dst[j] = (float)(b->qs[j] & 15) * d + m;
            dst[j + 16] = (float)(b->qs[j] >> 4) * d + m;
        }
    }
}

static void put(void *block, uint16_t d, uint16_t m, const int8_t *q)
{
    qn_block_Q4_1 *b = block;

    b->d = d;
    b->m = m;
    for (int j = 0; j < 16; j++) b->qs[j] = (uint8_t)(q[j] | q[j + 16] << 4);
}

static void pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_plain_spec spec = {
        .n = 32,
        .block_bytes = sizeof(qn_block_Q4_1),
        .codes = {0, 15, QN_CODE_integer},
        .affine = true,
        .starts = &qn__starts_affine_4,
        .put = put,
    };

    qn__plain_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q4_1 = {unpack, pack, true};
