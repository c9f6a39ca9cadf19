/* SPDX-License-Identifier: MIT */
/* src/quant/iq2.c -- IQ2_XXS, IQ2_XS, IQ2_S: groups of 8 elements are an entry of a grid, eight signs and a 4-bit scale
 * that 32 or 16 elements share; the value is d (scale + 1/2) / 4 times the grid's. Unpacking only: packing is a search
 * through a grid's neighbourhoods that nothing here does yet better than the K formats of that size. */
#include "quant/blocks.h"
#include "quant/iq_grids.h"
#include "quant/quant.h"

static void group(float *y, float scale, unsigned entry, unsigned signs)
{
    for (int j = 0; j < 8; j++) {
        const int sign = 1 - 2 * (int)(signs >> j & 1);
        y[j] = scale * (float)(sign * qn__iq2_value(entry, j));
    }
}

static float sub_scale(float d, unsigned code) { return d * (0.5f + (float)(code & 15)) * 0.25f; }

/* 32 elements take 64 bits: four grid indices of 8 bits, four times 7 signs, the scale. */
static void iq2_xxs_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ2_XXS *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int s = 0; s < 8; s++) {
            const uint32_t index = b->qs[4 * s] | (uint32_t)b->qs[4 * s + 1] << 16;
            const uint32_t rest = b->qs[4 * s + 2] | (uint32_t)b->qs[4 * s + 3] << 16;
            const float scale = sub_scale(d, rest >> 28);

            for (int g = 0; g < 4; g++, dst += 8)
                group(dst, scale, qn__iq2_xxs_grid[index >> 8 * g & 255], qn__iq_signs(rest >> 7 * g));
        }
    }
}

/* A group takes 16 bits: 9 of index, 7 of signs. 16 elements share a scale. */
static void iq2_xs_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ2_XS *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int g = 0; g < 32; g++, dst += 8)
            group(dst, sub_scale(d, b->scales[g / 4] >> 4 * (g / 2 % 2)), qn__iq2_xs_grid[b->qs[g] & 511],
                  qn__iq_signs(b->qs[g] >> 9));
    }
}

/* A group takes 10 bits of index, two of them in qh, and all 8 signs. 16 elements share a scale. */
static void iq2_s_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ2_S *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int g = 0; g < 32; g++, dst += 8)
            group(dst, sub_scale(d, b->scales[g / 4] >> 4 * (g / 2 % 2)),
                  qn__iq2_s_grid[b->qs[g] | (b->qh[g / 4] >> 2 * (g % 4) & 3) << 8], b->signs[g]);
    }
}

const qn_quant_row qn__quant_IQ2_XXS = {iq2_xxs_unpack, NULL, false};
const qn_quant_row qn__quant_IQ2_XS = {iq2_xs_unpack, NULL, false};
const qn_quant_row qn__quant_IQ2_S = {iq2_s_unpack, NULL, false};
