/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/outer.h -- outer_f32 over sixteen float lanes, written once. A block of NO outputs by NV vectors of
 * lanes stays in registers while i runs: a step loads NV vectors of b and broadcasts NO numbers of a for NO * NV
 * fused multiply-adds. A level's outer.c defines FN(name), includes its lanes.h, lists the block shapes that it has
 * registers for (OUTER_SHAPES, OUTER_VECTORS), and includes this. */
#include "cpu/dispatch.h"
#include "cpu/kernel/inline.h"

/* Tests of training spend half of their time here, so clang unrolls it in a sanitized build, too (t_train_trainer 42 to
 * 17 s). Each access is checked; the arithmetic of addresses is not: with it one file takes minutes to compile. */
#if defined(__clang__) && defined(SANITIZED)
#undef INLINE
#undef UNROLL_24
#define UNROLL_24 _Pragma("clang loop unroll(full)")
#define INLINE    static inline __attribute__((always_inline, no_sanitize("undefined")))
enum { UNROLLED = 1 };
#else
/* Steps of one iteration of the loop; pointers advance once per iteration. */
enum { UNROLLED = 4 };
#endif

/* A level may define its own. OUTER_STRIPS: its registers hold sixteen lanes at a time, so that b is best in strips
 * of sixteen. */
#ifdef OUTER_STRIPS
#define IS_STRIP(t) ((t)->b_stride == 16)
#else
#define IS_STRIP(t) false
#endif
#ifndef OUTER_ADD
#define OUTER_ADD(acc, x, v) acc = l_fma(x, v, acc)
#endif
#ifndef OUTER_HIDE
#define OUTER_HIDE(x) (void)0
#endif

/* Branches stay outside: clang does not unroll a loop that contains one, and would keep all accumulators in memory. */
#define EACH(WHAT) \
    do { \
        UNROLL_24 for (int o = 0; o < no; o++) { UNROLL_24 for (int v = 0; v < nv; v++) WHAT; } \
    } while (0)

/* One step; AT(o) is a(o, i). */
#define STEP(AT, B) \
    do { \
        lanes v_[4]; \
        UNROLL_24 for (int v = 0; v < nv; v++) v_[v] = l_load((B) + 16 * v); \
        UNROLL_24 for (int o = 0; o < no; o++) \
        { \
            const lanes x_ = l_set(AT(o)); \
            UNROLL_24 for (int v = 0; v < nv; v++) OUTER_ADD(acc[o][v], x_, v_[v]); \
        } \
    } while (0)

INLINE void block(const qn_outer *t, float *y, const float *a, const float *b, const int nv, const int no,
                  const bool a_is_dense, const bool b_is_strip)
{
    lanes acc[24][4];
    const int64_t y_stride = t->y_stride, b_stride = b_is_strip ? 16 : t->b_stride, a_out = t->a_out, a_in = t->a_in;
    if (t->mode == QN_OUTER_go_on)
        EACH(acc[o][v] = l_load(y + o * y_stride + 16 * v));
    else
        EACH(acc[o][v] = l_set(0));

    int64_t i = t->n_in;
    if (a_is_dense) { /* a_in is 1; outputs are a_out apart: three addresses from one pointer */
        const float *p[8];
        int64_t far = a_out;
        for (int g = 0; g * 3 < no; g++) p[g] = a + g * 3 * a_out;
#define AT(o) p[(o) / 3][(o) % 3 * far + u]
        for (; i >= UNROLLED; i -= UNROLLED, b += UNROLLED * b_stride) {
            UNROLL_24 for (int u = 0; u < UNROLLED; u++)
            {
                OUTER_HIDE(far);
                STEP(AT, b + u * b_stride);
            }
            for (int g = 0; g * 3 < no; g++) p[g] += UNROLLED;
        }
        for (; i > 0; i--, b += b_stride) {
            enum { u = 0 };
            STEP(AT, b);
            for (int g = 0; g * 3 < no; g++) p[g]++;
        }
#undef AT
    } else { /* a_out is 1 */
#define AT(o) a[o]
        if (b_is_strip)
            for (; i >= UNROLLED; i -= UNROLLED, b += UNROLLED * b_stride)
                UNROLL_24 for (int u = 0; u < UNROLLED; u++, a += a_in) STEP(AT, b + u * b_stride);
        for (; i > 0; i--, a += a_in, b += b_stride) STEP(AT, b);
#undef AT
    }
    if (t->mode == QN_OUTER_add) EACH(acc[o][v] = l_add(l_load(y + o * y_stride + 16 * v), acc[o][v]));
    EACH(l_store(y + o * y_stride + 16 * v, acc[o][v]));
}

/* Outputs [o, n_out), NO at a time as long as there are as many. */
#define RUN(NV, NO, A_OUT, A_IS_DENSE, B_IS_STRIP) \
    for (; o + (NO) <= t->n_out; o += (NO)) \
    block(t, t->y + o * t->y_stride + l, t->a + o * (A_OUT), t->b + l, NV, NO, A_IS_DENSE, B_IS_STRIP)
#define BLOCKS(NV, NO) \
    static int64_t blocks_##NV##_##NO(const qn_outer *t, int64_t l, int64_t o) \
    { \
        if (t->a_out == 1 && IS_STRIP(t)) \
            RUN(NV, NO, 1, false, true); \
        else if (t->a_out == 1) \
            RUN(NV, NO, 1, false, false); \
        else if (IS_STRIP(t)) \
            RUN(NV, NO, t->a_out, true, true); \
        else \
            RUN(NV, NO, t->a_out, true, false); \
        return o; \
    }
OUTER_SHAPES(BLOCKS)
#undef BLOCKS
#undef RUN

#ifdef OUTER_STRIPS
static void in_place(const qn_outer *t)
#else
void FN(outer_f32)(const qn_outer *t)
#endif
{
    for (int64_t l = 0; l < t->n_lanes;) {
        const int64_t left = (t->n_lanes - l) / 16;
        const int nv = left < OUTER_VECTORS ? (int)left : OUTER_VECTORS;
        int64_t o = 0;
#define BLOCKS(NV, NO) \
    if (nv == (NV) && o + (NO) <= t->n_out) o = blocks_##NV##_##NO(t, l, o);
        OUTER_SHAPES(BLOCKS)
#undef BLOCKS
        l += nv * 16;
    }
}

#ifdef OUTER_STRIPS
/* Sixteen lanes of b are one cache line a step. Lines a power of two apart share a few sets of the first-level
 * cache. Where they fill more than half of those sets, and there are enough outputs to pay for it, the lines are
 * copied to a strip. */
enum { STRIP_OUTPUTS = 24, SETS = 64, HALF_OF_WAYS = 4 };

static bool worth_strips(const qn_outer *t)
{
    const int64_t lines = t->b_stride / 16, stride = lines & -lines;
    return t->n_out >= STRIP_OUTPUTS && t->n_in <= QN_MM_SLICE && t->b_stride % 16 == 0 &&
           t->n_in * (stride < SETS ? stride : SETS) > HALF_OF_WAYS * SETS && lines > 1;
}

void FN(outer_f32)(const qn_outer *t)
{
    float strip[QN_MM_SLICE * 16];
    qn_outer s = *t;
    if (!worth_strips(t)) {
        in_place(t);
        return;
    }
    s.b = strip;
    s.b_stride = s.n_lanes = 16;
    for (int64_t l = 0; l < t->n_lanes; l += 16, s.y += 16) {
        for (int64_t i = 0; i < t->n_in; i++) l_store(strip + i * 16, l_load(t->b + i * t->b_stride + l));
        in_place(&s);
    }
}
#endif
