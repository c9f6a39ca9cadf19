/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/quantize.c -- activations to 8 bits (act.h), 64 elements at a time: the bits of kernel/vec.h at a
 * third of the cost. Blocks that count as zeros or are not finite take the general path. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"

#include <math.h>

/* The general path, one block at a time; n16 vectors of 16 elements. */
static void any_block(const float *x, int n16, float *d, int *zero, int8_t *q, int16_t *sum)
{
    __m512 lo = l_set(0), hi = l_set(0);
    bool finite = true;
    for (int i = 0; i < n16; i++) {
        const __m512 v = l_load(x + 16 * i);
        lo = l_min(v, lo);
        hi = l_max(v, hi);
        finite = finite && l_all_finite(v);
    }
    const float low = l_lowest(lo), high = l_highest(hi);
    const bool zeros = !finite || high - low < 0x1p-100f;
    *d = !finite ? NAN : zeros ? 0 : (0.5f * high - 0.5f * low) / 127.0f;
    const float inverse = zeros ? 0 : 1.0f / *d;
    const long z = zeros ? 0 : lrintf(-127.0f - low * inverse);
    *zero = (int)(z < -127 ? -127 : z > 127 ? 127 : z);
    for (int i = 0; i < n16; i++) {
        const __m512 scaled = zeros ? l_set(0) : l_mul(l_load(x + 16 * i), l_set(inverse));
        const ints v = i_within(i_add(i_round(scaled), i_set(*zero)), -127, 127);
        i_to_i8(q + 16 * i, v);
        sum[i] = (int16_t)(i_sum(v) - 16 * *zero);
    }
}

/* 64 elements as bytes, in order: rint(x * inverse[i]) + zero, within 127. The first and second 32 elements may have
 * different inverse and zero. */
static inline __m512i sixty_four(const float *x, __m512 inverse0, __m512 inverse1, __m512i zeros16)
{
    const __m512i a = i_round(l_mul(l_load(x), inverse0)), b = i_round(l_mul(l_load(x + 16), inverse0));
    const __m512i c = i_round(l_mul(l_load(x + 32), inverse1)), d = i_round(l_mul(l_load(x + 48), inverse1));
    const __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d); /* in each 128 bits: 4 of a, 4 of b */
    const __m512i zab = _mm512_permutexvar_epi64(_mm512_setzero_si512(), zeros16);
    const __m512i zcd = _mm512_permutexvar_epi64(_mm512_set1_epi64(7), zeros16);
    const __m512i abcd = _mm512_packs_epi16(_mm512_add_epi16(ab, zab), _mm512_add_epi16(cd, zcd));
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_max_epi8(_mm512_permutexvar_epi32(order, abcd), _mm512_set1_epi8(-127));
}

/* sums of eight (q + 128) each */
static inline __m512i sums_of_8(__m512i q)
{
    return _mm512_sad_epu8(_mm512_xor_si512(q, _mm512_set1_epi8((char)0x80)), _mm512_setzero_si512());
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

void qn__avx512_quantize_act256(qn_act256 *y, const float *x, int64_t n)
{
    for (; n > 0; y++, n -= 256, x += 256) {
        __m512 lo[2] = {l_set(0), l_set(0)}, hi[2] = {l_set(0), l_set(0)}, bad[2] = {l_set(0), l_set(0)};
        for (int i = 0; i < 16; i++) {
            const __m512 v = l_load(x + 16 * i);
            lo[i % 2] = l_min(v, lo[i % 2]);
            hi[i % 2] = l_max(v, hi[i % 2]);
            bad[i % 2] = l_fma(v, l_set(0), bad[i % 2]); /* NaN if v is not finite */
        }
        const float low = l_lowest(l_min(lo[0], lo[1])), high = l_highest(l_max(hi[0], hi[1]));
        const __m512 all = l_add(bad[0], bad[1]);
        if (_mm512_cmp_ps_mask(all, all, _CMP_UNORD_Q) || high - low < 0x1p-100f) {
            int zero;
            any_block(x, 16, &y->d, &zero, y->q, y->sum);
            y->zero = zero;
            continue;
        }
        y->d = (0.5f * high - 0.5f * low) / 127.0f;
        const float inverse = 1.0f / y->d;
        const long z = lrintf(-127.0f - low * inverse);
        y->zero = (int32_t)(z < -127 ? -127 : z > 127 ? 127 : z);

        const __m512 scale = l_set(inverse);
        const __m512i zeros = _mm512_set1_epi16((short)y->zero);
        const __m128i off = _mm_set1_epi32(16 * (128 + y->zero));
        for (int i = 0; i < 4; i++) {
            const __m512i q = sixty_four(x + 64 * i, scale, scale, zeros), s = sums_of_8(q);
            _mm512_storeu_si512(y->q + 64 * i, q);
            const __m256i pairs = _mm512_cvtepi64_epi32(_mm512_add_epi64(s, _mm512_permutex_epi64(s, 0xb1)));
            const __m128i four =
                _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(pairs, _mm256_set_epi32(0, 0, 0, 0, 6, 4, 2, 0)));
            const __m128i sums = _mm_sub_epi32(four, off);
            _mm_storel_epi64((__m128i *)(void *)(y->sum + 4 * i), _mm_packs_epi32(sums, sums));
        }
    }
}

