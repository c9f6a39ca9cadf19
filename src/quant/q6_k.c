/* SPDX-License-Identifier: MIT */
/* src/quant/q6_k.c -- Q6_K: 16 sub-blocks of 16, d sc (q - 32) with 6-bit q and 8-bit sc. In each half of 128, the
 * nibbles of ql[l] are elements l and l + 64 for l < 64; byte l of qh's 32 has the upper two bits of l, l + 32, l + 64
 * and l + 96. */
#include "quant/blocks.h"
#include "quant/quant.h"
#include "quant/starts.h"
#include "quant/super.h"

static void unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_Q6_K *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int s = 0; s < 16; s++, dst += 16) {
            const int first = s % 8 * 16; /* of the sub-block in its half */
            const uint8_t *ql = b->ql + s / 8 * 64 + first % 64, *qh = b->qh + s / 8 * 32 + first % 32;
            const int low = first / 64 * 4, high = first / 32 * 2;
            const float scale = d * (float)b->scales[s];

            for (int j = 0; j < 16; j++) dst[j] = scale * (float)((ql[j] >> low & 15) + (qh[j] >> high & 3) * 16 - 32);
        }
    }
}

static void put(void *block, const qn_super_packed *p)
{
    qn_block_Q6_K *b = block;

    b->d = p->d;
    for (int s = 0; s < 16; s++) b->scales[s] = p->scale[s];
    for (int half = 0; half < 2; half++) {
        const int8_t *q = p->q + half * 128;
        uint8_t *ql = b->ql + half * 64, *qh = b->qh + half * 32;

        for (int l = 0; l < 64; l++) ql[l] = (uint8_t)(((q[l] + 32) & 15) | (q[l + 64] + 32) << 4);
        for (int l = 0; l < 32; l++) {
            const int a = (q[l] + 32) >> 4, c = (q[l + 32] + 32) >> 4, e = (q[l + 64] + 32) >> 4,
                      g = (q[l + 96] + 32) >> 4;
            qh[l] = (uint8_t)(a | c << 2 | e << 4 | g << 6);
        }
    }
}

static void pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_super_spec spec = {
        .sub = 16,
        .block_bytes = sizeof(qn_block_Q6_K),
        .codes = {-32, 31, QN_CODE_integer},
        .scale_lo = -128,
        .scale_hi = 127,
        .affine = false,
        .starts = &qn__starts_scale_6,
        .put = put,
    };

    qn__super_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_Q6_K = {unpack, pack, false};
