/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/attention_int.h -- the kernels of attention in integers, written once. kernel/attention.h includes
 * it where a level's attn.c defines INT_SHAPES and INT_VECTORS (as OUTER_SHAPES for outer_f32) and, beside what
 * kernel/attention.h needs, operations on `ints`, sixteen numbers of 32 bits or sixteen pairs of int16:
 *     i_load, i_store, i_zero
 *     i_pair(p)             one pair in every lane
 *     i_dot(s, a, b)        s + a . b of pairs, exact
 *     i_and(x, mask), i_max, i_highest
 *     i_bits(x)             the bits of floats; i_magnitude(x): without signs
 *     l_of_int(x)           to floats
 *     i_to_i16(p, x)        stores sixteen int16, saturated; i_to_i16_2(p, x, y): 32 of them
 *     i_low(p, x)           stores the low halves of sixteen
 *     i_pairs(x, y)         the low halves of x below those of y
 *     some_between(lo, hi)  lanes lo <= l < hi, both within 0 and 16
 * A level may also define
 *     INT_SIXTEEN           and l_sums, l_highests, i_highests: of each of sixteen vectors, that of x[i] in lane i
 *     INT_FROM_MEMORY       where registers are few, and i_dot_at(s, a, p): i_dot with an operand in memory
 *     INT_ROWS              and an attn_score_skinny of its own
 * attention_pack.h has the kernels that read rows of a cache. */

/* ---- products -------------------------------------------------------------------------------- */

enum { INT_UNROLLED = 4 }; /* steps of one iteration of the loop; pointers advance once per iteration */

#define INT_EACH(WHAT) \
    do { \
        UNROLL_24 for (int o = 0; o < no; o++) { UNROLL_24 for (int v = 0; v < nv; v++) WHAT; } \
    } while (0)
#ifdef INT_FROM_MEMORY
#define INT_STEP(AT, B) \
    UNROLL_24 for (int o = 0; o < no; o++) \
    { \
        const ints x_ = i_pair(AT(o)); \
        UNROLL_24 for (int v = 0; v < nv; v++) acc[o][v] = i_dot_at(acc[o][v], x_, (B) + 32 * v); \
    }
#else
#define INT_STEP(AT, B) \
    do { \
        ints v_[4]; \
        UNROLL_24 for (int v = 0; v < nv; v++) v_[v] = i_load((B) + 32 * v); \
        UNROLL_24 for (int o = 0; o < no; o++) \
        { \
            const ints x_ = i_pair(AT(o)); \
            UNROLL_24 for (int v = 0; v < nv; v++) acc[o][v] = i_dot(acc[o][v], x_, v_[v]); \
        } \
    } while (0)
#endif

/* A block of `no` outputs by `nv` vectors of lanes stays in registers, as in kernel/outer.h. Strides here are in
 * int16. */
INLINE void int_block(const qn_outer_i16 *t, int64_t first_o, int64_t first_l, const int nv, const int no,
                      const bool a_is_dense)
{
    ints acc[24][4];
    const int64_t a_out = 2 * t->a_out, a_in = 2 * t->a_in, b_stride = 2 * t->b_stride, y_stride = t->y_stride;
    const int16_t *a = t->a + first_o * a_out, *b = t->b + 2 * first_l;
    float *y = t->y + first_o * y_stride + first_l;
    const float *lane_scale = t->lane_scale + first_l;
    int64_t i = t->n_in;

    INT_EACH(acc[o][v] = i_zero());
    if (a_is_dense) {
        const int16_t *p[8];
        for (int g = 0; g * 3 < no; g++) p[g] = a + g * 3 * a_out;
#define AT(o) (p[(o) / 3] + ((o) % 3 * a_out + 2 * u))
        for (; i >= INT_UNROLLED; i -= INT_UNROLLED) {
            UNROLL_24 for (int u = 0; u < INT_UNROLLED; u++)
            {
                INT_STEP(AT, b);
                b += b_stride;
                __asm__("" : "+r"(b)); /* or there would be an address for each step, in memory */
            }
            for (int g = 0; g * 3 < no; g++) p[g] += 2 * INT_UNROLLED;
        }
        for (; i > 0; i--, b += b_stride) {
            enum { u = 0 };
            INT_STEP(AT, b);
            for (int g = 0; g * 3 < no; g++) p[g] += 2;
        }
#undef AT
    } else {
#define AT(o) (a + 2 * (o))
        for (; i > 0; i--, a += a_in, b += b_stride) INT_STEP(AT, b);
#undef AT
    }
    if (t->out_start) {
        const float *out_scale = t->out_scale + first_o, *out_start = t->out_start + first_o;
        INT_EACH(l_store(y + o * y_stride + 16 * v,
                         l_fma(l_of_int(acc[o][v]), l_mul(l_set(out_scale[o]), l_load(lane_scale + 16 * v)),
                               l_set(out_start[o]))));
    } else if (t->out_scale) {
        const float *out_scale = t->out_scale + first_o;
        INT_EACH(l_store(y + o * y_stride + 16 * v,
                         l_fma(l_of_int(acc[o][v]), l_mul(l_set(out_scale[o]), l_load(lane_scale + 16 * v)),
                               l_load(y + o * y_stride + 16 * v))));
    } else {
        INT_EACH(l_store(y + o * y_stride + 16 * v,
                         l_fma(l_of_int(acc[o][v]), l_load(lane_scale + 16 * v), l_load(y + o * y_stride + 16 * v))));
    }
}

