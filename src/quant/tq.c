/* SPDX-License-Identifier: MIT */
/* src/quant/tq.c -- TQ1_0 and TQ2_0: 256 elements of -d, 0 or d. TQ2_0 spends two bits on each, laid out as in Q2_K.
 * TQ1_0 puts five trits, the first most significant, into a byte as the fraction trits / 243 of 256, rounded up: a
 * multiplication by 3 then moves the next trit out at the top. */
#include "quant/blocks.h"
#include "quant/plain.h"
#include "quant/quant.h"
#include "quant/starts.h"

static const uint8_t pow3[5] = {1, 3, 9, 27, 81};

/* Elements of a block by bytes: 32 bytes of 5 at stride 32, 16 bytes of 5 at stride 16, 4 bytes of 4 at stride 4. */
static const struct run {
    int first, n_bytes, n_trits;
} runs[3] = {{0, 32, 5}, {160, 16, 5}, {240, 4, 4}};

static void tq1_0_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_TQ1_0 *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);
        const uint8_t *bytes[3] = {b->qs, b->qs + 32, b->qh};

        for (int r = 0; r < 3; r++) {
            for (int t = 0; t < runs[r].n_trits; t++) {
                for (int m = 0; m < runs[r].n_bytes; m++, dst++) {
                    const uint8_t rest = (uint8_t)(bytes[r][m] * pow3[t]);
                    *dst = (float)((rest * 3 >> 8) - 1) * d;
                }
            }
        }
    }
}

static void tq1_0_put(void *block, uint16_t d, uint16_t m, const int8_t *q)
{
    qn_block_TQ1_0 *b = block;
    uint8_t *bytes[3] = {b->qs, b->qs + 32, b->qh};

    (void)m;
    b->d = d;
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < runs[r].n_bytes; i++) {
            int trits = 0;
            for (int t = 0; t < 5; t++)
                trits = trits * 3 + (t < runs[r].n_trits ? q[runs[r].first + t * runs[r].n_bytes + i] + 1 : 0);
            bytes[r][i] = (uint8_t)((trits * 256 + 242) / 243);
        }
    }
}

static void tq2_0_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_TQ2_0 *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int s = 0; s < 8; s++, dst += 32)
            for (int j = 0; j < 32; j++) dst[j] = (float)((b->qs[s / 4 * 32 + j] >> s % 4 * 2 & 3) - 1) * d;
    }
}

static void tq2_0_put(void *block, uint16_t d, uint16_t m, const int8_t *q)
{
    qn_block_TQ2_0 *b = block;

    (void)m;
    b->d = d;
    for (int l = 0; l < 64; l++) {
        const int8_t *e = q + l / 32 * 128 + l % 32;
        b->qs[l] = (uint8_t)((e[0] + 1) | (e[32] + 1) << 2 | (e[64] + 1) << 4 | (e[96] + 1) << 6);
    }
}

static void tq1_0_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_plain_spec spec = {
        .n = 256,
        .block_bytes = sizeof(qn_block_TQ1_0),
        .codes = {-1, 1, QN_CODE_integer},
        .affine = false,
        .starts = &qn__starts_trits,
        .put = tq1_0_put,
    };

    qn__plain_pack(&spec, src, dst, n, importance);
}

static void tq2_0_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_plain_spec spec = {
        .n = 256,
        .block_bytes = sizeof(qn_block_TQ2_0),
        .codes = {-1, 1, QN_CODE_integer},
        .affine = false,
        .starts = &qn__starts_trits,
        .put = tq2_0_put,
    };

    qn__plain_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_TQ1_0 = {tq1_0_unpack, tq1_0_pack, false};
const qn_quant_row qn__quant_TQ2_0 = {tq2_0_unpack, tq2_0_pack, false};
