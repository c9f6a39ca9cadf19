/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/tiles.cl -- products of weights in integers for devices with warps: rows_NAME for few columns,
 * tile_NAME for many (of one weight; not of experts). Both give what linear_NAME gives (linear.cl), to the bit: sums of a block are integers, which have
 * no order, and blocks are added to a row's result one after the other. */

/* ---- four weights, i to i + 3, as bytes ---- i is a multiple of 4. */

DEVICE uint32_t quad_at(GLOBAL const uint8_t *p) { return *(GLOBAL const uint32_t *)p; } /* a multiple of 4 */

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
#define P_Q4_1(b, i)   (quad_at((b) + 4 + (i) % 16) >> ((i) < 16 ? 0 : 4) & 0x0f0f0f0fu)
#define P_Q5_0(b, i)   less_4(NIBBLES((b) + 6, i) | spread_4(long_at((b) + 2) >> (i)) << 4, 16)
#define P_Q5_1(b, i)   ((quad_at((b) + 8 + (i) % 16) >> ((i) < 16 ? 0 : 4) & 0x0f0f0f0fu) | \
                        spread_4(quad_at((b) + 4) >> (i)) << 4)
#define P_Q8_0(b, i)   long_at((b) + 2 + (i))
#define P_IQ4_NL(b, i) PACK_4(W_IQ4_NL, b, i)
#define P_MXFP4(b, i)  PACK_4(W_MXFP4, b, i)
#define P_Q2_K(b, i)   (quad_at((b) + 16 + (i) / 128 * 32 + (i) % 32) >> (i) / 32 % 4 * 2 & 0x03030303u)
#define P_Q3_K(b, i)   less_4((long_at((b) + 32 + (i) / 128 * 32 + (i) % 32) >> (i) / 32 % 4 * 2 & 0x03030303u) | \
                              (long_at((b) + (i) % 32) >> (i) / 32 & 0x01010101u) << 2, 4)
#define P_Q4_K(b, i)   (quad_at((b) + 16 + (i) / 64 * 32 + (i) % 32) >> (i) / 32 % 2 * 4 & 0x0f0f0f0fu)
#define P_Q5_K(b, i)   ((quad_at((b) + 48 + (i) / 64 * 32 + (i) % 32) >> (i) / 32 % 2 * 4 & 0x0f0f0f0fu) | \
                        (quad_at((b) + 16 + (i) % 32) >> (i) / 32 & 0x01010101u) << 4)
#define P_Q6_K(b, i)   less_4((long_at((b) + (i) / 128 * 64 + (i) / 32 % 2 * 32 + (i) % 32) >> (i) / 64 % 2 * 4 & \
                               0x0f0f0f0fu) | (long_at((b) + 128 + (i) / 128 * 32 + (i) % 32) >> (i) / 32 % 4 * 2 & \
                                               0x03030303u) << 4, 32)
#define P_IQ4_XS(b, i) PACK_4(W_IQ4_XS, b, i)
/* clang-format on */

/* ---- 32 weights, part j of a super-block, as eight words ---- In loads of 16 bytes where blocks lie so. */

DEVICE void load_32(GLOBAL const uint8_t *p, uint32_t *to)
{
    const quad a = ((GLOBAL const quad *)p)[0], b = ((GLOBAL const quad *)p)[1];
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}
DEVICE void fetch_q4_k(GLOBAL const uint8_t *b, int j, uint32_t *p)
{
    load_32(b + 16 + j / 2 * 32, p);
    for (int i = 0; i < 8; i++) p[i] = p[i] >> j % 2 * 4 & 0x0f0f0f0fu;
}
DEVICE void fetch_q5_k(GLOBAL const uint8_t *b, int j, uint32_t *p)
{
    uint32_t high[8];
    load_32(b + 48 + j / 2 * 32, p);
    load_32(b + 16, high);
    for (int i = 0; i < 8; i++) p[i] = (p[i] >> j % 2 * 4 & 0x0f0f0f0fu) | (high[i] >> j & 0x01010101u) << 4;
}
#define FETCH(NAME, b, j, p) \
    for (int f_ = 0; f_ < 8; f_++) (p)[f_] = P_##NAME(b, 32 * (j) + 4 * f_)
#define FETCH_Q2_K(b, j, p)   FETCH(Q2_K, b, j, p)
#define FETCH_Q3_K(b, j, p)   FETCH(Q3_K, b, j, p)
#define FETCH_Q4_K(b, j, p)   fetch_q4_k(b, j, p)
#define FETCH_Q5_K(b, j, p)   fetch_q5_k(b, j, p)
#define FETCH_Q6_K(b, j, p)   FETCH(Q6_K, b, j, p)
#define FETCH_IQ4_XS(b, j, p) FETCH(IQ4_XS, b, j, p)

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
    JOB() \
    GLOBAL float *y = AS_JOB(float, y, y1, y2); \
    const int64_t rows = OF_JOB(m), groups = (rows + ROWS - 1) / ROWS, r = group_ % groups * ROWS + LANE / 32, \
                  c = group_ / groups, blocks = s.k / N; \
    const int row = LANE / 32, lane = LANE % 32; \
    const int64_t expert = \
        s.u ? whole_at(AS(uint8_t, ids), s.id_format, c / s.u * s.id_row + c % s.u * s.id_step) : 0; \
    if (s.u && (expert < 0 || expert >= s.n_experts)) { \
        if (lane == 0 && r < rows) y[c * rows + r] = 0; \
        return; \
    } \
    GLOBAL const uint8_t *w = AS_JOB(uint8_t, w, w1, w2) + expert * OF_JOB(expert_bytes) + \
                              (r < rows ? r : rows - 1) * OF_JOB(w_bytes); \
    GLOBAL const uint8_t *x = AS(uint8_t, x) + (s.u && s.shared_x ? c / s.u : c) * blocks * ACT_BYTES(N); \
    float acc = 0