#define INT_BLOCKS(NV, NO) \
    static int64_t int_blocks_##NV##_##NO(const qn_outer_i16 *t, int64_t l, int64_t o) \
    { \
        if (t->a_out == 1) \
            for (; o + (NO) <= t->n_out; o += (NO)) int_block(t, o, l, NV, NO, false); \
        else \
            for (; o + (NO) <= t->n_out; o += (NO)) int_block(t, o, l, NV, NO, true); \
        return o; \
    }
INT_SHAPES(INT_BLOCKS)
#undef INT_BLOCKS

void FN(outer_i16)(const qn_outer_i16 *t)
{
    for (int64_t l = 0; l < t->n_lanes;) {
        const int64_t left = (t->n_lanes - l) / 16;
        const int nv = left < INT_VECTORS ? (int)left : INT_VECTORS;
        int64_t o = 0;
#define INT_BLOCKS(NV, NO) \
    if (nv == (NV) && o + (NO) <= t->n_out && !((NO) == 6 && t->n_out - o == 8)) o = int_blocks_##NV##_##NO(t, l, o);
        INT_SHAPES(INT_BLOCKS)
#undef INT_BLOCKS
        l += nv * 16;
    }
}

#ifndef INT_ROWS
void FN(attn_score_skinny)(float *s, int64_t s_stride, const int16_t *q, int64_t q_stride, const float *q_scale,
                           int64_t n_rows, int16_t *k, const float *k_scale, int16_t *kt, int64_t n_cells, int64_t n)
{
    const int64_t all = (n_cells + 15) / 16 * 16;
    memset(k + n * n_cells, 0, (size_t)(n * (all - n_cells)) * 2);
    FN(transpose_f32)((float *)(void *)kt, all, (const float *)(const void *)k, n / 2, all, n / 2);
    FN(outer_i16)
    (&(qn_outer_i16){.y = s,
                     .y_stride = s_stride,
                     .a = q,
                     .a_out = q_stride / 2,
                     .a_in = 1,
                     .b = kt,
                     .b_stride = all,
                     .out_scale = q_scale,
                     .lane_scale = k_scale,
                     .n_lanes = all,
                     .n_out = n_rows,
                     .n_in = n / 2});
}
#endif

/* ---- rows to integers ------------------------------------------------------------------------ */

float FN(attn_pack_q)(int16_t *y, const float *x, float s, int64_t n)
{
    lanes sum = l_set(0);
    ints highest = i_zero();
    const lanes factor = l_set(s), zero = l_set(0);
    for (int64_t i = 0; i < n; i += 16) {
        const lanes v = l_mul(n - i < 16 ? l_load_n(x + i, (int)(n - i), zero) : l_load(x + i), factor);
        sum = l_fma(v, v, sum);
        highest = i_max(highest, i_magnitude(v));
    }
    const float square = l_sum(sum);
    if (!(square < 0x1p126f)) {
        memset(y, 0, (size_t)((n + 15) / 16 * 16) * 2);
        return NAN;
    }
    const int32_t bits = i_highest(highest);
    float high, g = sqrtf(square) * (1 / QN_ATTN_Q_LENGTH);
    memcpy(&high, &bits, 4);
    high *= 1 / 32767.0f;
    g = g > high ? g : high;
    g = g > 0x1p-60f ? g : 0x1p-60f;
    const lanes inverse = l_set(1 / g);
    for (int64_t i = 0; i < n; i += 16) {
        const lanes v = l_mul(n - i < 16 ? l_load_n(x + i, (int)(n - i), zero) : l_load(x + i), factor);
        i_to_i16(y + i, i_round(l_mul(v, inverse)));
    }
    return g;
}

#include "cpu/kernel/attention_pack.h"

