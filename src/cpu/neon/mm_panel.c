/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_panel.c -- panels without dot product instructions: sixteen bytes of a row are multiplied with
 * sixteen of a column lane by lane; then the sums of four rows are brought into the lanes of one register. */
#include "cpu/neon/neon.h"
#include "cpu/neon/dot.h"

enum { RUN = 16, RV = 2, CV = 4 };

INLINE void arrange(int8_t *unit, int v, const int8x16_t rows[4])
{
    UNROLL
    for (int r = 0; r < 4; r++) vst1q_s8(unit + (4 * v + r) * 16, rows[r]);
}

INLINE void row_values(float out[RV][4], int v, float32x4_t x) { vst1q_f32(out[v], x); }
INLINE float32x4_t col_values(float32x4_t x, const int c)
{
    return c == 0   ? vdupq_laneq_f32(x, 0)
           : c == 1 ? vdupq_laneq_f32(x, 1)
           : c == 2 ? vdupq_laneq_f32(x, 2)
                    : vdupq_laneq_f32(x, 3);
}

INLINE void dot(int32x4_t s[RV][CV], const int8_t *w, const int8_t *q, const int n, const int wide)
{
    UNROLL
    for (int v = 0; v < RV; v++) {
        int8x16_t x[4][2];
        UNROLL
        for (int r = 0; r < 4; r++) UNROLL
        for (int u = 0; u < n; u++) x[r][u] = vld1q_s8(w + u * 128 + (4 * v + r) * 16);
        UNROLL
        for (int c = 0; c < CV; c++) {
            int8x16_t y[2];
            int32x4_t parts[4];
            UNROLL
            for (int u = 0; u < n; u++) y[u] = vld1q_s8(q + u * 64 + c * 16);
            UNROLL
            for (int r = 0; r < 4; r++) parts[r] = n == 2 ? dot_32(x[r], y, wide) : dot_16(x[r][0], y[0]);
            s[v][c] = vaddq_s32(s[v][c], sum_each(parts));
        }
    }
}

static inline void tile_out(float s[RV][CV][4], float out[4][8])
{
    for (int c = 0; c < CV; c++)
        for (int v = 0; v < RV; v++) vst1q_f32(out[c] + 4 * v, vld1q_f32(s[v][c]));
}

#define FN(name) qn__neon_##name
#include "cpu/neon/mm_panel.h"
