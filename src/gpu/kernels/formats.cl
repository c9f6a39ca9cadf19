/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/formats.cl -- what the blocks of each format hold: integers with their scales, where products are of
 * integers (backend/numbers/act.h), and elements as floats, to the bit those that src/quant unpacks. */

CONSTANT int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
CONSTANT int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* ---- formats with an integer product ---- For each: bytes of a block, d and (where it has one) m of the block,
 * weight i, and of super-blocks scale and minimum of sub-block j. */

#define LOW_HIGH(qs, i) ((i) < 16 ? (qs)[i] & 15 : (qs)[(i)-16] >> 4)
DEVICE uint32_t long_at(GLOBAL const uint8_t *p)
{
    return (uint32_t)word_at(p) | (uint32_t)word_at(p + 2) << 16;
}
DEVICE float e8m0_half(uint8_t e) { return FLOAT(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23); }
DEVICE int k4_scale(GLOBAL const uint8_t *s, int j)
{
    return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
}
DEVICE int k4_min(GLOBAL const uint8_t *s, int j)
{
    return j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
}
DEVICE int q3_scale(GLOBAL const uint8_t *s, int j)
{
    return ((j < 8 ? s[j] & 15 : s[j - 8] >> 4) | (s[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
}

/* clang-format off */
#define BYTES_Q4_0     18
#define D_Q4_0(b)      half_at(b)
#define M_Q4_0(b)      0
#define W_Q4_0(b, i)   (LOW_HIGH((b) + 2, i) - 8)
#define BYTES_Q4_1     20
#define D_Q4_1(b)      half_at(b)
#define M_Q4_1(b)      half_at((b) + 2)
#define W_Q4_1(b, i)   (LOW_HIGH((b) + 4, i))
#define BYTES_Q5_0     22
#define D_Q5_0(b)      half_at(b)
#define M_Q5_0(b)      0
#define W_Q5_0(b, i)   ((int)(LOW_HIGH((b) + 6, i) | (long_at((b) + 2) >> (i) & 1) << 4) - 16)
#define BYTES_Q5_1     24
#define D_Q5_1(b)      half_at(b)
#define M_Q5_1(b)      half_at((b) + 2)
#define W_Q5_1(b, i)   ((int)(LOW_HIGH((b) + 8, i) | (long_at((b) + 4) >> (i) & 1) << 4))
#define BYTES_Q8_0     34
#define D_Q8_0(b)      half_at(b)
#define M_Q8_0(b)      0
#define W_Q8_0(b, i)   ((int)(int8_t)(b)[2 + (i)])
#define BYTES_IQ4_NL   18
#define D_IQ4_NL(b)    half_at(b)
#define M_IQ4_NL(b)    0
#define W_IQ4_NL(b, i) ((int)iq4_values[LOW_HIGH((b) + 2, i)])
#define BYTES_MXFP4    17
#define D_MXFP4(b)     e8m0_half((b)[0])
#define M_MXFP4(b)     0
#define W_MXFP4(b, i)  ((int)fp4_values[LOW_HIGH((b) + 1, i)])

#define BYTES_Q2_K      84
#define D_Q2_K(b)       half_at((b) + 80)
#define M_Q2_K(b)       half_at((b) + 82)
#define W_Q2_K(b, i)    ((b)[16 + (i) / 128 * 32 + (i) % 32] >> (i) / 32 % 4 * 2 & 3)
#define S_Q2_K(b, j)    ((b)[j] & 15)
#define MIN_Q2_K(b, j)  ((b)[j] >> 4)
#define BYTES_Q3_K      110
#define D_Q3_K(b)       half_at((b) + 108)
#define M_Q3_K(b)       0
#define W_Q3_K(b, i)    (((b)[32 + (i) / 128 * 32 + (i) % 32] >> (i) / 32 % 4 * 2 & 3 | \
                          ((b)[(i) % 32] >> (i) / 32 & 1) << 2) - 4)
#define S_Q3_K(b, j)    q3_scale((b) + 96, j)
#define MIN_Q3_K(b, j)  0
#define BYTES_Q4_K      144
#define D_Q4_K(b)       half_at(b)
#define M_Q4_K(b)       half_at((b) + 2)
#define W_Q4_K(b, i)    ((b)[16 + (i) / 64 * 32 + (i) % 32] >> (i) / 32 % 2 * 4 & 15)
#define S_Q4_K(b, j)    k4_scale((b) + 4, j)
#define MIN_Q4_K(b, j)  k4_min((b) + 4, j)
#define BYTES_Q5_K      176
#define D_Q5_K(b)       half_at(b)
#define M_Q5_K(b)       half_at((b) + 2)
#define W_Q5_K(b, i)    (((b)[48 + (i) / 64 * 32 + (i) % 32] >> (i) / 32 % 2 * 4 & 15) | \
                         ((b)[16 + (i) % 32] >> (i) / 32 & 1) << 4)
