/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/tiles.cl -- products of weights in integers for devices with warps: rows_NAME for few columns,
 * tile_NAME for many (of one weight; not of experts). Both give what linear_NAME gives (linear.cl), to the bit: sums of a block are integers, which have
 * no order, and blocks are added to a row's result one after the other. */

/* ---- four weights, i to i + 3, as bytes ---- i is a multiple of 4. */

DEVICE uint32_t less_4(uint32_t x, uint32_t n) /* of bytes below 128, n up to 128 */
{
    return ((x | 0x80808080u) - n * 0x01010101u) ^ 0x80808080u;
}
DEVICE uint32_t spread_4(uint32_t bits) { return (bits & 15) * 0x00204081u & 0x01010101u; }
#define NIBBLES(qs, i) (long_at((qs) + (i) % 16) >> ((i) < 16 ? 0 : 4) & 0x0f0f0f0fu)
#define PACK_4(w, b, i) \
    ((uint32_t)(uint8_t)w(b, i) | (uint32_t)(uint8_t)w(b, (i) + 1) << 8 | (uint32_t)(uint8_t)w(b, (i) + 2) << 16 | \
     (uint32_t)(uint8_t)w(b, (i) + 3) << 24)
/* clang-format off */
#define P_Q4_0(b, i)   less_4(NIBBLES((b) + 2, i), 8)
#define P_Q4_1(b, i)   NIBBLES((b) + 4, i)
#define P_Q5_0(b, i)   less_4(NIBBLES((b) + 6, i) | spread_4(long_at((b) + 2) >> (i)) << 4, 16)
#define P_Q5_1(b, i)   (NIBBLES((b) + 8, i) | spread_4(long_at((b) + 4) >> (i)) << 4)
#define P_Q8_0(b, i)   long_at((b) + 2 + (i))
#define P_IQ4_NL(b, i) PACK_4(W_IQ4_NL, b, i)
#define P_MXFP4(b, i)  PACK_4(W_MXFP4, b, i)
#define P_Q2_K(b, i)   (long_at((b) + 16 + (i) / 128 * 32 + (i) % 32) >> (i) / 32 % 4 * 2 & 0x03030303u)
#define P_Q3_K(b, i)   less_4((long_at((b) + 32 + (i) / 128 * 32 + (i) % 32) >> (i) / 32 % 4 * 2 & 0x03030303u) | \
                              (long_at((b) + (i) % 32) >> (i) / 32 & 0x01010101u) << 2, 4)
#define P_Q4_K(b, i)   (long_at((b) + 16 + (i) / 64 * 32 + (i) % 32) >> (i) / 32 % 2 * 4 & 0x0f0f0f0fu)
#define P_Q5_K(b, i)   ((long_at((b) + 48 + (i) / 64 * 32 + (i) % 32) >> (i) / 32 % 2 * 4 & 0x0f0f0f0fu) | \
                        (long_at((b) + 16 + (i) % 32) >> (i) / 32 & 0x01010101u) << 4)
#define P_Q6_K(b, i)   less_4((long_at((b) + (i) / 128 * 64 + (i) / 32 % 2 * 32 + (i) % 32) >> (i) / 64 % 2 * 4 & \
                               0x0f0f0f0fu) | (long_at((b) + 128 + (i) / 128 * 32 + (i) % 32) >> (i) / 32 % 4 * 2 & \
                                               0x03030303u) << 4, 32)
#define P_IQ4_XS(b, i) PACK_4(W_IQ4_XS, b, i)
/* clang-format on */

/* ---- few columns ---- A group has ROWS rows of one column, 32 work-items each. Each takes 32 weights at a time; then
 * one adds up a block, and one the row. */

#define ROWS   4
#define BLOCKS_A_PASS 16
#define ONES   0x01010101u

typedef struct rows_room {
    int t[ROWS][128], z[ROWS][128], m[ROWS][128];
    float sum[ROWS][32], scale[ROWS][32], min_sum[ROWS][32], min_scale[ROWS][32];
} rows_room;

