/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_gemv.h -- products of block formats with one column (decoding), written once; they read weights as
 * they lie in the file, four rows at a time. A level's mm_gemv.c defines FN(name) and two dot products, each as four
 * lanes whose total is the sum, and includes this:
 *     dot_16(w, q)          of 16 elements
 *     dot_32(w, q, wide)    of 32
 *
 * A row's products stay in its own lanes, and three pairwise additions bring the sums of four rows into the lanes of
 * one register; transposing the weights would cost eight instructions instead. After that, each lane is a row. Four
 * rows are four streams from memory. Several columns read the weights again, from cache: two passes cost about as
 * much as packing for the panel kernel. */
#include "cpu/neon/bytes.h"
#include "cpu/dispatch.h"

/* Prefetches for each row, some blocks ahead: in-order cores have no prefetcher that finds these streams. */
enum { PREFETCH_BYTES = 512 };
INLINE void fetch(const uint8_t *w, size_t step)
{
    UNROLL
    for (int r = 0; r < 4; r++) __builtin_prefetch(w + (size_t)r * step + PREFETCH_BYTES, 0, 0);
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* sum w q - zero sum w, in four lanes */
INLINE int32x4_t dot_block(const int8x16_t w[2], const int8x16_t q[2], const qn_act32 *x, const int wide)
{
    const int32x4_t sums = wide ? sums_32(w) : sums_16(vaddq_s8(w[0], w[1]));
    return vmlsq_s32(dot_32(w, q, wide), sums, vdupq_n_s32(x->zero));
}

#define GEMV_32(name, wide, with_min) \
    static float32x4_t gemv_##name(const uint8_t *w, size_t step, const void *column, int64_t n) \
    { \
        float32x4_t acc = vdupq_n_f32(0); \
        for (const qn_act32 *x = column; n > 0; n--, x++, w += sizeof(qn_block_##name)) { \
            const int8x16_t q[2] = {vld1q_s8(x->q), vld1q_s8(x->q + 16)}; \
            int32x4_t s[4]; \
            head32 h; \
            if (n % 2) fetch(w, step); \
            head_##name(w, step, &h); \
            UNROLL \
            for (int r = 0; r < 4; r++) { \
                int8x16_t v[2]; \
                w32_##name(w + (size_t)r * step, v); \
                s[r] = dot_block(v, q, x, wide); \
            } \
            acc = vfmaq_f32(acc, vcvtq_f32_s32(sum_each(s)), vmulq_n_f32(h.d, x->d)); \
            if (with_min) acc = vfmaq_f32(acc, h.m, vdupq_n_f32(x->d * (float)x->sum)); \
        } \
        return acc; \
    }

/* ---- super-blocks ---------------------------------------------------------------------------- */

/* Sums of each 16 and 32 elements of a column's block. */
typedef struct act_sums {
    int16x8_t of_16[2], of_32;
} act_sums;

INLINE act_sums sums_of(const qn_act256 *x)
{
    const int16x8_t a = vld1q_s16(x->sum), b = vld1q_s16(x->sum + 8);
    return (act_sums){{a, b}, vpaddq_s16(a, b)};
}

/* sum of min * sum, in four lanes */
INLINE int32x4_t dot_mins(int8x16_t min, const act_sums *sums, const int sub)
{
    const int16x8_t low = vmovl_s8(vget_low_s8(min)), first = sub == 32 ? sums->of_32 : sums->of_16[0];
    const int32x4_t m = vmlal_high_s16(vmull_s16(vget_low_s16(low), vget_low_s16(first)), low, first);
    if (sub == 32) return m;
    const int16x8_t high = vmovl_high_s8(min), second = sums->of_16[1];
    return vmlal_high_s16(vmlal_s16(m, vget_low_s16(high), vget_low_s16(second)), high, second);
}

/* T and Z of act.h */
typedef struct totals {
    int32x4_t t, z;
} totals;

INLINE void add_sub(totals *a, const int32x4_t dots[4], const int32x4_t sums[4], int32x4_t scale)
{
    a->t = vmlaq_s32(a->t, sum_each(dots), scale);
    a->z = vmlaq_s32(a->z, sum_each(sums), scale);
}

#define GEMV_256(name, sub, wide, with_min) \
    static float32x4_t gemv_##name(const uint8_t *w, size_t step, const void *column, int64_t n) \
    { \
        float32x4_t acc = vdupq_n_f32(0); \
        int32x4_t scale[16]; \
        for (const qn_act256 *x = column; n > 0; n--, x++, w += sizeof(qn_block_##name)) { \
            const act_sums act = sums_of(x); \
            int8x16_t scales[4]; \
            int32x4_t mins[4]; \
            head32 h; \
            totals a = {vdupq_n_s32(0), vdupq_n_s32(0)}; \
            for (size_t at = 0; at < sizeof(qn_block_##name); at += 64) fetch(w + at, step); \
            head_##name(w, step, &h); \
            UNROLL \
            for (int r = 0; r < 4; r++) { \
                subs s; \
                subs_##name(w + (size_t)r * step, &s); \
                scales[r] = s.scale; \
                if (with_min) mins[r] = dot_mins(s.min, &act, sub); \
            } \
            rows_to_lanes(scales, scale); \
            for (int c = 0; c < 8 / STEP_##name; c++) { \
                UNROLL \
                for (int i = 0; i < STEP_##name; i++) { \
                    const int j = c * STEP_##name + i; \
                    const int8x16_t q[2] = {vld1q_s8(x->q + 32 * j), vld1q_s8(x->q + 32 * j + 16)}; \
                    int32x4_t s[2][4], z[2][4]; \
                    UNROLL \
                    for (int r = 0; r < 4; r++) { \
                        int8x16_t v[2]; \
                        w32_##name(w + (size_t)r * step, c, i, v); \
                        s[0][r] = sub == 32 ? dot_32(v, q, wide) : dot_16(v[0], q[0]); \
                        z[0][r] = sub == 16 ? sums_16(v[0]) : wide ? sums_32(v) : sums_16(vaddq_s8(v[0], v[1])); \
                        if (sub == 16) s[1][r] = dot_16(v[1], q[1]); \
                        if (sub == 16) z[1][r] = sums_16(v[1]); \
                    } \
                    add_sub(&a, s[0], z[0], scale[j * 32 / sub]); \
                    if (sub == 16) add_sub(&a, s[1], z[1], scale[2 * j + 1]); \
                } \
            } \
            const float32x4_t s = vfmaq_n_f32(vcvtq_f32_s32(a.t), vcvtq_f32_s32(a.z), (float)-x->zero); \
            acc = vfmaq_f32(acc, s, vmulq_n_f32(h.d, x->d)); \
            if (with_min) acc = vfmsq_f32(acc, vcvtq_f32_s32(sum_each(mins)), vmulq_n_f32(h.m, x->d)); \
        } \
        return acc; \
    }

/* ---- the product ----------------------------------------------------------------------------- */

typedef float32x4_t (*one_fn)(const uint8_t *w, size_t step, const void *column, int64_t n);

/* Rows that do not fill four are computed together with the rows before them, or, where there are none, one in all
 * lanes. */
static void all_rows(const qn_mm_args *a, int64_t blocks, one_fn fn)
{
    for (int32_t c = 0; c < a->cols; c++) {
        const uint8_t *x = (const uint8_t *)a->x + (size_t)c * a->x_row_bytes;
        float *y = a->y + c * a->y_stride;
        int32_t r = 0;
        for (; r + 4 <= a->rows; r += 4)
            vst1q_f32(y + r, fn(a->w + (size_t)r * a->w_row_bytes, a->w_row_bytes, x, blocks));
        if (r < a->rows && r > 0) {
            r = a->rows - 4;
            vst1q_f32(y + r, fn(a->w + (size_t)r * a->w_row_bytes, a->w_row_bytes, x, blocks));
            continue;
        }
        for (; r < a->rows; r++) y[r] = vgetq_lane_f32(fn(a->w + (size_t)r * a->w_row_bytes, 0, x, blocks), 0);
    }
}

#define MM(name, block) \
    static void mm_##name(const qn_mm_args *a) { all_rows(a, a->k / (block), gemv_##name); }
#define FORMAT(name, sub, with_min, lo, hi) GEMV_32(name, WIDE(lo, hi), with_min) MM(name, 32)
QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) GEMV_256(name, sub, WIDE(lo, hi), with_min) MM(name, 256)
QN_INTS_256(FORMAT)
#undef FORMAT

void FN(mm_gemv_init)(qn_kernels *kernels)
{
#define FORMAT(name, sub, with_min, lo, hi) kernels->mm[QN_DTYPE_##name].gemv = mm_##name;
    QN_INTS_32(FORMAT)
    QN_INTS_256(FORMAT)
#undef FORMAT
}
