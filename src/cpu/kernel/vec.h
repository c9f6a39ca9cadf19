/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/vec.h -- the rows of kernels.def on vectors, over sixteen float lanes, written once. A level's
 * vec.c defines FN(name), includes its lanes.h, and then this. Tails run the same vector code with lanes masked off,
 * so that a value does not depend on its index. */
#include "cpu/dispatch.h"
#include "cpu/kernel/lanes.h"
#include "quant/blocks.h"

#include <math.h>
#include <string.h>

float FN(dot_f32)(const float *x, const float *y, int64_t n)
{
    lanes acc = l_set(0);
#define BODY(LOAD, STORE) acc = l_fma(LOAD(x), LOAD(y), acc);
    EACH(n, BODY);
#undef BODY
    return l_sum(acc);
}

float FN(sum_sq_f32)(const float *x, int64_t n) { return FN(dot_f32)(x, x, n); }

void FN(mul_scale_f32)(float *y, const float *x, const float *w, float s, int64_t n)
{
    const lanes scale = l_set(s);
#define BODY(LOAD, STORE)   STORE(y, l_mul(LOAD(x), scale));
#define BODY_W(LOAD, STORE) STORE(y, l_mul(l_mul(LOAD(x), scale), LOAD(w)));
    if (w)
        EACH(n, BODY_W);
    else
        EACH(n, BODY);
#undef BODY
#undef BODY_W
}

void FN(add_f32)(float *y, const float *a, const float *b, int64_t n)
{
#define BODY(LOAD, STORE) STORE(y, l_add(LOAD(a), LOAD(b)));
    EACH(n, BODY);
#undef BODY
}

void FN(mul_f32)(float *y, const float *a, const float *b, int64_t n)
{
#define BODY(LOAD, STORE) STORE(y, l_mul(LOAD(a), LOAD(b)));
    EACH(n, BODY);
#undef BODY
}

void FN(scale_f32)(float *y, const float *x, float s, float b, int64_t n)
{
    const lanes scale = l_set(s), bias = l_set(b);
#define BODY(LOAD, STORE) STORE(y, l_fma(scale, LOAD(x), bias));
    EACH(n, BODY);
#undef BODY
}

void FN(axpy_f32)(float *y, float a, const float *x, int64_t n)
{
    const lanes scale = l_set(a);
#define BODY(LOAD, STORE) STORE(y, l_fma(scale, LOAD(x), LOAD(y)));
    EACH(n, BODY);
#undef BODY
}

float FN(max_f32)(const float *x, int64_t n)
{
    lanes max = l_set(-INFINITY);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) max = l_max(l_load(x + i), max);
    if (i < n) max = l_max(l_load_n(x + i, (int)(n - i), l_set(-INFINITY)), max);
    return l_highest(max) + 0.0f;
}

static inline lanes silu_lanes(lanes x) { return l_div(x, l_add(l_set(1), exp_lanes(l_sub(l_set(0), x)))); }

void FN(silu_f32)(float *y, const float *x, int64_t n)
{
#define BODY(LOAD, STORE) STORE(y, silu_lanes(LOAD(x)));
    EACH(n, BODY);
#undef BODY
}

void FN(swiglu_f32)(float *y, const float *gate, const float *up, int64_t n)
{
#define BODY(LOAD, STORE) STORE(y, l_mul(silu_lanes(LOAD(gate)), LOAD(up)));
    EACH(n, BODY);
#undef BODY
}

float FN(exp_sum_f32)(float *y, const float *x, float max, int64_t n)
{
    const lanes shift = l_set(max);
    lanes sum = l_set(0);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const lanes e = exp_lanes(l_sub(l_load(x + i), shift));
        l_store(y + i, e);
        sum = l_add(sum, e);
    }
    if (i < n) {
        const int rest = (int)(n - i);
        const lanes e = exp_lanes(l_sub(l_load_n(x + i, rest, l_set(0)), shift));
        l_store_n(y + i, rest, e);
        sum = l_add(sum, l_first_n(rest, e));
    }
    return l_sum(sum);
}

/* even lanes x0 c - x1 s, odd lanes x1 c + x0 s */
static inline lanes rotate_pairs(lanes x, lanes cos_sin)
{
    return l_fma_alternating(x, l_evens_twice(cos_sin), l_mul(l_swap_pairs(x), l_odds_twice(cos_sin)));
}