#define ROWS_BEGIN(N) \
    IN_ROOM(rows_room, room); \
    const int64_t groups = (s.m + ROWS - 1) / ROWS, r = GROUP % groups * ROWS + LANE / 32, c = GROUP / groups, \
                  blocks = s.k / N; \
    const int row = LANE / 32, lane = LANE % 32; \
    const int64_t expert = \
        s.u ? whole_at(AS(uint8_t, ids), s.id_format, c / s.u * s.id_row + c % s.u * s.id_step) : 0; \
    if (s.u && (expert < 0 || expert >= s.n_experts)) { \
        if (lane == 0 && r < s.m) AS(float, y)[c * s.m + r] = 0; \
        return; \
    } \
    GLOBAL const uint8_t *w = AS(uint8_t, w) + expert * s.expert_bytes + (r < s.m ? r : s.m - 1) * s.w_bytes; \
    GLOBAL const uint8_t *x = AS(uint8_t, x) + (s.u && s.shared_x ? c / s.u : c) * blocks * ACT_BYTES(N); \
    float acc = 0

#define CHAIN(n, WITH_MIN) \
    for (int i = 0; i < (n) && lane == 0; i++) { \
        acc = fma(room->sum[row][i], room->scale[row][i], acc); \
        if (WITH_MIN) acc = fma(room->min_sum[row][i], room->min_scale[row][i], acc); \
    }

#define ROWS_END() \
    if (lane == 0 && r < s.m) \
        AS(float, y)[c * s.m + r] = s.has_bias ? acc + AS(float, bias)[expert * s.bias_row + r] : acc

