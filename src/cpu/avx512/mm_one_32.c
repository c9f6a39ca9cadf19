/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_one_32.c -- few columns in blocks of 32: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4. A format brings a
 * block to unsigned bytes u = w + off; then S = sum u q - zero sum u - off sum (q - zero), where the column's block has
 * the last sum.
 *
 * Scales, minima and fifth bits of sixteen rows are collected a block ahead by scalar moves: they cost the vector ports
 * nothing, and the wide loads that read them don't wait for the narrow stores. */
#include "cpu/avx512/mm_one.h"

/* What a block has beside its quants, by row. */
typedef struct heads {
    uint32_t bits[16];
    uint16_t d[16], m[16];
    uint8_t e[64];
} heads; /* aligned to 64, and so is the next */

INLINE __m512 f16s(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_load_si256((const void *)p)); }

/* ---- formats: what stands beside the quants, and the quants ------------------------------------------------------ */

INLINE void nibbles(const uint8_t *w, size_t step, __m512i u[8])
{
    __m512i p[4];
    load_16(w, step, p);
    UNROLL for (int i = 0; i < 4; i++) {
        u[i] = low_nibbles(p[i]);
        u[i + 4] = high_nibbles(p[i]);
    }
}

/* Bit 4 i + j of a row's 32 goes above the nibble in byte j of u[i]. */
INLINE void add_fifth(const heads *h, __m512i u[8])
{
    const __m512i bits = _mm512_load_si512(h->bits);
    UNROLL for (int i = 0; i < 8; i++) {
        const __m512i at = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
        const __m512i byte = _mm512_shuffle_epi8(bits, _mm512_add_epi8(at, _mm512_set1_epi8((char)(i / 2))));
        const __mmask64 set = _mm512_test_epi8_mask(byte, _mm512_set1_epi32(i % 2 ? (int)0x80402010 : 0x08040201));
        u[i] = _mm512_mask_add_epi8(u[i], set, u[i], _mm512_set1_epi8(16));
    }
}

INLINE void look_up(__m512i table, __m512i u[8])
{
    UNROLL for (int i = 0; i < 8; i++) u[i] = _mm512_shuffle_epi8(table, u[i]);
}

INLINE void head_Q4_0(const uint8_t *w, size_t step, heads *h) { copy_uint16_t(w, step, h->d); }
INLINE void quants_Q4_0(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    (void)h;
    nibbles(w + 2, step, u);
}

INLINE void head_Q4_1(const uint8_t *w, size_t step, heads *h)
{
    copy_uint16_t(w, step, h->d);
    copy_uint16_t(w + 2, step, h->m);
}
INLINE void quants_Q4_1(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    (void)h;
    nibbles(w + 4, step, u);
}

INLINE void head_Q5_0(const uint8_t *w, size_t step, heads *h)
{
    copy_uint16_t(w, step, h->d);
    copy_uint32_t(w + 2, step, h->bits);
}
INLINE void quants_Q5_0(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    nibbles(w + 6, step, u);
    add_fifth(h, u);
}

INLINE void head_Q5_1(const uint8_t *w, size_t step, heads *h)
{
    copy_uint16_t(w, step, h->d);
    copy_uint16_t(w + 2, step, h->m);
    copy_uint32_t(w + 4, step, h->bits);
}
INLINE void quants_Q5_1(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    nibbles(w + 8, step, u);
    add_fifth(h, u);
}

INLINE void head_Q8_0(const uint8_t *w, size_t step, heads *h) { copy_uint16_t(w, step, h->d); }
INLINE void quants_Q8_0(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    (void)h;
    load_16(w + 2, step, u);
    load_16(w + 18, step, u + 4);
    UNROLL for (int i = 0; i < 8; i++) u[i] = _mm512_xor_si512(u[i], _mm512_set1_epi8(-128));
}

INLINE void head_IQ4_NL(const uint8_t *w, size_t step, heads *h) { copy_uint16_t(w, step, h->d); }
INLINE void quants_IQ4_NL(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    (void)h;
    nibbles(w + 2, step, u);
    look_up(table_16(qn__iq4_values, 128), u);
}

INLINE void head_MXFP4(const uint8_t *w, size_t step, heads *h) { copy_uint8_t(w, step, h->e); }
INLINE void quants_MXFP4(const uint8_t *w, size_t step, const heads *h, __m512i u[8])
{
    (void)h;
    nibbles(w + 1, step, u);
    look_up(table_16(qn__fp4_values, 12), u);
}

