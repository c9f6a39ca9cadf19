/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/prelude.cl -- numbers that all kernels share: formats of elements, the exponential, sums in sixteen
 * chains. */

DEVICE float higher(float x, float y) { return x > y ? x : y; } /* y where either is NaN */

DEVICE float half_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, em = h & 0x7fff;
    if (em < 0x400) return FLOAT(sign | BITS((float)(int32_t)em * 0x1p-24f));
    return FLOAT(sign |
                 (em < 0x7c00 ? (em << 13) + (112u << 23) : (em << 13) | 0x7f800000 | (em > 0x7c00 ? 0x400000 : 0)));
}

DEVICE uint16_t float_to_half(float f)
{
    const uint32_t u = BITS(f), a = u & 0x7fffffff;
    const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (a >= 0x38800000) return (uint16_t)(sign | ((a - (112u << 23) + 0xfff + (a >> 13 & 1)) >> 13));
    if (a < 0x33000000) return sign;
    const uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000;
    const uint32_t whole = m >> shift, rest = m & ((1u << shift) - 1), half_way = 1u << (shift - 1);
    return (uint16_t)(sign | (whole + (rest > half_way || (rest == half_way && (whole & 1)))));
}

DEVICE float bf16_to_float(uint16_t h) { return FLOAT((uint32_t)h << 16); }

DEVICE uint16_t float_to_bf16(float f)
{
    const uint32_t u = BITS(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Blocks whose halves are read so lie at even addresses: all but MXFP4's, which has none. */
DEVICE uint16_t word_at(GLOBAL const uint8_t *p) { return *(GLOBAL const uint16_t *)p; }
DEVICE float half_at(GLOBAL const uint8_t *p) { return half_to_float(word_at(p)); }

/* Of sixteen chains: the order of backend/numbers. */
DEVICE float sum_of_16(const float *lane)
{
    float s[8];
    for (int j = 0; j < 8; j++) s[j] = lane[j] + lane[j + 8];
    for (int half_n = 4; half_n > 0; half_n /= 2)
        for (int j = 0; j < half_n; j++) s[j] += s[j + half_n];
    return s[0];
}

/* As backend/numbers/exp.h defines it. */
DEVICE float exp_of(float x)
{
    if (isnan(x)) return x;
    if (x < QN_EXP_MIN) return 0;
    if (x > QN_EXP_MAX) return INFINITE;
    const float t = fma(x, QN_EXP_LOG2E, QN_EXP_MAGIC), n = t - QN_EXP_MAGIC;
    const float r = fma(n, -QN_EXP_LN2_LO, fma(n, -QN_EXP_LN2_HI, x));
    const float q = fma(fma(fma(fma(QN_EXP_C4, r, QN_EXP_C3), r, QN_EXP_C2), r, QN_EXP_C1), r, QN_EXP_C0);
    return FLOAT(BITS(1.0f + fma(r * r, q, r)) + (BITS(t) << 23));
}

/* The tables of quant/iq_grids.inc and starts.inc, which come next. */
#define QN_GRID CONSTANT
typedef struct qn_start {
    float codes, shift;
} qn_start;
#define STARTS(name, ...) CONSTANT qn_start qn__starts_##name[] = {__VA_ARGS__};