#define S_Q5_K(b, j)    k4_scale((b) + 4, j)
#define MIN_Q5_K(b, j)  k4_min((b) + 4, j)
#define BYTES_Q6_K      210
#define D_Q6_K(b)       half_at((b) + 208)
#define M_Q6_K(b)       0
#define W_Q6_K(b, i)    ((((b)[(i) / 128 * 64 + (i) / 32 % 2 * 32 + (i) % 32] >> (i) / 64 % 2 * 4 & 15) | \
                          ((b)[128 + (i) / 128 * 32 + (i) % 32] >> (i) / 32 % 4 * 2 & 3) << 4) - 32)
#define S_Q6_K(b, j)    ((int)(int8_t)(b)[192 + (j)])
#define MIN_Q6_K(b, j)  0
#define BYTES_IQ4_XS    136
#define D_IQ4_XS(b)     half_at(b)
#define M_IQ4_XS(b)     0
#define W_IQ4_XS(b, i)  ((int)iq4_values[LOW_HIGH((b) + 8 + (i) / 32 * 16, (i) % 32)])
#define S_IQ4_XS(b, j)  ((((b)[4 + (j) / 2] >> (j) % 2 * 4 & 15) | (word_at((b) + 2) >> 2 * (j) & 3) << 4) - 32)
#define MIN_IQ4_XS(b, j) 0

/* clang-format on */

/* Formats with an integer product: ROW(name, elements of a sub-block, whether there is a minimum). */
/* clang-format off */
#define INTS_OF_32(ROW) \
    ROW(Q4_0, 32, 0) ROW(Q4_1, 32, 1) ROW(Q5_0, 32, 0) ROW(Q5_1, 32, 1) ROW(Q8_0, 32, 0) ROW(IQ4_NL, 32, 0) \
    ROW(MXFP4, 32, 0)
#define INTS_OF_256(ROW) \
    ROW(Q2_K, 16, 1) ROW(Q3_K, 16, 0) ROW(Q4_K, 32, 1) ROW(Q5_K, 32, 1) ROW(Q6_K, 16, 0) ROW(IQ4_XS, 32, 0)
/* clang-format on */

/* ---- elements of the other block formats ---- */

DEVICE float ue4m3_half(uint8_t x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    if (x == 0x7f) return 0;
    return exponent == 0 ? (float)mantissa * 0x1p-10f : (float)(8 + mantissa) * FLOAT((uint32_t)(exponent + 116) << 23);
}

DEVICE float of_nvfp4(GLOBAL const uint8_t *b, int i)
{
    GLOBAL const uint8_t *qs = b + 4 + i / 16 * 8;
    const int q = i % 16 < 8 ? qs[i % 8] & 15 : qs[i % 8] >> 4;
    return (float)fp4_values[q] * ue4m3_half(b[i / 16]);
}

/* Five trits to a byte: 32 bytes at a stride of 32 elements, 16 at one of 16, and four bytes of four. */
DEVICE float of_tq1_0(GLOBAL const uint8_t *b, int i)
{
    const int run = i < 160 ? 0 : i < 240 ? 1 : 2, n = run == 0 ? 32 : run == 1 ? 16 : 4;
    const int in = run == 0 ? i : run == 1 ? i - 160 : i - 240, trit = in / n;
    const int power = trit == 0 ? 1 : trit == 1 ? 3 : trit == 2 ? 9 : trit == 3 ? 27 : 81;
    const uint8_t rest = (uint8_t)(b[(run == 0 ? 0 : run == 1 ? 32 : 48) + in % n] * power);
    return (float)((rest * 3 >> 8) - 1) * half_at(b + 52);
}

