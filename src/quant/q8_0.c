/* SPDX-License-Identifier: MIT */
/* src/quant/q8_0.c -- Q8_0: 32 elements, d q. */
#include "quant/blocks.h"
#include "quant/plain.h"
#include "quant/quant.h"
#include "quant/starts.h"

#include <string.h>

static void unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q8_0 *b = src; n > 0; b++, n -= 32, dst += 32) {
        const float d = qn__f16_to_f32(b->d);

        for (int j = 0; j < 32; j++) dst[j] = (float)b->qs[j] * d;
    }
}

static void put(void *block, uint16_t d, uint16_t m, const int8_t *q)
{
    qn_block_Q8_0 *b = block;

    (void)m;
    b->d = d;
    memcpy(b->qs, q, sizeof b->qs);
}

/* -128 stays unused, as other writers have it: kernels may rely on |q| <= 127. */
static void pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_plain_spec spec = {
        .n = 32,
        .block_bytes = sizeof(qn_block_Q8_0),
        .codes = {-127, 127, QN_CODE_integer},
        .affine = false,
        .starts = &qn__starts_scale_8,
        .put = put,
    };

    qn__plain_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q8_0 = {unpack, pack, true};
