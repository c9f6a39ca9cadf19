/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/gemv_lanes.h -- what kernel/gemv.h and kernel/panel_unpack.h need of registers of 64 bytes: sixteen
 * rows in the lanes. */
#ifndef QN_CPU_AVX512_GEMV_LANES_H
#define QN_CPU_AVX512_GEMV_LANES_H

#include "cpu/avx512/lanes.h"
#include "cpu/kernel/inline.h"

typedef __m512i words;
typedef __m512 reals;

INLINE words w_zero(void) { return _mm512_setzero_si512(); }
INLINE words w_set(int x) { return _mm512_set1_epi32(x); }
INLINE words w_bytes(int x) { return _mm512_set1_epi8((char)x); }
INLINE words w_load(const void *p) { return _mm512_load_si512(p); }
INLINE void w_store(void *p, words x) { _mm512_store_si512(p, x); }
INLINE words w_fours(__m128i x) { return _mm512_broadcast_i32x4(x); }
INLINE words w_from_u8(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)); }
INLINE words w_and(words x, words y) { return _mm512_and_si512(x, y); }
INLINE words w_or(words x, words y) { return _mm512_or_si512(x, y); }
INLINE words w_xor(words x, words y) { return _mm512_xor_si512(x, y); }
INLINE words w_select(words mask, words a, words b)
{
    return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
} /* bits of a where mask is 1, of b elsewhere */
INLINE words w_add_8(words x, words y) { return _mm512_add_epi8(x, y); }
INLINE words w_sub_8(words x, words y) { return _mm512_sub_epi8(x, y); }
INLINE words w_add_32(words x, words y) { return _mm512_add_epi32(x, y); }
INLINE words w_sub_32(words x, words y) { return _mm512_sub_epi32(x, y); }
INLINE words w_mul_32(words x, words y) { return _mm512_mullo_epi32(x, y); }
INLINE words w_shl_16(words x, int n) { return _mm512_slli_epi16(x, (unsigned)n); }
INLINE words w_shr_16(words x, int n) { return _mm512_srli_epi16(x, (unsigned)n); }
INLINE words w_sra_16(words x, int n) { return _mm512_srai_epi16(x, (unsigned)n); }
INLINE words w_shl_32(words x, int n) { return _mm512_slli_epi32(x, (unsigned)n); }
INLINE words w_shr_32(words x, int n) { return _mm512_srli_epi32(x, (unsigned)n); }
INLINE words w_sra_32(words x, int n) { return _mm512_srai_epi32(x, (unsigned)n); }
INLINE words w_shl_each(words x, words n) { return _mm512_sllv_epi32(x, n); }
INLINE words w_shuffle(words x, words at) { return _mm512_shuffle_epi8(x, at); } /* in each 128 bits */
INLINE words w_dot_8(words s, words u, words q)
{
    return _mm512_dpbusd_epi32(s, u, q);
} /* s + four products of bytes, u unsigned */
INLINE words w_dot_16(words s, words a, words b) { return _mm512_dpwssd_epi32(s, a, b); } /* s + two products */
INLINE words w_odd_halves(words even, words odd)
{
    return _mm512_mask_mov_epi16(even, 0xaaaaaaaa, odd);
} /* 16 bits each */
INLINE words w_where_less(words x, words y, words yes, words no)
{
    return _mm512_mask_mov_epi32(no, _mm512_cmplt_epi32_mask(x, y), yes);
}
/* u, plus `more` in the bytes where x has the bit that `bits` names; u has none of these bits */
INLINE words w_or_where(words u, words x, words bits, words more)
{
    return _mm512_mask_add_epi8(u, _mm512_test_epi8_mask(x, bits), u, more);
}

INLINE reals r_zero(void) { return _mm512_setzero_ps(); }
INLINE reals r_set(float x) { return _mm512_set1_ps(x); }
INLINE reals r_from(words x) { return _mm512_cvtepi32_ps(x); }
INLINE words r_to_words(reals x) { return _mm512_cvtps_epi32(x); }
INLINE reals r_bits(words x) { return _mm512_castsi512_ps(x); }
INLINE reals r_from_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
INLINE reals r_low_f16(words x)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
} /* binary16 in the low half of each lane */
INLINE reals r_add(reals x, reals y) { return _mm512_add_ps(x, y); }
INLINE reals r_mul(reals x, reals y) { return _mm512_mul_ps(x, y); }
INLINE reals r_fma(reals x, reals y, reals z) { return _mm512_fmadd_ps(x, y, z); }
INLINE reals r_fnma(reals x, reals y, reals z) { return _mm512_fnmadd_ps(x, y, z); }

