/* SPDX-License-Identifier: MIT */
/* src/quant/iq1.c -- IQ1_S, IQ1_M: groups of 8 elements are an entry of a grid of -1, 0, 1 (11 bits of index), moved by
 * 1/8 up or down, times d (1 + 2 scale) with a scale of 3 bits. Unpacking only. */
#include "quant/blocks.h"
#include "quant/iq_grids.h"
#include "quant/quant.h"

static void group(float *y, float scale, unsigned entry, bool down)
{
    const float delta = down ? -0.125f : 0.125f;

    for (int j = 0; j < 8; j++) y[j] = scale * ((float)qn__iq1_value(entry, j) + delta);
}

/* qh[s] serves 32 elements: four times 3 bits of index, 3 of scale, 1 for the move. */
static void iq1_s_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ1_S *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int g = 0; g < 32; g++, dst += 8) {
            const unsigned qh = b->qh[g / 4];
            const float scale = d * (float)(2 * (qh >> 12 & 7) + 1);
            group(dst, scale, qn__iq1_grid[b->qs[g] | (qh >> 3 * (g % 4) & 7) << 8], qh >> 15);
        }
    }
}

/* A nibble of qh serves a group: 3 bits of index, 1 for the move. scales[s] holds four 3-bit scales, each for 16
 * elements, under four bits of d, which has no field of its own. */
static void iq1_m_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ1_M *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32((uint16_t)(b->scales[0] >> 12 | (b->scales[1] >> 12) << 4 |
                                                  (b->scales[2] >> 12) << 8 | (b->scales[3] >> 12) << 12));

        for (int g = 0; g < 32; g++, dst += 8) {
            const unsigned qh = b->qh[g / 2] >> 4 * (g % 2);
            const float scale = d * (float)(2 * (b->scales[g / 8] >> 3 * (g / 2 % 4) & 7) + 1);
            group(dst, scale, qn__iq1_grid[b->qs[g] | (qh & 7) << 8], qh >> 3 & 1);
        }
    }
}

const qn_quant_row qn__quant_IQ1_S = {iq1_s_unpack, NULL, false};
const qn_quant_row qn__quant_IQ1_M = {iq1_m_unpack, NULL, false};
