/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/dotprod/mm_panel.c -- panels with dot products of four bytes: a register of weights holds four of
 * each of four rows; a lane of a register of columns holds the four activations for them. Eight sums and eight
 * accumulators stay in registers beside three operands. */
#include "cpu/neon/neon.h"
#include "cpu/neon/bytes.h"

enum { RUN = 4, RV = 2, CV = 4 };

/* Word i of each row, side by side. */
INLINE void arrange(int8_t *unit, int v, const int8x16_t rows[4])
{
    float32x4_t x[4];
    UNROLL
    for (int r = 0; r < 4; r++) x[r] = vreinterpretq_f32_s8(rows[r]);
    transpose4(x);
    UNROLL
    for (int i = 0; i < 4; i++) vst1q_s8(unit + 32 * i + 16 * v, vreinterpretq_s8_f32(x[i]));
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
    (void)wide;
    UNROLL
    for (int i = 0; i < 4 * n; i++) {
        const int8x16_t y = vld1q_s8(q + 16 * i);
        UNROLL
        for (int v = 0; v < RV; v++) {
            const int8x16_t x = vld1q_s8(w + 32 * i + 16 * v);
            s[v][0] = vdotq_laneq_s32(s[v][0], x, y, 0);
            s[v][1] = vdotq_laneq_s32(s[v][1], x, y, 1);
            s[v][2] = vdotq_laneq_s32(s[v][2], x, y, 2);
            s[v][3] = vdotq_laneq_s32(s[v][3], x, y, 3);
        }
    }
}

static inline void tile_out(float s[RV][CV][4], float out[4][8])
{
    for (int c = 0; c < CV; c++)
        for (int v = 0; v < RV; v++) vst1q_f32(out[c] + 4 * v, vld1q_f32(s[v][c]));
}

#define FN(name) qn__dotprod_##name
#include "cpu/neon/mm_panel.h"