/* ---- weights --------------------------------------------------------------------------------- */

INLINE lanes sum_of_chains(lanes *chain) /* the tree of kernel/lanes.h */
{
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) chain[i] = l_add(chain[i], chain[i + half]);
    return chain[0];
}
/* The value of 1 in integers whose sum is limited. */
INLINE lanes step_of(lanes sum) { return l_max(l_mul(sum, l_set(1 / QN_ATTN_P_SUM)), l_set(1 / QN_ATTN_P_MAX)); }
/* e * up, rounded to an integer in the low bits */
INLINE ints to_p(lanes e, lanes up) { return i_bits(l_fma(e, up, l_set(0x1.8p23f))); }

/* attn_weigh for sixteen lanes. */
INLINE void weigh(int16_t *p, float *scale, float *max, float *sum, const float *u, const float *weight,
                  int64_t n_lanes, int64_t n, int64_t full_begin, int64_t full_end, const int32_t *begin,
                  const int32_t *end)
{
    lanes m[QN_ATTN_BLOCKS], chain[16], top = l_set(-INFINITY);
    const lanes zero = l_set(0);
    for (int64_t b = 0; 16 * b < n; b++) {
        const float *at = u + 16 * b * n_lanes;
        lanes m0 = l_set(-INFINITY), m1 = m0;
        if (16 * b >= full_begin && 16 * b + 16 <= full_end) {
            UNROLL
            for (int i = 0; i < 16; i += 2) {
                m0 = l_max(l_load(at + i * n_lanes), m0);
                m1 = l_max(l_load(at + (i + 1) * n_lanes), m1);
            }
        } else {
            for (int64_t c = 16 * b; c < 16 * b + 16 && c < n; c++)
                m0 = pick(some_in(c, begin, end), l_max(l_load(u + c * n_lanes), m0), m0);
        }
        m[b] = l_add(l_max(m0, m1), zero); /* -0 becomes 0: chains meet in any order */
        top = l_max(m[b], top);
    }
    l_store(max, top);

    for (int i = 0; i < 16; i++) chain[i] = zero;
    for (int64_t b = 0; 16 * b < n; b++, p += 16 * n_lanes) {
        const float *at = u + 16 * b * n_lanes;
        const lanes w = exp_down(l_sub(m[b], top)), highest = m[b];
        const int rows = n - 16 * b < 16 ? (int)(n - 16 * b) : 16;
        lanes e[16], tree[16];
        if (16 * b >= full_begin && 16 * b + 16 <= full_end) {
            UNROLL
            for (int i = 0; i < 16; i++) {
                e[i] = exp_down(l_sub(l_load(at + i * n_lanes), highest));
                chain[i] = l_fma(e[i], l_mul(l_set(weight[16 * b + i]), w), chain[i]);
            }
        } else {
            for (int i = 0; i < 16; i++) {
                e[i] = zero;
                if (i >= rows) continue;
                const some here = some_in(16 * b + i, begin, end);
                e[i] = pick(here, exp_down(l_sub(l_load(at + i * n_lanes), highest)), zero);
                chain[i] = pick(here, l_fma(e[i], l_mul(l_set(weight[16 * b + i]), w), chain[i]), chain[i]);
            }
        }
        UNROLL
        for (int i = 0; i < 8; i++) tree[i] = l_add(e[i], e[i + 8]);
        UNROLL
        for (int i = 0; i < 4; i++) tree[i] = l_add(tree[i], tree[i + 4]);
        const lanes step = step_of(l_add(l_add(tree[0], tree[2]), l_add(tree[1], tree[3]))), up = l_div(l_set(1), step);
        l_store(scale + b * n_lanes, l_mul(w, step));
        if (rows == 16) {
            UNROLL
            for (int i = 0; i < 16; i += 2) i_store(p + i * n_lanes, i_pairs(to_p(e[i], up), to_p(e[i + 1], up)));
        } else {
            for (int i = 0; i < rows; i += 2) i_store(p + i * n_lanes, i_pairs(to_p(e[i], up), to_p(e[i + 1], up)));
        }
    }
    l_store(sum, sum_of_chains(chain));
}

void FN(attn_weigh)(int16_t *p, float *scale, float *max, float *sum, const float *u, const float *weight,
                    int64_t n_lanes, int64_t n, int64_t full_begin, int64_t full_end, const int32_t *begin,
                    const int32_t *end)
{
    for (int64_t l = 0; l < n_lanes; l += 16)
        weigh(p + 2 * l, scale + l, max + l, sum + l, u + l, weight, n_lanes, n, full_begin, full_end, begin + l,
              end + l);
}