/* ---- blocks of 32, sixteen at a time --------------------------------------------------------- */

/* lane i: the highest of v[i] */
static inline __m512 highest_of_each(__m512 v[16])
{
    __m512 r[4];
    for (int i = 0; i < 4; i++) {
        const __m512 *w = v + 4 * i;
        const __m512 ab = l_max(_mm512_unpacklo_ps(w[0], w[1]), _mm512_unpackhi_ps(w[0], w[1]));
        const __m512 cd = l_max(_mm512_unpacklo_ps(w[2], w[3]), _mm512_unpackhi_ps(w[2], w[3]));
        const __m512d p = _mm512_castps_pd(ab), q = _mm512_castps_pd(cd);
        r[i] = l_max(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)), _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
    }
    const __m512 x = l_max(_mm512_shuffle_f32x4(r[0], r[1], 0x88), _mm512_shuffle_f32x4(r[0], r[1], 0xdd));
    const __m512 y = l_max(_mm512_shuffle_f32x4(r[2], r[3], 0x88), _mm512_shuffle_f32x4(r[2], r[3], 0xdd));
    return l_max(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
}

static void one_block(qn_act32 *y, const float *x)
{
    int16_t sum[2];
    int zero;
    any_block(x, 2, &y->d, &zero, y->q, sum);
    y->zero = (int16_t)zero;
    y->sum = (int16_t)(sum[0] + sum[1]);
}

static void sixteen_blocks(qn_act32 *y, const float *x)
{
    const __m512 none = l_set(0);
    __m512 high[16], low[16]; /* low: of -x */
    __mmask16 unordered = 0;
    for (int b = 0; b < 16; b++) {
        const __m512 u = l_load(x + 32 * b), v = l_load(x + 32 * b + 16);
        high[b] = l_max(u, l_max(v, none));
        low[b] = l_sub(none, l_min(u, l_min(v, none)));
        unordered |= _mm512_cmp_ps_mask(u, v, _CMP_UNORD_Q);
    }
    const __m512 hi = highest_of_each(high), lo = l_sub(none, highest_of_each(low)), range = l_sub(hi, lo);
    const __m512 inf = l_set(INFINITY);
    const __mmask16 usual = _mm512_cmp_ps_mask(range, l_set(0x1p-100f), _CMP_GE_OQ) &
                            _mm512_cmp_ps_mask(hi, inf, _CMP_LT_OQ) &
                            _mm512_cmp_ps_mask(lo, l_sub(none, inf), _CMP_GT_OQ);
    if (unordered || usual != 0xffff) {
        for (int b = 0; b < 16; b++) one_block(y + b, x + 32 * b);
        return;
    }
    float d[16], inverse[16];
    int32_t zero[16];
    const __m512 half = l_set(0.5f), scale = l_div(l_sub(l_mul(half, hi), l_mul(half, lo)), l_set(127));
    const __m512 inv = l_div(l_set(1), scale);
    l_store(d, scale);
    l_store(inverse, inv);
    _mm512_storeu_si512(zero, i_within(i_round(l_sub(l_set(-127), l_mul(lo, inv))), -127, 127));
    for (int b = 0; b < 16; b += 2, y += 2) {
        const __m512i zeros =
            _mm512_inserti64x4(_mm512_set1_epi16((short)zero[b]), _mm256_set1_epi16((short)zero[b + 1]), 1);
        const __m512i q = sixty_four(x + 32 * b, l_set(inverse[b]), l_set(inverse[b + 1]), zeros);
        __m512i s = sums_of_8(q);
        s = _mm512_add_epi64(s, _mm512_permutex_epi64(s, 0xb1));
        s = _mm512_add_epi64(s, _mm512_permutex_epi64(s, 0x4e));
        for (int h = 0; h < 2; h++) {
            const __m256i bytes = h ? _mm512_extracti64x4_epi64(q, 1) : _mm512_castsi512_si256(q);
            const __m128i sum = h ? _mm512_extracti64x2_epi64(s, 2) : _mm512_castsi512_si128(s);
            _mm256_storeu_si256((__m256i *)(void *)y[h].q, bytes);
            y[h].d = d[b + h];
            y[h].zero = (int16_t)zero[b + h];
            y[h].sum = (int16_t)(_mm_cvtsi128_si32(sum) - 32 * (128 + zero[b + h]));
        }
    }
}

void qn__avx512_quantize_act32(qn_act32 *y, const float *x, int64_t n)
{
    for (; n >= 512; y += 16, n -= 512, x += 512) sixteen_blocks(y, x);
    for (; n > 0; y++, n -= 32, x += 32) one_block(y, x);
}
