/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/attention.h -- the kernels of attention over sixteen float lanes, written once. A lane is a (query,
 * head) pair. A level's attn.c defines FN(name), includes its lanes.h, and defines
 *     some                      a set of lanes: some_nonzero; some_in(c, begin, end): l with begin[l] <= c < end[l]
 *     pick(s, yes, no)          yes in the lanes of s, no in the others
 *     power(x, p, n, t)         p * 2^n; 0 where x < QN_EXP_MIN; NaN stays NaN; n stands in the low bits of t
 *     transpose_square, SIDE    transposes SIDE by SIDE numbers
 * and, for attention in integers, what kernel/attention_int.h lists. */
#include "cpu/dispatch.h"
#include "backend/numbers/exp.h"
#include "cpu/kernel/inline.h"
#include "quant/blocks.h"

#include <math.h>
#include <string.h>

/* exp as backend/numbers/exp.h defines it, for x <= 0 or NaN */
INLINE lanes exp_down(lanes x)
{
    const lanes magic = l_set(QN_EXP_MAGIC);
    const lanes t = l_fma(x, l_set(QN_EXP_LOG2E), magic), n = l_sub(t, magic);
    const lanes r = l_fma(n, l_set(-QN_EXP_LN2_LO), l_fma(n, l_set(-QN_EXP_LN2_HI), x));
    lanes q = l_fma(l_set(QN_EXP_C4), r, l_set(QN_EXP_C3));
    q = l_fma(q, r, l_set(QN_EXP_C2));
    q = l_fma(q, r, l_set(QN_EXP_C1));
    q = l_fma(q, r, l_set(QN_EXP_C0));
    const lanes p = l_add(l_set(1), l_fma(l_mul(r, r), q, r));
    return power(x, p, n, t);
}

void FN(attn_soften)(float *s, int64_t n_lanes, int64_t n, int64_t full_begin, int64_t full_end, const int32_t *begin,
                     const int32_t *end, float *max, float *sum)
{
    for (int64_t l = 0; l < n_lanes; l += 16) {
        float *p = s + l;
        lanes m0 = l_set(-INFINITY), m1 = m0, total = l_set(0);
        int64_t c = full_begin;
        for (; c + 2 <= full_end; c += 2) {
            m0 = l_max(l_load(p + c * n_lanes), m0);
            m1 = l_max(l_load(p + (c + 1) * n_lanes), m1);
        }
        for (; c < full_end; c++) m0 = l_max(l_load(p + c * n_lanes), m0);
        for (c = 0; c < n; c++) {
            if (c == full_begin && full_end > c) c = full_end;
            if (c >= n) break;
            m1 = pick(some_in(c, begin + l, end + l), l_max(l_load(p + c * n_lanes), m1), m1);
        }
        m0 = l_add(l_max(m0, m1), l_set(0)); /* -0 becomes 0, since the order in which chains meet is not defined */
        l_store(max + l, m0);

#define ONE \
    do { \
        const some here = some_in(c, begin + l, end + l); \
        const lanes e = pick(here, exp_down(l_sub(l_load(p + c * n_lanes), m0)), l_set(0)); \
        l_store(p + c * n_lanes, e); \
        total = pick(here, l_add(total, e), total); \
    } while (0)
        c = 0;
        for (; c < full_begin; c++) ONE;
        for (; c + 2 <= full_end; c += 2) {
            const lanes e0 = exp_down(l_sub(l_load(p + c * n_lanes), m0));
            const lanes e1 = exp_down(l_sub(l_load(p + (c + 1) * n_lanes), m0));
            l_store(p + c * n_lanes, e0);
            l_store(p + (c + 1) * n_lanes, e1);
            total = l_add(l_add(total, e0), e1);
        }
        for (; c < full_end; c++) {
            const lanes e = exp_down(l_sub(l_load(p + c * n_lanes), m0));
            l_store(p + c * n_lanes, e);
            total = l_add(total, e);
        }
        for (; c < n; c++) ONE;
#undef ONE
        l_store(sum + l, total);
    }
}

void FN(attn_add_some)(float *y, int64_t n, const float *v, const float *p, int64_t n_lanes, int64_t c,
                       const int32_t *begin, const int32_t *end)
{
    for (int64_t l = 0; l < n_lanes; l += 16) {
        const some here = some_in(c, begin + l, end + l);
        const lanes factor = l_load(p + l);
        for (int64_t j = 0; j < n; j++) {
            float *to = y + j * n_lanes + l;
            const lanes old = l_load(to);
            l_store(to, pick(here, l_fma(l_set(v[j]), factor, old), old));
        }
    }
}