/* The low halves of all lanes, then the high ones. */
INLINE words w_part(words x)
{
    const words even = _mm512_set_epi32(0x001e001c, 0x001a0018, 0x00160014, 0x00120010, 0x000e000c, 0x000a0008,
                                        0x00060004, 0x00020000, 0, 0, 0, 0, 0, 0, 0, 0);
    const words order = _mm512_add_epi16(_mm512_shuffle_i64x2(even, even, 0xee),
                                         _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1));
    return _mm512_permutexvar_epi16(order, x);
}

/* Both halves of each lane as floats. */
INLINE void w_halves(words x, reals *low, reals *high)
{
    const words parted = w_part(x);
    *low = _mm512_cvtph_ps(_mm512_castsi512_si256(parted));
    *high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(parted, 1));
}

/* The same from what w_part gave, in memory: half the instructions, since conversions read their half from there. */
#define OWN_HALVES
INLINE void r_parted(const words *p, reals *low, reals *high)
{
    *low = _mm512_cvtph_ps(_mm256_load_si256((const void *)p));
    *high = _mm512_cvtph_ps(_mm256_load_si256((const void *)((const uint8_t *)p + 32)));
}

INLINE void r_store(float *to, reals y) { _mm512_storeu_ps(to, y); }
INLINE float r_first(reals y) { return _mm512_cvtss_f32(y); }

INLINE words load_quarters(const uint8_t *p, size_t step)
{
    const words a = _mm512_castsi128_si512(_mm_loadu_si128((const void *)p));
    const words b = _mm512_inserti32x4(a, _mm_loadu_si128((const void *)(p + step)), 1);
    const words c = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(p + 2 * step)), 2);
    return _mm512_inserti32x4(c, _mm_loadu_si128((const void *)(p + 3 * step)), 3);
}

/* out[i]: dword i of a, b, c and d, in each 128 bits */
INLINE void w_transpose(words a, words b, words c, words d, words out[4])
{
    const words ab_lo = _mm512_unpacklo_epi32(a, b), ab_hi = _mm512_unpackhi_epi32(a, b);
    const words cd_lo = _mm512_unpacklo_epi32(c, d), cd_hi = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab_lo, cd_lo);
    out[1] = _mm512_unpackhi_epi64(ab_lo, cd_lo);
    out[2] = _mm512_unpacklo_epi64(ab_hi, cd_hi);
    out[3] = _mm512_unpackhi_epi64(ab_hi, cd_hi);
}

/* lane r of out[i]: dword i of the 16 bytes at w of row r */
INLINE void load_16(const uint8_t *w, size_t step, words out[4])
{
    const words a = load_quarters(w, 4 * step), b = load_quarters(w + step, 4 * step);
    const words c = load_quarters(w + 2 * step, 4 * step), d = load_quarters(w + 3 * step, 4 * step);
    w_transpose(a, b, c, d, out);
}

INLINE words load_halves(const uint8_t *p, size_t step)
{
    const words a = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)p));
    return _mm512_inserti64x4(a, _mm256_loadu_si256((const void *)(p + step)), 1);
}

/* The same of 32 bytes: four instructions a register where load_16 needs five. */
#define OWN_LOAD_32
INLINE void load_32(const uint8_t *w, size_t step, words out[8])
{
    words half[2][4]; /* rows 0 to 7 and 8 to 15: dwords i and i + 4 of four rows each, alternating */
    UNROLL
    for (int i = 0; i < 2; i++, w += 8 * step) {
        const words a = load_halves(w, 4 * step), b = load_halves(w + step, 4 * step);
        const words c = load_halves(w + 2 * step, 4 * step), d = load_halves(w + 3 * step, 4 * step);
        w_transpose(a, b, c, d, half[i]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_shuffle_i32x4(half[0][i], half[1][i], 0x88);
        out[i + 4] = _mm512_shuffle_i32x4(half[0][i], half[1][i], 0xdd);
    }
}

#endif
