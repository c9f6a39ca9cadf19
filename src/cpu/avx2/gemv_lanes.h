/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/gemv_lanes.h -- what kernel/gemv.h and kernel/panel_unpack.h need of registers of 32 bytes (eight
 * rows in the lanes), except sums of products. */
#ifndef QN_CPU_AVX2_GEMV_LANES_H
#define QN_CPU_AVX2_GEMV_LANES_H

#include "cpu/avx2/lanes.h"
#include "cpu/kernel/inline.h"

typedef __m256i words;
typedef __m256 reals;

INLINE words w_zero(void) { return _mm256_setzero_si256(); }
INLINE words w_set(int x) { return _mm256_set1_epi32(x); }
INLINE words w_bytes(int x) { return _mm256_set1_epi8((char)x); }
INLINE words w_load(const void *p) { return _mm256_load_si256(p); }
INLINE void w_store(void *p, words x) { _mm256_store_si256(p, x); }
INLINE words w_fours(__m128i x) { return _mm256_broadcastsi128_si256(x); }
INLINE words w_from_u8(const uint8_t *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)); }
INLINE words w_and(words x, words y) { return _mm256_and_si256(x, y); }
INLINE words w_or(words x, words y) { return _mm256_or_si256(x, y); }
INLINE words w_xor(words x, words y) { return _mm256_xor_si256(x, y); }
INLINE words w_select(words mask, words a, words b)
{
    return w_or(w_and(mask, a), _mm256_andnot_si256(mask, b));
} /* bits of a where mask is 1, of b elsewhere */
INLINE words w_add_8(words x, words y) { return _mm256_add_epi8(x, y); }
INLINE words w_sub_8(words x, words y) { return _mm256_sub_epi8(x, y); }
INLINE words w_add_32(words x, words y) { return _mm256_add_epi32(x, y); }
INLINE words w_sub_32(words x, words y) { return _mm256_sub_epi32(x, y); }
INLINE words w_mul_32(words x, words y) { return _mm256_mullo_epi32(x, y); }
INLINE words w_shl_16(words x, int n) { return _mm256_slli_epi16(x, n); }
INLINE words w_shr_16(words x, int n) { return _mm256_srli_epi16(x, n); }
INLINE words w_sra_16(words x, int n) { return _mm256_srai_epi16(x, n); }
INLINE words w_shl_32(words x, int n) { return _mm256_slli_epi32(x, n); }
INLINE words w_shr_32(words x, int n) { return _mm256_srli_epi32(x, n); }
INLINE words w_sra_32(words x, int n) { return _mm256_srai_epi32(x, n); }
INLINE words w_shl_each(words x, words n) { return _mm256_sllv_epi32(x, n); }
INLINE words w_shuffle(words x, words at) { return _mm256_shuffle_epi8(x, at); }                 /* in each 128 bits */
INLINE words w_odd_halves(words even, words odd) { return _mm256_blend_epi16(even, odd, 0xaa); } /* 16 bits each */
INLINE words w_where_less(words x, words y, words yes, words no)
{
    return _mm256_blendv_epi8(no, yes, _mm256_cmpgt_epi32(y, x));
}
/* u, plus `more` in the bytes where x has the bit that `bits` names; u has none of these bits */
INLINE words w_or_where(words u, words x, words bits, words more)
{
    return w_or(u, w_and(_mm256_cmpeq_epi8(w_and(x, bits), bits), more));
}

INLINE reals r_zero(void) { return _mm256_setzero_ps(); }
INLINE reals r_set(float x) { return _mm256_set1_ps(x); }
INLINE reals r_from(words x) { return _mm256_cvtepi32_ps(x); }
INLINE words r_to_words(reals x) { return _mm256_cvtps_epi32(x); }
INLINE reals r_bits(words x) { return _mm256_castsi256_ps(x); }
INLINE reals r_from_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
INLINE reals r_add(reals x, reals y) { return _mm256_add_ps(x, y); }
INLINE reals r_mul(reals x, reals y) { return _mm256_mul_ps(x, y); }
INLINE reals r_fma(reals x, reals y, reals z) { return _mm256_fmadd_ps(x, y, z); }
INLINE reals r_fnma(reals x, reals y, reals z) { return _mm256_fnmadd_ps(x, y, z); }

/* Both halves of each lane, binary16, as floats. */
INLINE void w_halves(words x, reals *low, reals *high)
{
    const words packed = _mm256_packus_epi32(w_and(x, w_set(0xffff)), w_shr_32(x, 16));
    const words parted = _mm256_permute4x64_epi64(packed, 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(parted));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(parted, 1));
}
INLINE reals r_low_f16(words x) /* binary16 in the low half of each lane */
{
    const words low = w_and(x, w_set(0xffff));
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08)));
}

INLINE void r_store(float *to, reals y) { _mm256_storeu_ps(to, y); }
INLINE float r_first(reals y) { return _mm256_cvtss_f32(y); }

INLINE words two_halves(const uint8_t *p0, const uint8_t *p1)
{
    const words low = _mm256_castsi128_si256(_mm_loadu_si128((const void *)p0));
    return _mm256_inserti128_si256(low, _mm_loadu_si128((const void *)p1), 1);
}
INLINE words load_both(const uint8_t *p, size_t step) { return two_halves(p, p + step); }

/* out[i]: dword i of a, b, c and d, in each 128 bits */
INLINE void w_transpose(words a, words b, words c, words d, words out[4])
{
    const words ab_lo = _mm256_unpacklo_epi32(a, b), ab_hi = _mm256_unpackhi_epi32(a, b);
    const words cd_lo = _mm256_unpacklo_epi32(c, d), cd_hi = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab_lo, cd_lo);
    out[1] = _mm256_unpackhi_epi64(ab_lo, cd_lo);
    out[2] = _mm256_unpacklo_epi64(ab_hi, cd_hi);
    out[3] = _mm256_unpackhi_epi64(ab_hi, cd_hi);
}

/* lane r of out[i]: dword i of the 16 bytes at w of row r */
INLINE void load_16(const uint8_t *w, size_t step, words out[4])
{
    const words a = load_both(w, 4 * step), b = load_both(w + step, 4 * step);
    const words c = load_both(w + 2 * step, 4 * step), d = load_both(w + 3 * step, 4 * step);
    w_transpose(a, b, c, d, out);
}

#endif