INLINE __m512 scale_f16(const heads *h) { return f16s(h->d); }
INLINE __m512 scale_e8m0(const heads *h) /* 2^(e - 128): a normal number from e = 2 on */
{
    const __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128((const void *)h->e)), two = _mm512_set1_epi32(2);
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 small = _mm512_cmplt_epi32_mask(e, two);
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x00200000), e));
}

/* ---- the product ------------------------------------------------------------------------------------------------- */

/* FORMAT(name, off, greatest u, scale, value = d w + m) */
#define FORMATS(FORMAT)                                                                                                \
    FORMAT(Q4_0, 8, 15, scale_f16, false) FORMAT(Q4_1, 0, 15, scale_f16, true) FORMAT(Q5_0, 16, 31, scale_f16, false)  \
    FORMAT(Q5_1, 0, 31, scale_f16, true) FORMAT(Q8_0, 128, 255, scale_f16, false)                                      \
    FORMAT(IQ4_NL, 128, 255, scale_f16, false) FORMAT(MXFP4, 12, 24, scale_e8m0, false)

/* One block: sums[c] = S. (sum u, off) times (zero, sum) is one instruction: sum u stays below 2^13. */
INLINE void dot_blocks(const int nc, const __m512i u[8], int off, int max, const qn_act32 *x, __m512i *sums)
{
    const __m512i pair = sum_n(_mm512_set1_epi32(off << 16), u, 8, max), none = _mm512_setzero_si512();
    UNROLL for (int c = 0; c < nc; c++) sums[c] = none;
    dots_n(nc, sums, u, x->q, sizeof *x, 8);
    UNROLL for (int c = 0; c < nc; c++)
        sums[c] = _mm512_sub_epi32(sums[c], _mm512_dpwssd_epi32(none, pair, all_4(&x[c].zero)));
}
_Static_assert(offsetof(qn_act32, sum) == offsetof(qn_act32, zero) + 2, "zero and sum are read as one pair");

#define FORMAT(name, off, max, scale, with_min)                                                                        \
    INLINE void one_##name(const int nc, const uint8_t *w, size_t step, const qn_act32 *x, int64_t n, __m512 *y)       \
    {                                                                                                                  \
        heads ring[2] __attribute__((aligned(64)));                                                                    \
        __m512 acc[QN_ONE_COLS_MAX];                                                                                   \
        UNROLL for (int c = 0; c < nc; c++) acc[c] = _mm512_setzero_ps();                                              \
        if (n > 0) head_##name(w, step, &ring[0]);                                                                     \
        for (int64_t b = 0; b < n; b++, x += nc, w += sizeof(qn_block_##name)) {                                       \
            const heads *h = &ring[b % 2];                                                                             \
            __m512i u[8], s[QN_ONE_COLS_MAX];                                                                          \
            HIDE(w);                                                                                                   \
            if (b % 2 == 0) fetch_rows(w, step, 0, 16, 1);                                                             \
            if (b + 1 < n) head_##name(w + sizeof(qn_block_##name), step, &ring[(b + 1) % 2]);                         \
            quants_##name(w, step, h, u);                                                                              \
            dot_blocks(nc, u, off, max, x, s);                                                                         \
            const __m512 d = scale(h), m = with_min ? f16s(h->m) : d;                                                  \
            UNROLL for (int c = 0; c < nc; c++) {                                                                      \
                acc[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[c]), _mm512_mul_ps(d, _mm512_set1_ps(x[c].d)), acc[c]);  \
                if (with_min) acc[c] = _mm512_fmadd_ps(m, _mm512_set1_ps(x[c].d * (float)x[c].sum), acc[c]);           \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int c = 0; c < nc; c++) y[c] = acc[c];                                                             \
    }                                                                                                                  \
    QN_ONE(name, 32, qn_act32)
FORMATS(FORMAT)
#undef FORMAT

void qn__avx512_one_32_init(qn_ukr *ukr)
{
#define FORMAT(name, off, max, scale, with_min) qn__avx512_one_set(&ukr->mm[QN_DTYPE_##name], mm_##name);
    FORMATS(FORMAT)
#undef FORMAT
}