void FN(rope_norm_f32)(float *y, const float *x, const float *cos_sin, int64_t n_pairs)
{
#define BODY(LOAD, STORE) STORE(y, rotate_pairs(LOAD(x), LOAD(cos_sin)));
    EACH(2 * n_pairs, BODY);
#undef BODY
}

void FN(rope_neox_f32)(float *y, const float *x, const float *cos_sin, int64_t n_pairs)
{
    lanes c, s;
    int64_t i = 0;
    for (; i + 16 <= n_pairs; i += 16) {
        l_part(l_load(cos_sin + 2 * i), l_load(cos_sin + 2 * i + 16), &c, &s);
        const lanes x0 = l_load(x + i), x1 = l_load(x + i + n_pairs);
        l_store(y + i, l_fms(x0, c, l_mul(x1, s)));
        l_store(y + i + n_pairs, l_fma(x1, c, l_mul(x0, s)));
    }
    if (i < n_pairs) {
        const int rest = (int)(n_pairs - i);
        const lanes zero = l_set(0);
        l_part(l_load_n(cos_sin + 2 * i, rest < 8 ? 2 * rest : 16, zero),
               rest > 8 ? l_load_n(cos_sin + 2 * i + 16, 2 * rest - 16, zero) : zero, &c, &s);
        const lanes x0 = l_load_n(x + i, rest, zero), x1 = l_load_n(x + i + n_pairs, rest, zero);
        l_store_n(y + i, rest, l_fms(x0, c, l_mul(x1, s)));
        l_store_n(y + i + n_pairs, rest, l_fma(x1, c, l_mul(x0, s)));
    }
}

/* ---- conversions ----------------------------------------------------------------------------- */

#define WIDEN(name, from) \
    void FN(name)(float *y, const uint16_t *x, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + 16 <= n; i += 16) l_store(y + i, from(x + i)); \
        if (i == n) return; \
        uint16_t rest[16] = {0}; \
        memcpy(rest, x + i, (size_t)(n - i) * 2); \
        l_store_n(y + i, (int)(n - i), from(rest)); \
    }
WIDEN(f16_to_f32, l_from_f16)
WIDEN(bf16_to_f32, l_from_bf16)

#define NARROW(name, to) \
    void FN(name)(uint16_t * y, const float *x, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + 16 <= n; i += 16) to(y + i, l_load(x + i)); \
        if (i == n) return; \
        uint16_t rest[16]; \
        to(rest, l_load_n(x + i, (int)(n - i), l_set(0))); \
        memcpy(y + i, rest, (size_t)(n - i) * 2); \
    }
NARROW(f32_to_f16, l_to_f16)
NARROW(f32_to_bf16, l_to_bf16)

void FN(q8_0_to_f32)(float *y, const void *x, int64_t n)
{
    for (const qn_block_Q8_0 *b = x; n > 0; b++, n -= 32, y += 32) {
        const lanes d = l_set(l_one_f16(b->d));
        l_store(y, l_mul(d, l_from_i8(b->qs)));
        l_store(y + 16, l_mul(d, l_from_i8(b->qs + 16)));
    }
}

typedef struct block32 {
    lanes a, b;
    float lo, hi; /* with 0, without NaN */
    bool finite;
} block32;

static inline block32 block_of(const float *x)
{
    const lanes zero = l_set(0);
    block32 v = {.a = l_load(x), .b = l_load(x + 16)};
    v.lo = l_lowest(l_min(v.b, l_min(v.a, zero)));
    v.hi = l_highest(l_max(v.b, l_max(v.a, zero)));
    v.finite = l_all_finite(v.a) && l_all_finite(v.b);
    return v;
}

static inline ints scaled_i8(lanes x, lanes inverse)
{
    const lanes scaled = l_min(l_max(l_mul(x, inverse), l_set(-128)), l_set(128));
    return i_within(i_round(scaled), -127, 127);
}

void FN(f32_to_q8_0)(void *y, const float *x, int64_t n)
{
    for (qn_block_Q8_0 *b = y; n > 0; b++, n -= 32, x += 32) {
        const block32 v = block_of(x);
        const float max = v.hi > -v.lo ? v.hi : 0.0f - v.lo, d = max / 127.0f;
        b->d = v.finite ? qn__f32_to_f16(d < 65504.0f ? d : 65504.0f) : 0x7e00;
        if (!v.finite || b->d == 0) {
            memset(b->qs, 0, sizeof b->qs);
            continue;
        }
        const lanes inverse = l_set(1.0f / l_one_f16(b->d));
        i_to_i8(b->qs, scaled_i8(v.a, inverse));
        i_to_i8(b->qs + 16, scaled_i8(v.b, inverse));
    }
}