DEVICE float of_tq2_0(GLOBAL const uint8_t *b, int i)
{
    return (float)((b[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) - 1) * half_at(b + 64);
}

DEVICE int iq2_value(uint32_t entry, int j)
{
    const int level = (int)(entry >> 2 * j & 3);
    return 8 + 17 * level + (level >> 1);
}
DEVICE uint32_t iq_signs(uint32_t stored)
{
    uint32_t parity = stored & 127;
    parity ^= parity >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (stored & 127) | (parity & 1) << 7;
}
DEVICE float iq2_element(float d, uint32_t code, uint32_t entry, uint32_t signs, int j)
{
    const float scale = d * (0.5f + (float)(code & 15)) * 0.25f;
    return scale * (float)((1 - 2 * (int)(signs >> j & 1)) * iq2_value(entry, j));
}

DEVICE float of_iq2_xxs(GLOBAL const uint8_t *b, int i)
{
    const uint32_t index = long_at(b + 2 + i / 32 * 8), rest = long_at(b + 6 + i / 32 * 8);
    const int g = i / 8 % 4;
    return iq2_element(half_at(b), rest >> 28, qn__iq2_xxs_grid[index >> 8 * g & 255], iq_signs(rest >> 7 * g), i % 8);
}

DEVICE float of_iq2_xs(GLOBAL const uint8_t *b, int i)
{
    const int g = i / 8;
    const uint32_t q = word_at(b + 2 + 2 * g);
    return iq2_element(half_at(b), b[66 + g / 4] >> 4 * (g / 2 % 2), qn__iq2_xs_grid[q & 511], iq_signs(q >> 9), i % 8);
}

DEVICE float of_iq2_s(GLOBAL const uint8_t *b, int i)
{
    const int g = i / 8;
    return iq2_element(half_at(b), b[74 + g / 4] >> 4 * (g / 2 % 2),
                       qn__iq2_s_grid[b[2 + g] | (b[66 + g / 4] >> 2 * (g % 4) & 3) << 8], b[34 + g], i % 8);
}

DEVICE float of_iq3_xxs(GLOBAL const uint8_t *b, int i)
{
    const int g = i / 4, j = i % 4;
    const uint32_t word = long_at(b + 66 + g / 8 * 4), entry = qn__iq3_xxs_grid[b[2 + g]];
    const float scale = half_at(b) * (0.5f + (float)(word >> 28)) * 0.5f;
    const uint32_t signs = iq_signs(word >> 7 * (g / 2 % 4)) >> 4 * (g % 2);
    const int level = (int)(entry >> 3 * j & 7), value = 4 + 8 * level + 2 * (level == 7);
    return scale * (float)((1 - 2 * (int)(signs >> j & 1)) * value);
}

DEVICE float of_iq3_s(GLOBAL const uint8_t *b, int i)
{
    const int g = i / 4, j = i % 4;
    const float scale = half_at(b) * (float)(1 + 2 * (b[106 + g / 16] >> 4 * (g / 8 % 2) & 15));
    const uint32_t entry = qn__iq3_s_grid[b[2 + g] | (b[66 + g / 8] >> g % 8 & 1) << 8];
    const uint32_t signs = b[74 + g / 2] >> 4 * (g % 2);
    return scale * (float)((1 - 2 * (int)(signs >> j & 1)) * (1 + 2 * (int)(entry >> 3 * j & 7)));
}

DEVICE float iq1_element(float scale, uint32_t entry, int j, bool down)
{
    return scale * ((float)((int)(entry >> 2 * j & 3) - 1) + (down ? -0.125f : 0.125f));
}

DEVICE float of_iq1_s(GLOBAL const uint8_t *b, int i)
{
    const int g = i / 8;
    const uint32_t qh = word_at(b + 34 + g / 4 * 2);
    return iq1_element(half_at(b) * (float)(2 * (qh >> 12 & 7) + 1),
                       qn__iq1_grid[b[2 + g] | (qh >> 3 * (g % 4) & 7) << 8], i % 8, (qh >> 15) != 0);
}

DEVICE float of_iq1_m(GLOBAL const uint8_t *b, int i)
{
    const int g = i / 8;
    const uint32_t s0 = word_at(b + 48), s1 = word_at(b + 50), s2 = word_at(b + 52), s3 = word_at(b + 54);
    const float d = half_to_float((uint16_t)(s0 >> 12 | (s1 >> 12) << 4 | (s2 >> 12) << 8 | (s3 >> 12) << 12));
    const uint32_t qh = b[32 + g / 2] >> 4 * (g % 2), scales = word_at(b + 48 + g / 8 * 2);
    return iq1_element(d * (float)(2 * (scales >> 3 * (g / 2 % 4) & 7) + 1), qn__iq1_grid[b[g] | (qh & 7) << 8], i % 8,
                       (qh >> 3 & 1) != 0);
}

/* ---- any element ---- */

/* ROW(name, elements of a block, its bytes, element i of block b) */
/* clang-format off */
#define FLOATS_ROWS(ROW) \
    ROW(NVFP4, 64, 36, of_nvfp4) ROW(TQ1_0, 256, 54, of_tq1_0) ROW(TQ2_0, 256, 66, of_tq2_0) \
    ROW(IQ2_XXS, 256, 66, of_iq2_xxs) ROW(IQ2_XS, 256, 74, of_iq2_xs) ROW(IQ2_S, 256, 82, of_iq2_s) \
    ROW(IQ3_XXS, 256, 98, of_iq3_xxs) ROW(IQ3_S, 256, 110, of_iq3_s) ROW(IQ1_S, 256, 50, of_iq1_s) \
    ROW(IQ1_M, 256, 56, of_iq1_m)

/* Up to 32 elements of a row, from element i on, which is a multiple of 32. */
DEVICE void unpack(GLOBAL const uint8_t *row, int32_t format, int64_t i, int n, float *to)
{
    switch (format) {
    case QN_GPU_F32:
        for (int j = 0; j < n; j++) to[j] = ((GLOBAL const float *)row)[i + j];
        break;
    case QN_GPU_F16:
        for (int j = 0; j < n; j++) to[j] = half_at(row + 2 * (i + j));
        break;
    case QN_GPU_BF16:
        for (int j = 0; j < n; j++) to[j] = bf16_to_float(word_at(row + 2 * (i + j)));
        break;
#define CASE(NAME, SUB, WITH_MIN) \
    case QN_GPU_##NAME: { \
        GLOBAL const uint8_t *b = row + i / 32 * BYTES_##NAME; \
        const float d = D_##NAME(b), m = WITH_MIN ? (float)M_##NAME(b) : 0; \
        for (int j = 0; j < n; j++) to[j] = WITH_MIN ? (float)(W_##NAME(b, j)) * d + m : (float)(W_##NAME(b, j)) * d; \
        break; \
    }
    INTS_OF_32(CASE)
#undef CASE
#define CASE(NAME, SUB, WITH_MIN) \
    case QN_GPU_##NAME: { \
        GLOBAL const uint8_t *b = row + i / 256 * BYTES_##NAME; \
        const int first = (int)(i % 256); \
        for (int j = 0; j < n; j++) { \
            const int k = first + j; \
            const float v = D_##NAME(b) * (float)(S_##NAME(b, k / SUB)) * (float)(W_##NAME(b, k)); \
            to[j] = WITH_MIN ? v - M_##NAME(b) * (float)(MIN_##NAME(b, k / SUB)) : v; \
        } \
        break; \
    }
    INTS_OF_256(CASE)
#undef CASE
#define CASE(NAME, ELEMS, BYTES, of) \
    case QN_GPU_##NAME: { \
        GLOBAL const uint8_t *b = row + i / ELEMS * BYTES; \
        for (int j = 0; j < n; j++) to[j] = of(b, (int)(i % ELEMS) + j); \
        break; \
    }
    FLOATS_ROWS(CASE)
#undef CASE
    }
}