/* The sum or highest of each of eight vectors, in lanes 0 to 7. No NaN among those whose highest is wanted. */
#ifdef INT_SIXTEEN
#define OF_EIGHT(name, of_sixteen, of_one) \
    INLINE lanes name(const lanes *x) \
    { \
        const lanes twice[16] = {x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], \
                                 x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}; \
        return of_sixteen(twice); /* compilers see that both halves are the same */ \
    }
#else
#define OF_EIGHT(name, of_sixteen, of_one) \
    INLINE lanes name(const lanes *x) \
    { \
        float y[16] = {0}; \
        for (int i = 0; i < 8; i++) y[i] = of_one(x[i]); \
        return l_load(y); \
    }
#endif
OF_EIGHT(l_sums_of_8, l_sums, l_sum)
OF_EIGHT(l_highests_of_8, l_highests, l_highest)
#undef OF_EIGHT

/* A row that sees a whole tile: operations of long latency are done for all blocks at once. */
INLINE void weigh_whole_row(int16_t *p, float *scale, float *max, float *sum, const float *u, const float *weight)
{
    lanes e[QN_ATTN_BLOCKS], chain = l_set(0);
    float m[16], w[16], up[16], all_scales[16];
    const lanes lowest = l_set(-INFINITY);
    UNROLL
    for (int b = 0; b < QN_ATTN_BLOCKS; b++) e[b] = l_max(l_load(u + 16 * b), lowest);
    const lanes highest = l_add(l_highests_of_8(e), l_set(0)); /* no -0 */
    l_store(m, highest);
    *max = l_highest(l_load_n(m, QN_ATTN_BLOCKS, lowest));
    const lanes ws = exp_down(l_sub(highest, l_set(*max)));
    l_store(w, ws);
    UNROLL
    for (int b = 0; b < QN_ATTN_BLOCKS; b++) {
        e[b] = exp_down(l_sub(l_load(u + 16 * b), l_set(m[b])));
        chain = l_fma(e[b], l_mul(l_load(weight + 16 * b), l_set(w[b])), chain);
    }
    const lanes step = step_of(l_sums_of_8(e));
    l_store(up, l_div(l_set(1), step));
    l_store(all_scales, l_mul(ws, step));
    memcpy(scale, all_scales, QN_ATTN_BLOCKS * sizeof(float));
    UNROLL
    for (int b = 0; b < QN_ATTN_BLOCKS; b++) i_low(p + 16 * b, to_p(e[b], l_set(up[b])));
    *sum = l_sum(chain);
}

void FN(attn_weigh_row)(int16_t *p, float *scale, float *max, float *sum, const float *u, const float *weight,
                        int64_t n, int32_t begin, int32_t end)
{
    if (n == 16 * QN_ATTN_BLOCKS && begin <= 0 && end >= n) {
        weigh_whole_row(p, scale, max, sum, u, weight);
        return;
    }
    float m[16], w[16], top = -INFINITY;
    const lanes lowest = l_set(-INFINITY), zero = l_set(0);
    lanes chain = zero;
#define HERE(b) \
    some_between(begin < 16 * (b)        ? 0 \
                 : begin < 16 * (b) + 16 ? begin - 16 * (b) \
                                         : 16, \
                 end < 16 * (b)        ? 0 \
                 : end < 16 * (b) + 16 ? end - 16 * (b) \
                                       : 16)
    l_store(m, lowest);
    for (int b = 0; 16 * b < n; b++) {
        m[b] = l_highest(pick(HERE(b), l_max(l_load(u + 16 * b), lowest), lowest)) + 0.0f;
        top = m[b] > top ? m[b] : top;
    }
    l_store(w, exp_down(l_sub(l_load(m), l_set(top))));
    for (int b = 0; b < QN_ATTN_BLOCKS; b++) scale[b] = 0;
    for (int b = 0; 16 * b < n; b++) {
        const some here = HERE(b);
        const lanes e = pick(here, exp_down(l_sub(l_load(u + 16 * b), l_set(m[b]))), zero);
        chain = pick(here, l_fma(e, l_mul(l_load(weight + 16 * b), l_set(w[b])), chain), chain);
        const float sum_e = l_sum(e) * (1 / QN_ATTN_P_SUM),
                    step = sum_e > 1 / QN_ATTN_P_MAX ? sum_e : 1 / QN_ATTN_P_MAX;
        scale[b] = w[b] * step;
        i_low(p + 16 * b, to_p(e, l_set(1 / step)));
    }
#undef HERE
    *max = top;
    *sum = l_sum(chain);
}
