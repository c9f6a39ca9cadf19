/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_outer.h -- outer_f32 over sixteen float lanes, written once: a block of NO outputs by NV vectors of lanes stays in
 * registers while i runs, so that a step loads NV vectors of b and broadcasts NO numbers of a for NO * NV fused multiply-adds. A
 * level's outer.c defines FN(name), includes its lanes.h, says how many accumulators it has registers for (OUTER_ACCS), and
 * includes this. */
#include "cpu/ukr.h"
#include "cpu/ukr_inline.h"

/* How many steps one turn of the loop takes: pointers move once a turn. */
enum { TURN = 4 };

/* Branches stay outside: clang would leave a loop with one in it as it is, and all accumulators in memory. */
#define EACH(WHAT)                                                                                                     \
    do {                                                                                                               \
        UNROLL_24 for (int o = 0; o < no; o++) {                                                                       \
            UNROLL_24 for (int v = 0; v < nv; v++) WHAT;                                                               \
        }                                                                                                              \
    } while (0)

/* One step; `at` is where a(o, i) lies: AT(o). */
#define STEP(AT, B)                                                                                                    \
    do {                                                                                                               \
        lanes v_[4];                                                                                                   \
        UNROLL_24 for (int v = 0; v < nv; v++) v_[v] = l_load((B) + 16 * v);                                           \
        UNROLL_24 for (int o = 0; o < no; o++) {                                                                       \
            const lanes x_ = l_set(AT(o));                                                                             \
            UNROLL_24 for (int v = 0; v < nv; v++) acc[o][v] = l_fma(x_, v_[v], acc[o][v]);                            \
        }                                                                                                              \
    } while (0)

INLINE void block(const qn_outer *t, float *y, const float *a, const float *b, const int nv, const int no, const bool a_is_dense)
{
    lanes acc[24][4];
    const int64_t y_stride = t->y_stride, b_stride = t->b_stride, a_out = t->a_out, a_in = t->a_in;
    if (t->mode == QN_OUTER_go_on)
        EACH(acc[o][v] = l_load(y + o * y_stride + 16 * v));
    else
        EACH(acc[o][v] = l_set(0));

    int64_t i = t->n_in;
    if (a_is_dense) { /* neighbours in i touch; outputs lie a_out apart: three addresses from one pointer */
        const float *p[8];
        for (int g = 0; g * 3 < no; g++) p[g] = a + g * 3 * a_out;
#define AT(o) p[(o) / 3][(o) % 3 * a_out + u]
        for (; i >= TURN; i -= TURN, b += TURN * b_stride) {
            UNROLL_24 for (int u = 0; u < TURN; u++) STEP(AT, b + u * b_stride);
            for (int g = 0; g * 3 < no; g++) p[g] += TURN;
        }
        for (; i > 0; i--, b += b_stride) {
            enum { u = 0 };
            STEP(AT, b);
            for (int g = 0; g * 3 < no; g++) p[g]++;
        }
#undef AT
    } else { /* outputs touch */
#define AT(o) a[o]
        for (; i > 0; i--, a += a_in, b += b_stride) STEP(AT, b);
#undef AT
    }
    if (t->mode == QN_OUTER_add) EACH(acc[o][v] = l_add(l_load(y + o * y_stride + 16 * v), acc[o][v]));
    EACH(l_store(y + o * y_stride + 16 * v, acc[o][v]));
}

/* Outputs [o, n_out), `no` at a time as long as they last. */
#define BLOCKS(NV, NO)                                                                                                 \
    static int64_t blocks_##NV##_##NO(const qn_outer *t, int64_t l, int64_t o)                                         \
    {                                                                                                                  \
        if (t->a_out == 1)                                                                                             \
            for (; o + (NO) <= t->n_out; o += (NO)) block(t, t->y + o * t->y_stride + l, t->a + o, t->b + l, NV, NO, false); \
        else                                                                                                           \
            for (; o + (NO) <= t->n_out; o += (NO))                                                                    \
                block(t, t->y + o * t->y_stride + l, t->a + o * t->a_out, t->b + l, NV, NO, true);                     \
        return o;                                                                                                      \
    }
OUTER_SHAPES(BLOCKS)
#undef BLOCKS

void FN(outer_f32)(const qn_outer *t)
{
    for (int64_t l = 0; l < t->n_lanes;) {
        const int64_t left = (t->n_lanes - l) / 16;
        const int nv = left < OUTER_VECTORS ? (int)left : OUTER_VECTORS;
        int64_t o = 0;
#define BLOCKS(NV, NO)                                                                                                 \
        if (nv == (NV) && o + (NO) <= t->n_out) o = blocks_##NV##_##NO(t, l, o);
        OUTER_SHAPES(BLOCKS)
#undef BLOCKS
        l += nv * 16;
    }
}