#define ROWS_OF_32(NAME, SUB, WITH_MIN) \
    KERNEL_5(rows_##NAME, qn_linear_sizes, y, x, w, bias, ids) \
    { \
        ROWS_BEGIN(32); \
        for (int64_t at = 0; at < blocks; at += 32) { \
            const int n = blocks - at < 32 ? (int)(blocks - at) : 32; \
            MEET(); \
            if (lane < n) { \
                GLOBAL const uint8_t *b = w + (at + lane) * BYTES_##NAME, *q = x + (at + lane) * 40; \
                const float d = *(GLOBAL const float *)q; \
                int dot = 0, sum_w = 0; \
                for (int i = 0; i < 32; i += 4) { \
                    const uint32_t p = P_##NAME(b, i); \
                    dot = dot4(p, *(GLOBAL const uint32_t *)(q + 8 + i), dot); \
                    sum_w = dot4(p, ONES, sum_w); \
                } \
                room->sum[row][lane] = (float)(dot - ((GLOBAL const int16_t *)q)[2] * sum_w); \
                room->scale[row][lane] = D_##NAME(b) * d; \
                if (WITH_MIN) { \
                    room->min_sum[row][lane] = (float)M_##NAME(b); \
                    room->min_scale[row][lane] = d * (float)((GLOBAL const int16_t *)q)[3]; \
                } \
            } \
            MEET(); \
            CHAIN(n, WITH_MIN) \
        } \
        ROWS_END(); \
    }

#define ROWS_OF_256(NAME, SUB, WITH_MIN) \
    KERNEL_5(rows_##NAME, qn_linear_sizes, y, x, w, bias, ids) \
    { \
        ROWS_BEGIN(256); \
        for (int64_t at = 0; at < blocks; at += BLOCKS_A_PASS) { \
            const int n = blocks - at < BLOCKS_A_PASS ? (int)(blocks - at) : BLOCKS_A_PASS; \
            MEET(); \
            for (int chunk = lane; chunk < 8 * n; chunk += 32) { \
                GLOBAL const uint8_t *b = w + (at + chunk / 8) * BYTES_##NAME, *q = x + (at + chunk / 8) * 296; \
                int t = 0, z = 0, m = 0; \
                for (int j = chunk % 8 * (32 / SUB); j < (chunk % 8 + 1) * (32 / SUB); j++) { \
                    int dot = 0, sum_w = 0; \
                    for (int i = j * SUB; i < (j + 1) * SUB; i += 4) { \
                        const uint32_t p = P_##NAME(b, i); \
                        dot = dot4(p, *(GLOBAL const uint32_t *)(q + 40 + i), dot); \
                        sum_w = dot4(p, ONES, sum_w); \
                    } \
                    t += S_##NAME(b, j) * dot; \
                    z += S_##NAME(b, j) * sum_w; \
                    if (WITH_MIN) \
                        for (int i = j * SUB / 16; i < (j + 1) * SUB / 16; i++) \
                            m += MIN_##NAME(b, j) * ((GLOBAL const int16_t *)(q + 8))[i]; \
                } \
                room->t[row][chunk] = t; \
                room->z[row][chunk] = z; \
                if (WITH_MIN) room->m[row][chunk] = m; \
            } \
            MEET(); \
            if (lane < n) { \
                GLOBAL const uint8_t *b = w + (at + lane) * BYTES_##NAME, *q = x + (at + lane) * 296; \
                const float d = *(GLOBAL const float *)q; \
                int t = 0, z = 0, m = 0; \
                for (int i = 8 * lane; i < 8 * lane + 8; i++) { \
                    t += room->t[row][i]; \
                    z += room->z[row][i]; \
                    if (WITH_MIN) m += room->m[row][i]; \
                } \
                room->sum[row][lane] = fma((float)-((GLOBAL const int32_t *)q)[1], (float)z, (float)t); \
                room->scale[row][lane] = D_##NAME(b) * d; \
                if (WITH_MIN) { \
                    room->min_sum[row][lane] = (float)m; \
                    room->min_scale[row][lane] = -(M_##NAME(b) * d); \
                } \
            } \
            MEET(); \
            CHAIN(n, WITH_MIN) \
        } \
        ROWS_END(); \
    }

/* ---- many columns ---- A warp has 16 rows and 8 PARTS columns; sums of weights come of the same instruction, by
 * columns of ones. Rows and columns past the end are computed as the last one, and not written. */

#define PARTS 4

#define TILE_BEGIN(N) \
    IN_ROOM(mma_room, room); \
    const int64_t tiles = (s.m + 15) / 16, r = GROUP % tiles * 16 + LANE / 4, c = GROUP / tiles * (8 * PARTS), \
                  blocks = s.k / N, column = blocks * ACT_BYTES(N); \
    GLOBAL const uint8_t *w0 = AS(uint8_t, w) + (r < s.m ? r : s.m - 1) * s.w_bytes, \
                         *w1 = AS(uint8_t, w) + (r + 8 < s.m ? r + 8 : s.m - 1) * s.w_bytes; \
    GLOBAL const uint8_t *xb[PARTS], *xc[PARTS][2]; \
    float acc[PARTS][4]; \
    for (int i = 0; i < PARTS; i++) { \
        const int64_t of_b = c + 8 * i + LANE / 4, of_c = c + 8 * i + LANE % 4 * 2, last = s.n_columns - 1; \
        xb[i] = AS(uint8_t, x) + (of_b < last ? of_b : last) * column + LANE % 4 * 4; \
        xc[i][0] = AS(uint8_t, x) + (of_c < last ? of_c : last) * column; \
        xc[i][1] = AS(uint8_t, x) + (of_c + 1 < last ? of_c + 1 : last) * column; \
        for (int j = 0; j < 4; j++) acc[i][j] = 0; \
    }

#define TILE_END() \
    for (int i = 0; i < PARTS; i++) \
        for (int j = 0; j < 4; j++) { \
            const int64_t at = c + 8 * i + LANE % 4 * 2 + j % 2, to = r + j / 2 * 8; \
            if (at < s.n_columns && to < s.m) \
                AS(float, y)[at * s.m + to] = s.has_bias ? acc[i][j] + AS(float, bias)[to] : acc[i][j]; \
        }

#define TILE_OF_32(NAME, SUB, WITH_MIN) \
    KERNEL_5(tile_##NAME, qn_linear_sizes, y, x, w, bias, ids) \
    { \
        TILE_BEGIN(32) \
        const uint32_t ones[2] = {ONES, ONES}; \
        const int e = LANE % 4 * 4; \
        for (int64_t n = 0, at = 0; n < blocks; n++, at += 40, w0 += BYTES_##NAME, w1 += BYTES_##NAME) { \
            const uint32_t a[4] = {P_##NAME(w0, e), P_##NAME(w1, e), P_##NAME(w0, e + 16), P_##NAME(w1, e + 16)}; \
            const float d0 = D_##NAME(w0), d1 = D_##NAME(w1), m0 = (float)M_##NAME(w0), m1 = (float)M_##NAME(w1); \
            int sums[4] = {0, 0, 0, 0}; \
            mma_32(room, sums, a, ones); \
            for (int i = 0; i < PARTS; i++) { \
                const uint32_t b[2] = {*(GLOBAL const uint32_t *)(xb[i] + at + 8), \
                                       *(GLOBAL const uint32_t *)(xb[i] + at + 24)}; \
                int dots[4] = {0, 0, 0, 0}; \
                mma_32(room, dots, a, b); \
                for (int j = 0; j < 4; j++) { \
                    GLOBAL const uint8_t *x = xc[i][j % 2] + at; \
                    const float d = *(GLOBAL const float *)x; \
                    const int zero = ((GLOBAL const int16_t *)x)[2], all = ((GLOBAL const int16_t *)x)[3]; \
                    acc[i][j] = fma((float)(dots[j] - zero * sums[j]), (j < 2 ? d0 : d1) * d, acc[i][j]); \
                    if (WITH_MIN) acc[i][j] = fma(j < 2 ? m0 : m1, d * (float)all, acc[i][j]); \
                } \
            } \
        } \
        TILE_END() \
    }

#define TILE_OF_256(NAME, SUB, WITH_MIN) \
    KERNEL_5(tile_##NAME, qn_linear_sizes, y, x, w, bias, ids) \
    { \
        TILE_BEGIN(256) \
        const uint32_t ones[2] = {ONES, ONES}; \
        for (int64_t n = 0, at = 0; n < blocks; n++, at += 296, w0 += BYTES_##NAME, w1 += BYTES_##NAME) { \
            int t[PARTS][4], m[PARTS][4], z0 = 0, z1 = 0; \
            for (int i = 0; i < PARTS; i++) \
                for (int j = 0; j < 4; j++) t[i][j] = m[i][j] = 0; \
            for (int k = 0; k < 256; k += SUB) { \
                const int e = k + LANE % 4 * 4, f = SUB == 32 ? e + 16 : e; \
                const uint32_t a[4] = {P_##NAME(w0, e), P_##NAME(w1, e), P_##NAME(w0, f), P_##NAME(w1, f)}; \
                const int s0 = S_##NAME(w0, k / SUB), s1 = S_##NAME(w1, k / SUB), n0 = MIN_##NAME(w0, k / SUB), \
                          n1 = MIN_##NAME(w1, k / SUB); \
                int sums[4] = {0, 0, 0, 0}; \
                if (SUB == 32) \
                    mma_32(room, sums, a, ones); \
                else \
                    mma_16(room, sums, a, ONES); \
                z0 += s0 * sums[0]; \
                z1 += s1 * sums[2]; \
                for (int i = 0; i < PARTS; i++) { \
                    GLOBAL const uint8_t *q = xb[i] + at + 40 + k; \
                    int dots[4] = {0, 0, 0, 0}; \
                    if (SUB == 32) { \
                        const uint32_t b[2] = {*(GLOBAL const uint32_t *)q, *(GLOBAL const uint32_t *)(q + 16)}; \
                        mma_32(room, dots, a, b); \
                    } else { \
                        mma_16(room, dots, a, *(GLOBAL const uint32_t *)q); \
                    } \
                    for (int j = 0; j < 4; j++) { \
                        t[i][j] += (j < 2 ? s0 : s1) * dots[j]; \
                        if (WITH_MIN) { \
                            GLOBAL const int16_t *sum = (GLOBAL const int16_t *)(xc[i][j % 2] + at + 8) + k / 16; \
                            m[i][j] += (j < 2 ? n0 : n1) * (SUB == 32 ? sum[0] + sum[SUB / 32] : sum[0]); \
                        } \
                    } \
                } \
            } \
            const float d0 = D_##NAME(w0), d1 = D_##NAME(w1), m0 = M_##NAME(w0), m1 = M_##NAME(w1); \
            for (int i = 0; i < PARTS; i++) \
                for (int j = 0; j < 4; j++) { \
                    GLOBAL const uint8_t *x = xc[i][j % 2] + at; \
                    const float d = *(GLOBAL const float *)x; \
                    const int zero = ((GLOBAL const int32_t *)x)[1]; \
                    acc[i][j] = fma(fma((float)-zero, (float)(j < 2 ? z0 : z1), (float)t[i][j]), \
                                    (j < 2 ? d0 : d1) * d, acc[i][j]); \
                    if (WITH_MIN) acc[i][j] = fma((float)m[i][j], -((j < 2 ? m0 : m1) * d), acc[i][j]); \
                } \
        } \
        TILE_END() \
    }

/* clang-format off */
INTS_OF_32(ROWS_OF_32) INTS_OF_256(ROWS_OF_256)
INTS_OF_32(TILE_OF_32) INTS_OF_256(TILE_OF_256)
/* clang-format on */