DEVICE float element(GLOBAL const uint8_t *row, int32_t format, int64_t i)
{
    switch (format) {
    case QN_GPU_F32: return ((GLOBAL const float *)row)[i];
    case QN_GPU_F16: return half_at(row + 2 * i);
    case QN_GPU_BF16: return bf16_to_float(word_at(row + 2 * i));
#define CASE(NAME, SUB, WITH_MIN) \
    case QN_GPU_##NAME: { \
        const int j = (int)(i % 32); \
        row += i / 32 * BYTES_##NAME; \
        return WITH_MIN ? (float)(W_##NAME(row, j)) * D_##NAME(row) + (float)M_##NAME(row) \
                        : (float)(W_##NAME(row, j)) * D_##NAME(row); \
    }
    INTS_OF_32(CASE)
#undef CASE
#define CASE(NAME, SUB, WITH_MIN) \
    case QN_GPU_##NAME: { \
        const int j = (int)(i % 256); \
        row += i / 256 * BYTES_##NAME; \
        const float v = D_##NAME(row) * (float)(S_##NAME(row, j / SUB)) * (float)(W_##NAME(row, j)); \
        return WITH_MIN ? v - M_##NAME(row) * (float)(MIN_##NAME(row, j / SUB)) : v; \
    }
    INTS_OF_256(CASE)
#undef CASE
#define CASE(NAME, ELEMS, BYTES, of) case QN_GPU_##NAME: return of(row + i / ELEMS * BYTES, (int)(i % ELEMS));
    FLOATS_ROWS(CASE)
#undef CASE
    default: return 0;
    }
}
/* clang-format on */