#ifndef OWN_QUANTIZE_ACT /* avx512/quantize.c */
/* n16 times 16 elements, 2 or 16; sums of 16 each. */
static inline void act_of(const float *x, const int n16, float *d, int *zero, int8_t *q, int16_t *sum)
{
    lanes lo = l_set(0), hi = l_set(0);
    bool finite = true;
    for (int i = 0; i < n16; i++) {
        const lanes v = l_load(x + 16 * i);
        lo = l_min(v, lo);
        hi = l_max(v, hi);
        finite = finite && l_all_finite(v);
    }
    const float low = l_lowest(lo), high = l_highest(hi);
    if (!finite || high - low < 0x1p-100f) {
        *d = finite ? 0 : NAN;
        *zero = 0;
        memset(q, 0, (size_t)n16 * 16);
        memset(sum, 0, (size_t)n16 * sizeof *sum);
        return;
    }
    *d = (0.5f * high - 0.5f * low) / 127.0f;
    const float inverse = 1.0f / *d;
    const long z = lrintf(-127.0f - low * inverse);
    *zero = (int)(z < -127 ? -127 : z > 127 ? 127 : z);

    const lanes scale = l_set(inverse);
    for (int i = 0; i < n16; i++) {
        const ints v = i_within(i_add(i_round(l_mul(l_load(x + 16 * i), scale)), i_set(*zero)), -127, 127);
        i_to_i8(q + 16 * i, v);
        sum[i] = (int16_t)(i_sum(v) - 16 * *zero);
    }
}

void FN(quantize_act32)(qn_act32 *y, const float *x, int64_t n)
{
    for (; n > 0; y++, n -= 32, x += 32) {
        int16_t sum[2];
        int zero;
        act_of(x, 2, &y->d, &zero, y->q, sum);
        y->zero = (int16_t)zero;
        y->sum = (int16_t)(sum[0] + sum[1]);
    }
}

void FN(quantize_act256)(qn_act256 *y, const float *x, int64_t n)
{
    for (; n > 0; y++, n -= 256, x += 256) {
        int zero;
        act_of(x, 16, &y->d, &zero, y->q, y->sum);
        y->zero = zero;
    }
}
#endif

/* ---- in the form of quant's unpack ----------------------------------------------------------- */

static void unpack_F16(const void *src, float *dst, int64_t n)
{
    if (((uintptr_t)src & 1) == 0)
        FN(f16_to_f32)(dst, src, n);
    else
        qn__quant_get(QN_DTYPE_F16)->unpack(src, dst, n);
}

static void unpack_BF16(const void *src, float *dst, int64_t n)
{
    if (((uintptr_t)src & 1) == 0)
        FN(bf16_to_f32)(dst, src, n);
    else
        qn__quant_get(QN_DTYPE_BF16)->unpack(src, dst, n);
}

static void unpack_Q8_0(const void *src, float *dst, int64_t n) { FN(q8_0_to_f32)(dst, src, n); }

void FN(vec_init)(qn_kernels *kernels)
{
#define SET(name) kernels->name = FN(name);
    /* clang-format off */
    SET(dot_f32) SET(sum_sq_f32) SET(mul_scale_f32) SET(add_f32) SET(mul_f32) SET(scale_f32) SET(axpy_f32) SET(max_f32)
    SET(silu_f32) SET(swiglu_f32) SET(exp_sum_f32) SET(rope_norm_f32) SET(rope_neox_f32)
    SET(f16_to_f32) SET(bf16_to_f32) SET(f32_to_f16) SET(f32_to_bf16) SET(q8_0_to_f32) SET(f32_to_q8_0)
    SET(quantize_act32)
    SET(quantize_act256)
    /* clang-format on */
#undef SET
                kernels->unpack[QN_DTYPE_F16] = unpack_F16;
    kernels->unpack[QN_DTYPE_BF16] = unpack_BF16;
    kernels->unpack[QN_DTYPE_Q8_0] = unpack_Q8_0;
}
