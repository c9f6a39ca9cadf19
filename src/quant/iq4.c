/* SPDX-License-Identifier: MIT */
/* src/quant/iq4.c -- IQ4_NL: 32 elements, d v[q] with sixteen uneven levels v; IQ4_XS: 8 sub-blocks of 32, d (sc - 32)
 * v[q] with 6-bit sc, four bits in scales_l and two in scales_h. Elements j and j + 16 share a byte. */
#include "quant/blocks.h"
#include "quant/plain.h"
#include "quant/quant.h"
#include "quant/starts.h"
#include "quant/super.h"

#include <string.h>

const int8_t qn__iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void unpack_32(const uint8_t *qs, float scale, float *dst)
{
    for (int j = 0; j < 16; j++) {
        dst[j] = scale * (float)qn__iq4_values[qs[j] & 15];
        dst[j + 16] = scale * (float)qn__iq4_values[qs[j] >> 4];
    }
}

/* The search works on levels; every level's number is the count of levels under it. */
static unsigned index_of(int level)
{
    unsigned index = 0;

    for (int k = 1; k < 16; k++) index += level >= qn__iq4_values[k];
    return index;
}

static void put_32(uint8_t *qs, const int8_t *levels)
{
    for (int j = 0; j < 16; j++) qs[j] = (uint8_t)(index_of(levels[j]) | index_of(levels[j + 16]) << 4);
}

/* clang-format off */
#define CODES {-127, 113, QN_CODE_iq4}
/* clang-format on */

static void iq4_nl_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ4_NL *b = src; n > 0; b++, n -= 32, dst += 32) unpack_32(b->qs, qn__f16_to_f32(b->d), dst);
}

static void iq4_nl_put(void *block, uint16_t d, uint16_t m, const int8_t *q)
{
    qn_block_IQ4_NL *b = block;

    (void)m;
    b->d = d;
    put_32(b->qs, q);
}

static void iq4_nl_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_plain_spec spec = {
        .n = 32,
        .block_bytes = sizeof(qn_block_IQ4_NL),
        .codes = CODES,
        .affine = false,
        .starts = &qn__starts_levels,
        .put = iq4_nl_put,
    };

    qn__plain_pack(&spec, src, dst, n, importance);
}

int qn__iq4_xs_scale(const qn_block_IQ4_XS *b, int j)
{
    return ((b->scales_l[j / 2] >> j % 2 * 4 & 15) | (b->scales_h >> 2 * j & 3) << 4) - 32;
}

static void iq4_xs_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_IQ4_XS *b = src; n > 0; b++, n -= 256) {
        const float d = qn__f16_to_f32(b->d);

        for (int s = 0; s < 8; s++, dst += 32) unpack_32(b->qs + 16 * s, d * (float)qn__iq4_xs_scale(b, s), dst);
    }
}

static void iq4_xs_put(void *block, const qn_super_packed *p)
{
    qn_block_IQ4_XS *b = block;

    memset(b, 0, sizeof *b);
    b->d = p->d;
    for (int s = 0; s < 8; s++) {
        const int scale = p->scale[s] + 32;
        b->scales_l[s / 2] |= (uint8_t)((scale & 15) << s % 2 * 4);
        b->scales_h |= (uint16_t)(scale >> 4 << 2 * s);
        put_32(b->qs + 16 * s, p->q + 32 * s);
    }
}

static void iq4_xs_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    static const qn_super_spec spec = {
        .sub = 32,
        .block_bytes = sizeof(qn_block_IQ4_XS),
        .codes = CODES,
        .scale_lo = -32,
        .scale_hi = 31,
        .affine = false,
        .starts = &qn__starts_levels,
        .put = iq4_xs_put,
    };

    qn__super_pack(&spec, src, dst, n, importance);
}

const qn_quant_row qn__quant_IQ4_NL = {iq4_nl_unpack, iq4_nl_pack, true};
const qn_quant_row qn__quant_IQ4_XS = {iq4_xs_unpack, iq4_xs_pack, false};
