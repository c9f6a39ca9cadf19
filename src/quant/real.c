/* SPDX-License-Identifier: MIT */
/* src/quant/real.c -- the scalar formats. binary16 and bfloat16 convert in integer arithmetic, so that neither the
 * rounding mode nor flush-to-zero nor the machine's own instructions change a bit. The results equal those of F16C:
 * round to nearest even, subnormals kept, overflow to infinity, a NaN keeps its sign and the top of its payload and
 * comes out quiet (widening bfloat16 is a shift and keeps every bit). Elements need no alignment, hence the copies. */
#include "quant/quant.h"

#include <string.h>

static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Without branches: a loop over it becomes vector code. */
static inline float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, em = h & 0x7fff;
    const uint32_t normal = (em << 13) + (112u << 23); /* exponent bias 15 to 127 */
    const uint32_t special = (em << 13) | 0x7f800000 | (em > 0x7c00 ? 0x400000 : 0);
    const uint32_t subnormal = bits_of((float)(int32_t)em * 0x1p-24f); /* a small integer: exact */

    return float_of(sign | (em < 0x400 ? subnormal : em < 0x7c00 ? normal : special));
}

static inline uint16_t f32_to_f16(float f)
{
    const uint32_t u = bits_of(f), a = u & 0x7fffffff;
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);

    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    /* 65520 is the first to round to infinity */
    if (a >= 0x477ff000) return sign | 0x7c00;
    if (a >= 0x38800000) return (uint16_t)(sign | ((a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13));
    if (a < 0x33000000) return sign; /* under 2^-25 */

    /* Subnormal: the significand in units of 2^-24, with the bits shifted out deciding the rounding. */
    const uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000;
    const uint32_t whole = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    return (uint16_t)(sign | (whole + (rest > half || (rest == half && (whole & 1)))));
}

static inline float bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

static inline uint16_t f32_to_bf16(float f)
{
    const uint32_t u = bits_of(f);

    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float qn__f16_to_f32(uint16_t h) { return f16_to_f32(h); }

uint16_t qn__f32_to_f16(float f) { return f32_to_f16(f); }

float qn__bf16_to_f32(uint16_t h) { return bf16_to_f32(h); }

uint16_t qn__f32_to_bf16(float f) { return f32_to_bf16(f); }

/* Every element is rounded by itself: importance has nothing to steer. */
#define SCALAR_ROW(name, type, widen, narrow) \
    static void name##_unpack(const void *src, float *dst, int64_t n) \
    { \
        const unsigned char *p = src; \
        for (int64_t i = 0; i < n; i++) { \
            type v; \
            memcpy(&v, p + i * (int64_t)sizeof v, sizeof v); \
            dst[i] = widen(v); \
        } \
    } \
    static void name##_pack(const float *src, void *dst, int64_t n, const float *importance) \
    { \
        unsigned char *p = dst; \
        (void)importance; \
        for (int64_t i = 0; i < n; i++) { \
            const type v = narrow(src[i]); \
            memcpy(p + i * (int64_t)sizeof v, &v, sizeof v); \
        } \
    } \
    const qn_quant_row qn__quant_##name = {name##_unpack, name##_pack, true};

/* clang-format off */
SCALAR_ROW(F32, float, , )
SCALAR_ROW(F16, uint16_t, f16_to_f32, f32_to_f16)
SCALAR_ROW(BF16, uint16_t, bf16_to_f32, f32_to_bf16)
SCALAR_ROW(F64, double, (float), (double))
/* clang-format on */
