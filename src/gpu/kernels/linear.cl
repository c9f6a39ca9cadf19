/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/linear.cl -- products with weights in the file's formats, as backend/numbers/act.h defines them. */

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
            quantize(AS(float, x) + row_at(&s.x, block / blocks) + block % blocks * N, \
                     AS(uint8_t, y) + block * ACT_BYTES(N), N); \
    }
QUANTIZE(32)
QUANTIZE(256)

/* ---- products ---- a work-item a row; a group's rows have one column. In a mixture of experts a column is one of a
 * token's s.u places, and ids says whose rows it meets: 0 where there is no such expert. */

#define ROW_AND_COLUMN() \
    const int64_t row_groups = (s.m + WIDTH - 1) / WIDTH, r = GROUP % row_groups * WIDTH + LANE, \
                  c = GROUP / row_groups; \
    if (r >= s.m) return; \
    const int64_t expert = \
        s.u ? whole_at(AS(uint8_t, ids), s.id_format, c / s.u * s.id_row + c % s.u * s.id_step) : 0; \
    if (s.u && (expert < 0 || expert >= s.n_experts)) { \
        AS(float, y)[c * s.m + r] = 0; \
        return; \
    } \
    const int64_t column = s.u && s.shared_x ? c / s.u : c; \
    GLOBAL const uint8_t *w = AS(uint8_t, w) + expert * s.expert_bytes + r * s.w_bytes; \
    float acc = 0

#define FINISH() \
    AS(float, y)[c * s.m + r] = s.has_bias ? acc + AS(float, bias)[expert * s.bias_row + r] : acc

#define LINEAR_OF_32(NAME, SUB, WITH_MIN) \
    KERNEL_5(linear_##NAME, qn_linear_sizes, y, x, w, bias, ids) \
    { \
        ROW_AND_COLUMN(); \
        GLOBAL const uint8_t *x = AS(uint8_t, x) + column * (s.k / 32) * 40; \
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
    KERNEL_5(linear_##NAME, qn_linear_sizes, y, x, w, bias, ids) \
    { \
        ROW_AND_COLUMN(); \
        GLOBAL const uint8_t *x = AS(uint8_t, x) + column * (s.k / 256) * 296; \
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
INTS_OF_32(LINEAR_OF_32) INTS_OF_256(LINEAR_OF_256)
/* clang-format on */

/* Columns of floats: slices of 256 elements, each one chain, added in order; weights are unpacked 32 at a time. */
KERNEL_5(linear_float, qn_linear_sizes, y, x, w, bias, ids)
{
    ROW_AND_COLUMN();
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, column);
    float v[32];
    for (int64_t at = 0; at < s.k; at += 256) {
        float sum = 0;
        for (int64_t i = at; i < at + 256 && i < s.k; i += 32) {
            const int n = s.k - i < 32 ? (int)(s.k - i) : 32;
            unpack(w, s.format, i, n, v);
            for (int j = 0; j < n; j++) sum = fma(x[i + j], v[j], sum);
        }
        acc = at ? acc + sum : sum;
    }
    FINISH();
}
