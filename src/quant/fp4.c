/* SPDX-License-Identifier: MIT */
/* src/quant/fp4.c -- MXFP4: 32 elements of E2M1 under a power of two (OCP microscaling formats 1.0); NVFP4: 64 elements
 * of E2M1, an unsigned E4M3 scale for every 16. The tables hold twice the value of E2M1, so scales are halved where
 * they are decoded. */
#include "quant/blocks.h"
#include "quant/lanes.h"
#include "quant/quant.h"

#include <math.h>
#include <string.h>

const int8_t qn__fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float qn__e8m0_half(uint8_t e)
{
    const uint32_t u = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23; /* 2^(e-128), subnormal for e of 0 and 1 */
    float f;

    memcpy(&f, &u, sizeof f);
    return f;
}

float qn__ue4m3_half(uint8_t x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;

    if (x == 0x7f) return 0; /* the NaN of E4M3: readers agree on 0 */
    return exponent == 0 ? ldexpf((float)mantissa, -10) : ldexpf((float)(8 + mantissa), exponent - 11);
}

static void unpack_nibbles(const uint8_t *qs, int n_bytes, float scale, float *dst)
{
    for (int j = 0; j < n_bytes; j++) {
        dst[j] = (float)qn__fp4_values[qs[j] & 15] * scale;
        dst[j + n_bytes] = (float)qn__fp4_values[qs[j] >> 4] * scale;
    }
}

/* ---- packing, four groups with a scale of their own at a time -------------------------------- */

static const qn_codes codes = {-12, 12, QN_CODE_fp4};
#define GROUP_MAX 32

typedef struct groups {
    qn_lanes a;
    qn_lane x[GROUP_MAX], w[GROUP_MAX], q[GROUP_MAX]; /* q: twice the value of the code */
    qn_lane err;
    int scale[QN_LANES]; /* whatever the format numbers its scales with */
} groups;

static void load(groups *g, int n, int count, const float *x, const float *importance)
{
    qn__lanes_load(g->x, n, count, x);
    qn__lanes_load_importance(g->w, n, count, importance, false);
    g->a = (qn_lanes){n, g->x, g->w};
    for (int l = 0; l < QN_LANES; l++) g->err[l] = INFINITY, g->scale[l] = 0;
    for (int i = 0; i < n; i++) g->q[i] = (qn_lane){0};
}

/* Keeps the codes under s, which the format calls `scale`, in the lanes in which they are the best so far. */
static void try_scale(groups *g, qn_lane s, const int *scale)
{
    qn_lane q[GROUP_MAX];
    const qn_lane err = qn__lanes_residuals(&g->a, codes, s, (qn_lane){0}, q).ee;

    for (int l = 0; l < QN_LANES; l++) {
        if (!(err[l] < g->err[l]) || s[l] == 0) continue;
        g->err[l] = err[l];
        g->scale[l] = scale[l];
        for (int i = 0; i < g->a.n; i++) g->q[i][l] = q[i][l];
    }
}

/* A zero is always code 0. */
static unsigned index_of(float value)
{
    const float a = fabsf(value);
    const unsigned index = a <= 4 ? (unsigned)a : a == 6 ? 5 : a == 8 ? 6 : 7;

    return value < 0 ? index | 8 : index;
}

static void put_nibbles(uint8_t *qs, const groups *g, int lane)
{
    const int n_bytes = g->a.n / 2;

    for (int j = 0; j < n_bytes; j++)
        qs[j] = (uint8_t)(index_of(g->q[j][lane]) | index_of(g->q[j + n_bytes][lane]) << 4);
}

static float largest_magnitude(const float *x, int n)
{
    float a = 0;

    for (int i = 0; i < n; i++) a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
    return a;
}

/* ---- MXFP4 ----------------------------------------------------------------------------------- */

static void mxfp4_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_MXFP4 *b = src; n > 0; b++, n -= 32, dst += 32)
        unpack_nibbles(b->qs, 16, qn__e8m0_half(b->e), dst);
}