#define CHAIN(n, WITH_MIN) \
    for (int i = 0; i < (n) && lane == 0; i++) { \
        acc = fma(room->sum[row][i], room->scale[row][i], acc); \
        if (WITH_MIN) acc = fma(room->min_sum[row][i], room->min_scale[row][i], acc); \
    }

#define ROWS_END() \
    if (lane == 0 && r < rows) FINISH()

#define ROWS_OF_32(NAME, SUB, WITH_MIN) \
    PRODUCT(rows_##NAME) \
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
    PRODUCT(rows_##NAME) \
    { \
        ROWS_BEGIN(256); \
        for (int64_t at = 0; at < blocks; at += BLOCKS_A_PASS) { \
            const int n = blocks - at < BLOCKS_A_PASS ? (int)(blocks - at) : BLOCKS_A_PASS; \
            MEET(); \
            for (int chunk = lane; chunk < 8 * n; chunk += 32) { \
                GLOBAL const uint8_t *b = w + (at + chunk / 8) * BYTES_##NAME, *q = x + (at + chunk / 8) * ACT_BYTES(256); \
                uint32_t p[8], v[8]; \
                int t = 0, z = 0, m = 0; \
                FETCH_##NAME(b, chunk % 8, p); \
                load_32(q + ACT_Q(256) + chunk % 8 * 32, v); \
                for (int h = 0; h < 32 / SUB; h++) { \
                    const int j = chunk % 8 * (32 / SUB) + h; \
                    int dot = 0, sum_w = 0; \
                    for (int i = h * SUB / 4; i < (h + 1) * SUB / 4; i++) { \
                        dot = dot4(p[i], v[i], dot); \
                        sum_w = dot4(p[i], ONES, sum_w); \
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
                GLOBAL const uint8_t *b = w + (at + lane) * BYTES_##NAME, *q = x + (at + lane) * ACT_BYTES(256); \
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
    JOB() \
    GLOBAL float *y = AS_JOB(float, y, y1, y2); \
    const int64_t rows = OF_JOB(m), tiles = (rows + 15) / 16, r = group_ % tiles * 16 + LANE / 4, \
                  c = group_ / tiles * (8 * PARTS), blocks = s.k / N, column = blocks * ACT_BYTES(N); \
    GLOBAL const uint8_t *w = AS_JOB(uint8_t, w, w1, w2), \
                         *wa = w + (r < rows ? r : rows - 1) * OF_JOB(w_bytes), \
                         *wb = w + (r + 8 < rows ? r + 8 : rows - 1) * OF_JOB(w_bytes); \
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
    UNROLLED for (int i = 0; i < PARTS; i++) \
        UNROLLED for (int j = 0; j < 4; j++) { \
            const int64_t at = c + 8 * i + LANE % 4 * 2 + j % 2, to = r + j / 2 * 8; \
            if (at < s.n_columns && to < rows) \
                STORE(at * rows + to, OF_JOB(has_bias) ? acc[i][j] + AS_JOB(float, bias, bias1, bias2)[to] \
                                                       : acc[i][j]); \
        }

#define TILE_OF_32(NAME, SUB, WITH_MIN) \
    PRODUCT(tile_##NAME) \
    { \
        TILE_BEGIN(32) \
        const uint32_t ones[2] = {ONES, ONES}; \
        const int e = LANE % 4 * 4; \
        for (int64_t n = 0, at = 0; n < blocks; n++, at += 40, wa += BYTES_##NAME, wb += BYTES_##NAME) { \
            const uint32_t a[4] = {P_##NAME(wa, e), P_##NAME(wb, e), P_##NAME(wa, e + 16), P_##NAME(wb, e + 16)}; \
            const float d0 = D_##NAME(wa), d1 = D_##NAME(wb), m0 = (float)M_##NAME(wa), m1 = (float)M_##NAME(wb); \
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
    PRODUCT(tile_##NAME) \
    { \
        TILE_BEGIN(256) \
        const uint32_t ones[2] = {ONES, ONES}; \
        for (int64_t n = 0, at = 0; n < blocks; n++, at += ACT_BYTES(256), wa += BYTES_##NAME, wb += BYTES_##NAME) { \
            int t[PARTS][4], m[PARTS][4], z0 = 0, z1 = 0; \
            for (int i = 0; i < PARTS; i++) \
                for (int j = 0; j < 4; j++) t[i][j] = m[i][j] = 0; \
            for (int k = 0; k < 256; k += SUB) { \
                const int e = k + LANE % 4 * 4, f = SUB == 32 ? e + 16 : e; \
                const uint32_t a[4] = {P_##NAME(wa, e), P_##NAME(wb, e), P_##NAME(wa, f), P_##NAME(wb, f)}; \
                const int s0 = S_##NAME(wa, k / SUB), s1 = S_##NAME(wb, k / SUB), n0 = MIN_##NAME(wa, k / SUB), \
                          n1 = MIN_##NAME(wb, k / SUB); \
                int sums[4] = {0, 0, 0, 0}; \
                if (SUB == 32) \
                    mma_32(room, sums, a, ones); \
                else \
                    mma_16(room, sums, a, ONES); \
                z0 += s0 * sums[0]; \
                z1 += s1 * sums[2]; \
                for (int i = 0; i < PARTS; i++) { \
                    GLOBAL const uint8_t *q = xb[i] + at + ACT_Q(256) + k; \
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
            const float d0 = D_##NAME(wa), d1 = D_##NAME(wb), m0 = M_##NAME(wa), m1 = M_##NAME(wb); \
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
