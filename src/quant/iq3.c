/* SPDX-License-Identifier: MIT */
/* src/quant/iq3.c -- IQ3_XXS, IQ3_S: groups of 4 elements are an entry of a grid; 32 elements share a 4-bit scale. The
 * value is d (scale + 1/2) / 2 times the grid's for XXS, d (1 + 2 scale) times the grid's for S. Unpacking only. */
#include "quant/blocks.h"
#include "quant/iq_grids.h"
#include "quant/quant.h"

/* Signs are stored 7 for 8 elements, in the words that end with the scale. */
static void iq3_xxs_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ3_XXS *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int g = 0; g < 64; g++, dst += 4) {
            const uint32_t word = b->scales_signs[g / 8];
            const float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
            const unsigned entry = qn__iq3_xxs_grid[b->qs[g]];
            const unsigned signs = qn__iq_signs(word >> 7 * (g / 2 % 4)) >> 4 * (g % 2);

            for (int j = 0; j < 4; j++) {
                const int sign = 1 - 2 * (int)(signs >> j & 1);
                dst[j] = scale * (float)(sign * qn__iq3_xxs_value(entry, j));
            }
        }
    }
}

/* The ninth bit of a group's index is bit g%8 of qh[g/8]. */
static void iq3_s_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ3_S *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int g = 0; g < 64; g++, dst += 4) {
            const float scale = d * (float)(1 + 2 * (b->scales[g / 16] >> 4 * (g / 8 % 2) & 15));
            const unsigned entry = qn__iq3_s_grid[b->qs[g] | (b->qh[g / 8] >> g % 8 & 1) << 8];
            const unsigned signs = b->signs[g / 2] >> 4 * (g % 2);

            for (int j = 0; j < 4; j++) {
                const int sign = 1 - 2 * (int)(signs >> j & 1);
                dst[j] = scale * (float)(sign * qn__iq3_s_value(entry, j));
            }
        }
    }
}

const qn_quant_row qn__quant_IQ3_XXS = {iq3_xxs_unpack, NULL, false};
const qn_quant_row qn__quant_IQ3_S = {iq3_s_unpack, NULL, false};