void FN(attn_merge)(float *y, float *max, float *sum, const float *y1, const float *max1, const float *sum1,
                    int64_t n_lanes, int64_t n)
{
    for (int64_t l = 0; l < n_lanes; l += 16) {
        const lanes m0 = l_load(max + l), m1 = l_load(max1 + l), s0 = l_load(sum + l), s1 = l_load(sum1 + l);
        const some here = some_nonzero(s1);
        const lanes m = l_max(m0, m1), a = exp_down(l_sub(m0, m)), b = exp_down(l_sub(m1, m));
        l_store(max + l, pick(here, m, m0));
        l_store(sum + l, pick(here, l_fma(s1, b, l_mul(s0, a)), s0));
        for (int64_t j = 0; j < n; j++) {
            float *to = y + j * n_lanes + l;
            const lanes old = l_load(to);
            l_store(to, pick(here, l_fma(l_load(y1 + j * n_lanes + l), b, l_mul(old, a)), old));
        }
    }
}

/* ---- gathering and transposing --------------------------------------------------------------- */

/* Pairs of int16 are moved as floats too, at even addresses. */
static inline void move_one(float *to, const void *from) { memcpy(to, from, 4); }

void FN(transpose_f32)(float *y, int64_t y_stride, const float *x, int64_t x_stride, int64_t rows, int64_t cols)
{
    int64_t r = 0;
    for (; r + SIDE <= rows; r += SIDE) {
        int64_t c = 0;
        for (; c + SIDE <= cols; c += SIDE)
            transpose_square(y + c * y_stride + r, y_stride, x + r * x_stride + c, x_stride);
        for (; c < cols; c++)
            for (int64_t i = r; i < r + SIDE; i++) move_one(&y[c * y_stride + i], &x[i * x_stride + c]);
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) move_one(&y[c * y_stride + r], &x[r * x_stride + c]);
}

/* Cells lie anywhere in memory, which hardware prefetchers do not always predict. */
enum { PREFETCH_CELLS = 12 };

#define GATHER(name, elem, lines_of, MANY) \
    void FN(name)(float *y, int64_t y_stride, const void *base, int64_t cell_bytes, const int32_t *cell, \
                  int64_t n_cells, int64_t n) \
    { \
        for (int64_t c = 0; c < n_cells; c++, y += y_stride) { \
            const uint8_t *from = (const uint8_t *)base + cell[c] * cell_bytes; \
            if (c + PREFETCH_CELLS < n_cells) \
                for (int64_t at = 0; at < (lines_of); at += 64) \
                    __builtin_prefetch((const uint8_t *)base + cell[c + PREFETCH_CELLS] * cell_bytes + at); \
            int64_t i = 0; \
            MANY if (i < n) elem \
        } \
    }
#define HALVES(from_half) \
    for (; i + 16 <= n; i += 16) l_store(y + i, from_half((const uint16_t *)(const void *)from + i));
#define HALF_REST(from_half) \
    { \
        uint16_t rest[16] = {0}; \
        memcpy(rest, from + 2 * i, (size_t)(n - i) * 2); \
        l_store_n(y + i, (int)(n - i), from_half(rest)); \
    }
#define Q8_BLOCKS \
    for (const qn_block_Q8_0 *b = (const qn_block_Q8_0 *)(const void *)from; i < n; b++, i += 32) { \
        const lanes d = l_set(l_one_f16(b->d)); \
        l_store(y + i, l_mul(d, l_from_i8(b->qs))); \
        l_store(y + i + 16, l_mul(d, l_from_i8(b->qs + 16))); \
    }
/* clang-format off */
GATHER(gather_f16, HALF_REST(l_from_f16), n * 2, HALVES(l_from_f16))
GATHER(gather_bf16, HALF_REST(l_from_bf16), n * 2, HALVES(l_from_bf16))
/* clang-format on */
GATHER(gather_q8_0, {}, n / 32 * 34, Q8_BLOCKS)

#ifdef INT_SHAPES
#include "cpu/kernel/attention_int.h"
#endif

void FN(attn_init)(qn_kernels *kernels)
{
#define SET(name) kernels->name = FN(name);
    /* clang-format off */
    SET(outer_f32) SET(transpose_f32) SET(attn_soften) SET(attn_add_some) SET(attn_merge) SET(gather_f16)
    SET(gather_bf16)
    SET(gather_q8_0)
    /* clang-format on */
#ifdef INT_SHAPES
        /* clang-format off */
    SET(outer_i16) SET(attn_pack_q) SET(attn_pack_k) SET(attn_pack_v) SET(attn_weigh) SET(attn_weigh_row)
    SET(attn_score_skinny)
    SET(attn_pack_k_f16) SET(attn_pack_k_bf16) SET(attn_pack_k_q8_0) SET(attn_pack_v_f16) SET(attn_pack_v_bf16)
    SET(attn_pack_v_q8_0)
    /* clang-format on */
#endif
#undef SET
}
