/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/linear.cl -- products with weights in the file's formats, as backend/numbers/act.h defines them. */

/* A group a span of 256 elements of a column. */
#define QUANTIZE(N) \
    KERNEL_2(quantize_##N, qn_quantize_sizes, y, x) \
    { \
        IN_ROOM(span_room, room); \
        const int64_t spans = (s.k + 255) / 256, c = GROUP / spans, at = GROUP % spans * 256; \
        const int len = s.k - at < 256 ? (int)(s.k - at) : 256; \
        GLOBAL const float *x = AS(float, x) + row_at(&s.x, c) + at; \
        for (int i = LANE; i < len; i += WIDTH) room->v[i] = x[i]; \
        MEET(); \
        quantize_span(room, N, len, AS(uint8_t, y) + (c * s.k + at) / N * ACT_BYTES(N)); \
    }
QUANTIZE(32)
QUANTIZE(256)

/* ---- products ---- a work-item a row; a group's rows have one column. In a mixture of experts a column is one of a
 * token's s.u places, and ids says whose rows it meets: 0 where there is no such expert. */

#define PRODUCT(name) \
    KERNEL_13(name, qn_linear_sizes, y, x, w, bias, ids, y1, w1, bias1, y2, w2, bias2, sum, other)

#define ROW_AND_COLUMN() \
    JOB() \
    GLOBAL float *y = AS_JOB(float, y, y1, y2); \
    const int64_t rows = OF_JOB(m), row_groups = (rows + WIDTH - 1) / WIDTH, r = group_ % row_groups * WIDTH + LANE, \
                  c = group_ / row_groups; \
    if (r >= rows) return; \
    const int64_t expert = \
        s.u ? whole_at(AS(uint8_t, ids), s.id_format, c / s.u * s.id_row + c % s.u * s.id_step) : 0; \
    if (s.u && (expert < 0 || expert >= s.n_experts)) { \
        y[c * rows + r] = 0; \
        return; \
    } \
    const int64_t column = s.u && s.shared_x ? c / s.u : c; \
    GLOBAL const uint8_t *w = \
        AS_JOB(uint8_t, w, w1, w2) + expert * OF_JOB(expert_bytes) + r * OF_JOB(w_bytes); \
    float acc = 0

/* An element of y; where the launch has a sum, of that too. */
#define STORE(at, value) \
    do { \
        const float value_ = value; \
        y[at] = value_; \
        if (s.has_sum) AS(float, sum)[at] = AS(float, other)[at] + value_; \
    } while (0)

#define FINISH() \
    STORE(c * rows + r, OF_JOB(has_bias) ? acc + AS_JOB(float, bias, bias1, bias2)[expert * OF_JOB(bias_row) + r] : acc)

#define LINEAR_OF_32(NAME, SUB, WITH_MIN) \
    PRODUCT(linear_##NAME) \
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
    PRODUCT(linear_##NAME) \
    { \
        ROW_AND_COLUMN(); \
        GLOBAL const uint8_t *x = AS(uint8_t, x) + column * (s.k / 256) * ACT_BYTES(256); \
        for (int64_t at = 0; at < s.k; at += 256, w += BYTES_##NAME, x += ACT_BYTES(256)) { \
            GLOBAL const int8_t *q = (GLOBAL const int8_t *)x + ACT_Q(256); \
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
PRODUCT(linear_float)
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
