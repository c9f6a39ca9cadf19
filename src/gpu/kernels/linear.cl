/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/linear.cl -- products with weights in the file's formats, as backend/numbers/act.h defines them. */

CONSTANT int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
CONSTANT int8_t fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* ---- columns ---- */

/* Bytes of a block: d, zero and sum of qn_act32; d, zero and 16 sums of qn_act256; then q. */
#define ACT_BYTES(n) ((n) == 32 ? 40 : 296)
#define ACT_Q(n)     ((n) == 32 ? 8 : 40)

DEVICE int within_127(int x) { return x < -127 ? -127 : x > 127 ? 127 : x; }

DEVICE void quantize(GLOBAL const float *x, GLOBAL uint8_t *y, int n)
{
    float lo = 0, hi = 0;
    bool finite = true;
    for (int i = 0; i < n; i++) {
        const float v = x[i];
        if (v < lo) lo = v;
        if (v > hi) hi = v;
        finite = finite && isfinite(v);
    }
    const bool flat = !finite || hi - lo < 0x1p-100f;
    const float d = flat ? 1 : (0.5f * hi - 0.5f * lo) / 127.0f, inverse = 1.0f / d;
    const int zero = flat ? 0 : within_127(ROUND(-127.0f - lo * inverse));
    int all = 0;
    *(GLOBAL float *)y = !finite ? NO_NUMBER : flat ? 0 : d;
    for (int j = 0; j < n / 16; j++) {
        int sum = 0;
        for (int i = 16 * j; i < 16 * j + 16; i++) {
            const int q = flat ? 0 : within_127(ROUND(x[i] * inverse) + zero);
            y[ACT_Q(n) + i] = (uint8_t)q;
            sum += q - zero;
        }
        if (flat) sum = 0;
        all += sum;
        if (n == 256) ((GLOBAL int16_t *)(y + 8))[j] = (int16_t)sum;
    }
    if (n == 256) {
        ((GLOBAL int32_t *)y)[1] = zero;
    } else {
        ((GLOBAL int16_t *)y)[2] = (int16_t)zero;
        ((GLOBAL int16_t *)y)[3] = (int16_t)all;
    }
}

/* A work-item a block. */
#define QUANTIZE(N) \
    KERNEL_2(quantize_##N, qn_quantize_sizes, y, x) \
    { \
        const int64_t block = GROUP * WIDTH + LANE, blocks = s.k / N; \
        if (block < blocks * s.n_columns) \
            quantize(AS(float, x) + block / blocks * s.x_stride + block % blocks * N, \
                     AS(uint8_t, y) + block * ACT_BYTES(N), N); \
    }
QUANTIZE(32)
QUANTIZE(256)

/* ---- weights as integers ---- For each format: bytes of a block, d and (where it has one) m of the block, weight i,
 * and of super-blocks scale and minimum of sub-block j. */

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

/* ---- products ---- a work-item a row; a group's rows have one column. */

#define ROW_AND_COLUMN() \
    const int64_t row_groups = (s.m + WIDTH - 1) / WIDTH, r = GROUP % row_groups * WIDTH + LANE, \
                  c = GROUP / row_groups; \
    if (r >= s.m) return; \
    GLOBAL const uint8_t *w = AS(uint8_t, w) + r * s.w_bytes; \
    float acc = 0

#define FINISH() AS(float, y)[c * s.m + r] = s.has_bias ? acc + AS(float, bias)[r] : acc

#define LINEAR_OF_32(NAME, WITH_MIN) \
    KERNEL_4(linear_##NAME, qn_linear_sizes, y, x, w, bias) \
    { \
        ROW_AND_COLUMN(); \
        GLOBAL const uint8_t *x = AS(uint8_t, x) + c * (s.k / 32) * 40; \
        for (int64_t at = 0; at < s.k; at += 32, w += BYTES_##NAME, x += 40) { \
            GLOBAL const int8_t *q = (GLOBAL const int8_t *)x + 8; \
            const float d = *(GLOBAL const float *)x; \
            int dot = 0, sum_w = 0; \
            for (int i = 0; i < 32; i++) { \
                const int v = W_##NAME(w, i); \
                dot += v * q[i]; \
                sum_w += v; \
            } \
            acc = fma((float)(dot - ((GLOBAL const int16_t *)x)[2] * sum_w), D_##NAME(w) * d, acc); \
            if (WITH_MIN) acc = fma((float)M_##NAME(w), d * (float)((GLOBAL const int16_t *)x)[3], acc); \
        } \
        FINISH(); \
    }

#define LINEAR_OF_256(NAME, SUB, WITH_MIN) \
    KERNEL_4(linear_##NAME, qn_linear_sizes, y, x, w, bias) \
    { \
        ROW_AND_COLUMN(); \
        GLOBAL const uint8_t *x = AS(uint8_t, x) + c * (s.k / 256) * 296; \
        for (int64_t at = 0; at < s.k; at += 256, w += BYTES_##NAME, x += 296) { \
            GLOBAL const int8_t *q = (GLOBAL const int8_t *)x + 40; \
            GLOBAL const int16_t *sum = (GLOBAL const int16_t *)(x + 8); \
            const float d = *(GLOBAL const float *)x; \
            int t = 0, z = 0, m = 0; \
            for (int j = 0; j < 256 / SUB; j++) { \
                int dot = 0, sum_w = 0; \
                for (int i = j * SUB; i < (j + 1) * SUB; i++) { \
                    const int v = W_##NAME(w, i); \
                    dot += v * q[i]; \
                    sum_w += v; \
                } \
                t += S_##NAME(w, j) * dot; \
                z += S_##NAME(w, j) * sum_w; \
                if (WITH_MIN) \
                    for (int i = j * SUB / 16; i < (j + 1) * SUB / 16; i++) m += MIN_##NAME(w, j) * sum[i]; \
            } \
            const int zero = ((GLOBAL const int32_t *)x)[1]; \
            acc = fma(fma((float)-zero, (float)z, (float)t), D_##NAME(w) * d, acc); \
            if (WITH_MIN) acc = fma((float)m, -(M_##NAME(w) * d), acc); \
        } \
        FINISH(); \
    }

/* clang-format off */
LINEAR_OF_32(Q4_0, 0) LINEAR_OF_32(Q4_1, 1) LINEAR_OF_32(Q5_0, 0) LINEAR_OF_32(Q5_1, 1) LINEAR_OF_32(Q8_0, 0)
LINEAR_OF_32(IQ4_NL, 0) LINEAR_OF_32(MXFP4, 0)
LINEAR_OF_256(Q2_K, 16, 1) LINEAR_OF_256(Q3_K, 16, 0) LINEAR_OF_256(Q4_K, 32, 1) LINEAR_OF_256(Q5_K, 32, 1)
LINEAR_OF_256(Q6_K, 16, 0) LINEAR_OF_256(IQ4_XS, 32, 0)
    /* clang-format on */

    /* Floats: slices of 256 elements, each one chain, added in order. */
    KERNEL_4(linear_float, qn_linear_sizes, y, x, w, bias)
{
    ROW_AND_COLUMN();
    GLOBAL const float *x = AS(float, x) + c * s.x_stride;
    for (int64_t at = 0; at < s.k; at += 256) {
        float sum = 0;
        for (int64_t i = at; i < at + 256 && i < s.k; i++) sum = fma(x[i], element(w, s.format, i), sum);
        acc = at ? acc + sum : sum;
    }
    FINISH();
}