/* The exponent that puts the largest magnitude between 4 and 8, where 6 is the last value; 0 for a block that is next
 * to 0. */
static int usual_exponent(const float *x)
{
    const float a = largest_magnitude(x, 32);
    int exponent;

    if (a < 0x1p-120f) return 0;
    frexpf(a, &exponent);
    return exponent - 3 + 127;
}

/* A block is scaled by its usual exponent first, exactly; then that, twice it and half of it are tried. 252 is the last
 * under which 6 is finite. */
static void mxfp4_pack_blocks(qn_block_MXFP4 *b, int count, const float *src, const float *importance)
{
    static const int steps[] = {0, 1, -1};
    float scaled[32 * QN_LANES];
    int usual[QN_LANES] = {0};
    groups g;

    for (int l = 0; l < count; l++) {
        usual[l] = usual_exponent(src + 32 * l);
        const float factor = usual[l] ? ldexpf(1, 127 - usual[l]) : 0;
        for (int i = 32 * l; i < 32 * l + 32; i++) scaled[i] = src[i] * factor;
    }
    load(&g, 32, count, scaled, importance);
    for (int k = 0; k < 3; k++) {
        qn_lane s = {0};
        int exponent[QN_LANES] = {0};
        for (int l = 0; l < count; l++) {
            exponent[l] = usual[l] + steps[k];
            if (usual[l] && exponent[l] <= 252) s[l] = ldexpf(0.5f, steps[k]);
        }
        try_scale(&g, s, exponent);
    }
    for (int l = 0; l < count; l++) {
        b[l].e = (uint8_t)g.scale[l];
        put_nibbles(b[l].qs, &g, l);
    }
}

static void mxfp4_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    qn_block_MXFP4 *b = dst;

    for (int64_t at = 0; at < n; at += 32 * QN_LANES, b += QN_LANES) {
        const int count = n - at < 32 * QN_LANES ? (int)(n - at) / 32 : QN_LANES;
        mxfp4_pack_blocks(b, count, src + at, importance ? importance + at : NULL);
    }
}

/* ---- NVFP4 ----------------------------------------------------------------------------------- */

static void nvfp4_unpack(const void *src, float *dst, int64_t n)
{
    for (const qn_block_NVFP4 *b = src; n > 0; b++, n -= 64)
        for (int s = 0; s < 4; s++, dst += 16) unpack_nibbles(b->qs + 8 * s, 8, qn__ue4m3_half(b->d[s]), dst);
}

/* The last scale under which the largest magnitude does not fit. Up to 126 they are in the order of their numbers. */
static int last_too_small(float magnitude)
{
    int number = 0;

    for (int step = 64; step > 0; step /= 2)
        if (number + step <= 126 && 12 * qn__ue4m3_half((uint8_t)(number + step)) < magnitude) number += step;
    return number;
}

/* The four sub-blocks are four lanes. */
static void nvfp4_pack(const float *src, void *dst, int64_t n, const float *importance)
{
    groups g;

    for (qn_block_NVFP4 *b = dst; n > 0; b++, n -= 64, src += 64) {
        int around[QN_LANES];

        load(&g, 16, 4, src, importance);
        for (int l = 0; l < 4; l++) around[l] = last_too_small(largest_magnitude(src + 16 * l, 16));
        for (int step = -3; step <= 3; step++) {
            qn_lane s = {0};
            int number[QN_LANES];
            for (int l = 0; l < 4; l++) {
                number[l] = around[l] + step;
                if (number[l] > 0 && number[l] <= 126) s[l] = qn__ue4m3_half((uint8_t)number[l]);
            }
            try_scale(&g, s, number);
        }
        for (int l = 0; l < 4; l++) {
            b->d[l] = (uint8_t)g.scale[l];
            put_nibbles(b->qs + 8 * l, &g, l);
        }
        if (importance) importance += 64;
    }
}

const qn_quant_row qn__quant_MXFP4 = {mxfp4_unpack, mxfp4_pack, false};
const qn_quant_row qn__quant_NVFP4 = {nvfp4_unpack, nvfp4_pack, false};
