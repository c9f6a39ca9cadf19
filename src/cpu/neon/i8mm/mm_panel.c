/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/i8mm/mm_panel.c -- panels with products of matrices: one instruction multiplies eight bytes of each
 * of two rows and two columns, twice the work of a dot product, and adds to four sums: (row, column) (row, next
 * column) (next row, column) (both next). Whatever multiplies sums is in that order too, so they are separated only
 * when a row is done. */
#include "cpu/neon/neon.h"
#include "cpu/neon/bytes.h"

enum { RUN = 8, RV = 4, CV = 2 };

/* Half of a row beside half of the next row. */
INLINE void arrange(int8_t *unit, int v, const int8x16_t rows[4])
{
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
        const int64x2_t a = vreinterpretq_s64_s8(rows[2 * pair]), b = vreinterpretq_s64_s8(rows[2 * pair + 1]);
        vst1q_s8(unit + (2 * v + pair) * 16, vreinterpretq_s8_s64(vzip1q_s64(a, b)));
        vst1q_s8(unit + 64 + (2 * v + pair) * 16, vreinterpretq_s8_s64(vzip2q_s64(a, b)));
    }
}

INLINE void row_values(float out[RV][4], int v, float32x4_t x)
{
    vst1q_f32(out[2 * v], vzip1q_f32(x, x));
    vst1q_f32(out[2 * v + 1], vzip2q_f32(x, x));
}
INLINE float32x4_t col_values(float32x4_t x, const int c)
{
    const float64x2_t pairs = vreinterpretq_f64_f32(x);
    return vreinterpretq_f32_f64(c == 0 ? vdupq_laneq_f64(pairs, 0) : vdupq_laneq_f64(pairs, 1));
}

INLINE void dot(int32x4_t s[RV][CV], const int8_t *w, const int8_t *q, const int n, const int wide)
{
    (void)wide;
    UNROLL
    for (int i = 0; i < 2 * n; i++) {
        const int8x16_t y[CV] = {vld1q_s8(q + 32 * i), vld1q_s8(q + 32 * i + 16)};
        UNROLL
        for (int v = 0; v < RV; v++) {
            const int8x16_t x = vld1q_s8(w + 64 * i + 16 * v);
            UNROLL
            for (int c = 0; c < CV; c++) s[v][c] = vmmlaq_s32(s[v][c], x, y[c]);
        }
    }
}

static inline void tile_out(float s[RV][CV][4], float out[4][8])
{
    for (int c = 0; c < CV; c++)
        for (int v = 0; v < RV; v += 2) {
            const float32x4_t a = vld1q_f32(s[v][c]), b = vld1q_f32(s[v + 1][c]);
            vst1q_f32(out[2 * c] + 2 * v, vuzp1q_f32(a, b));
            vst1q_f32(out[2 * c + 1] + 2 * v, vuzp2q_f32(a, b));
        }
}

#define FN(name) qn__i8mm_##name
#include "cpu/neon/mm_panel.h"
