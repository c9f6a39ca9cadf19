/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_panel_unpack.c -- from the bytes of a format to a panel, one function a format. Turning costs 16 vector
 * instructions for 8 rows x 16 bytes; bits are taken apart after it, where it is cheapest. All columns share the cost. */
#include "cpu/avx2/mm_panel.h"

#include "quant/blocks.h"

typedef const uint8_t *const *row_ptrs;

/* ---- turning --------------------------------------------------------------------------------------------------------- */

static inline __m128i load16(const void *p) { return _mm_loadu_si128(p); }
static inline __m256i two_rows(row_ptrs row, size_t at)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(row[0] + at)), load16(row[4] + at), 1);
}

/* 16 bytes at `at` of each row; lane r of out[i] is the i-th 32-bit word of row r. */
static inline void turn(row_ptrs row, size_t at, __m256i out[4])
{
    const __m256i a = two_rows(row, at), b = two_rows(row + 1, at), c = two_rows(row + 2, at), d = two_rows(row + 3, at);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}
static inline void turn2(row_ptrs row, size_t at, __m256i out[8])
{
    turn(row, at, out);
    turn(row, at + 16, out + 4);
}

static inline __m256i none(void) { return _mm256_setzero_si256(); }
static inline __m256i dwords(int x) { return _mm256_set1_epi32(x); }
static inline __m256i words(int x) { return _mm256_set1_epi16((short)x); }
static inline __m256i bytes(int x) { return _mm256_set1_epi8((char)x); }
static inline __m256i both_halves(__m256i x) /* the low 16 bits of each lane, twice */
{
    return _mm256_blend_epi16(x, _mm256_slli_epi32(x, 16), 0xaa);
}
static inline __m256 f16_low(__m256i x)
{
    const __m256i low = _mm256_and_si256(x, dwords(0xffff));
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08)));
}
static inline __m256 f16_high(__m256i x) { return f16_low(_mm256_srli_epi32(x, 16)); }
/* n bits of every byte, from bit `shift` on */
static inline __m256i bits(__m256i x, int shift, int n) { return _mm256_and_si256(_mm256_srli_epi32(x, shift), bytes((1 << n) - 1)); }
static inline __m256i byte_of(__m256i x, int i) { return _mm256_and_si256(_mm256_srli_epi32(x, i * 8), dwords(255)); }
static inline __m256i signed_byte_of(__m256i x, int i) { return _mm256_srai_epi32(_mm256_slli_epi32(x, 24 - i * 8), 24); }

/* Sums of the two elements that stand in each 16-bit lane, over n vectors; of all four */
static inline __m256i half_sums(const __m256i *w, int n)
{
    __m256i s = none();
    for (int i = 0; i < n; i++) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(bytes(1), w[i]));
    return s;
}
static inline __m256i whole_sums(__m256i half_sums) { return _mm256_madd_epi16(half_sums, words(1)); }

/* ---- blocks of 32: nibbles of elements i and i + 16 share a byte -------------------------------------------------------- */

static inline void finish_32(qn_panel32 *p, int off)
{
    for (int i = 0; i < (off ? 8 : 0); i++) p->w[i] = _mm256_sub_epi8(p->w[i], bytes(off));
    const __m256i half = half_sums(p->w, 8);
    p->start = _mm256_mullo_epi16(half, words(-127));
    p->pair = _mm256_blend_epi16(_mm256_sub_epi32(none(), whole_sums(half)), words(off), 0xaa);
}

static inline void nibbles(row_ptrs row, size_t at, __m256i w[8])
{
    __m256i raw[4];
    turn(row, at, raw);
    for (int i = 0; i < 8; i++) w[i] = bits(raw[i % 4], i / 4 * 4, 4);
}

void qn__avx2_panel_Q4_0(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m256i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_Q4_0, qs), p->w);
    for (int i = 0; i < 8; i++) p->w[i] = _mm256_sub_epi8(p->w[i], bytes(8));
    p->start = half_sums(p->w, 8);
}

void qn__avx2_panel_Q4_1(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m256i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    nibbles(row, at + offsetof(qn_block_Q4_1, qs), p->w);
    finish_32(p, 0);
}

/* w + 16 where the element's bit of the 32 in qh is set */
static inline void fifth_bits(__m256i qh, __m256i w[8])
{
    const __m256i first = _mm256_broadcastsi128_si256(_mm_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
    for (int i = 0; i < 8; i++) {
        const __m256i bit = dwords(i % 2 ? (int)0x80402010u : 0x08040201);
        const __m256i each = _mm256_and_si256(_mm256_shuffle_epi8(qh, _mm256_add_epi8(bytes(i / 2), first)), bit);
        w[i] = _mm256_or_si256(w[i], _mm256_and_si256(_mm256_cmpeq_epi8(each, bit), bytes(16)));
    }
}

void qn__avx2_panel_Q5_0(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m256i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_Q5_0, qs), p->w);
    fifth_bits(_mm256_or_si256(_mm256_srli_epi32(head[0], 16), _mm256_slli_epi32(head[1], 16)), p->w);
    for (int i = 0; i < 8; i++) p->w[i] = _mm256_sub_epi8(p->w[i], bytes(16));
    finish_32(p, 0);
}

void qn__avx2_panel_Q5_1(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m256i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    nibbles(row, at + offsetof(qn_block_Q5_1, qs), p->w);
    fifth_bits(head[1], p->w);
    finish_32(p, 16);
}

static inline void levels(const int8_t *values, __m256i *w, int n)
{
    const __m256i table = _mm256_broadcastsi128_si256(load16(values));
    for (int i = 0; i < n; i++) w[i] = _mm256_shuffle_epi8(table, w[i]);
}

void qn__avx2_panel_MXFP4(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m256i head[4];
    turn(row, at, head);
    const __m256i e = byte_of(head[0], 0), normal = _mm256_slli_epi32(_mm256_sub_epi32(e, dwords(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(dwords(0x200000), e); /* 2^-128, 2^-127 */
    p->d = _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(dwords(2), e)));
    nibbles(row, at + offsetof(qn_block_MXFP4, qs), p->w);
    levels(qn__fp4_values, p->w, 8);
    finish_32(p, 0);
}

/* Bytes to words: elements 4i and 4i+1 of each row are lane r of to[2i], the next two of to[2i+1]. */
static inline void widen(const __m256i *w, int n, __m256i *to)
{
    for (int i = 0; i < n; i++) {
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(w[i], 8), 8), odd = _mm256_srai_epi16(w[i], 8);
        to[2 * i] = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
        to[2 * i + 1] = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
    }
}

void qn__avx2_panel_Q8_0(row_ptrs row, size_t at, void *panel)
{
    qn_words32 *p = panel;
    __m256i head[4], w[8];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    turn2(row, at + offsetof(qn_block_Q8_0, qs), w);
    widen(w, 8, p->w);
}

void qn__avx2_panel_IQ4_NL(row_ptrs row, size_t at, void *panel)
{
    qn_words32 *p = panel;
    __m256i head[4], w[8];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_IQ4_NL, qs), w);
    levels(qn__iq4_values, w, 8);
    widen(w, 8, p->w);
}

/* ---- super-blocks ---------------------------------------------------------------------------------------------------- */

/* From w + off and integer scales of n sub-blocks to the rest. */
static inline void finish_256(qn_panel256 *p, const __m256i *scale, const int n, const int off)
{
    __m256i z = none();
    for (int i = 0; i < (off ? 64 : 0); i++) p->w[i] = _mm256_sub_epi8(p->w[i], bytes(off));
    for (int j = 0; j < n; j++) {
        const __m256i half = half_sums(p->w + j * (64 / n), 64 / n);
        p->start[j] = _mm256_mullo_epi16(half, words(-127));
        p->scale[j] = _mm256_cvtepi32_ps(scale[j]);
        z = _mm256_add_epi32(z, _mm256_mullo_epi32(scale[j], _mm256_add_epi32(whole_sums(half), dwords(256 / n * off))));
    }
    p->z = _mm256_cvtepi32_ps(z);
}

static inline void finish_exact(qn_panel256 *p, const __m256i *scale)
{
    __m256i z = none();
    for (int j = 0; j < 16; j++) {
        const __m256i s = both_halves(scale[j]);
        p->scale[j] = _mm256_castsi256_ps(s);
        z = _mm256_add_epi32(z, _mm256_madd_epi16(half_sums(p->w + j * 4, 4), s));
    }
    p->start[0] = _mm256_mullo_epi32(z, dwords(-127));
    p->z = _mm256_cvtepi32_ps(z);
}

static inline void pair_minima(qn_panel256 *p, const __m256i *min, int n)
{
    for (int i = 0; i < n / 2; i++) p->min[i] = _mm256_or_si256(min[2 * i], _mm256_slli_epi32(min[2 * i + 1], 16));
}

/* d, dmin and the twelve bytes of six-bit scales and minima of Q4_K and Q5_K */
static inline void head_k45(row_ptrs row, size_t at, qn_panel256 *p, __m256i scale[8])
{
    __m256i head[4], min[8];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    const __m256i scales[2] = {bits(head[1], 0, 6), _mm256_or_si256(bits(head[3], 0, 4), _mm256_slli_epi32(bits(head[1], 6, 2), 4))};
    const __m256i mins[2] = {bits(head[2], 0, 6), _mm256_or_si256(bits(head[3], 4, 4), _mm256_slli_epi32(bits(head[2], 6, 2), 4))};
    for (int j = 0; j < 8; j++) {
        scale[j] = byte_of(scales[j / 4], j % 4);
        min[j] = byte_of(mins[j / 4], j % 4);
    }
    pair_minima(p, min, 8);
}

void qn__avx2_panel_Q4_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m256i scale[8], raw[8];
    head_k45(row, at, p, scale);
    for (int two = 0; two < 4; two++) {
        turn2(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32, raw);
        for (int i = 0; i < 16; i++) p->w[two * 16 + i] = bits(raw[i % 8], i / 8 * 4, 4);
    }
    finish_256(p, scale, 8, 0);
}

void qn__avx2_panel_Q5_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m256i scale[8], raw[8], high[8];
    head_k45(row, at, p, scale);
    turn2(row, at + offsetof(qn_block_Q5_K, qh), high);
    for (int two = 0; two < 4; two++) {
        turn2(row, at + offsetof(qn_block_Q5_K, qs) + (size_t)two * 32, raw);
        for (int i = 0; i < 16; i++) {
            const __m256i top = bits(high[i % 8], two * 2 + i / 8, 1);
            p->w[two * 16 + i] = _mm256_or_si256(bits(raw[i % 8], i / 8 * 4, 4), _mm256_slli_epi32(top, 4));
        }
    }
    finish_256(p, scale, 8, 16);
}

void qn__avx2_panel_Q2_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m256i last[4], both[4], scale[16], min[16], raw[8];
    turn(row, at + sizeof(qn_block_Q2_K) - 16, last); /* d and dmin are the last word */
    p->d = f16_low(last[3]);
    p->m = f16_high(last[3]);
    turn(row, at + offsetof(qn_block_Q2_K, scales), both);
    for (int j = 0; j < 16; j++) {
        scale[j] = byte_of(bits(both[j / 4], 0, 4), j % 4);
        min[j] = byte_of(bits(both[j / 4], 4, 4), j % 4);
    }
    pair_minima(p, min, 16);
    for (int half = 0; half < 2; half++) {
        turn2(row, at + offsetof(qn_block_Q2_K, qs) + (size_t)half * 32, raw);
        for (int i = 0; i < 32; i++) p->w[half * 32 + i] = bits(raw[i % 8], i / 8 * 2, 2);
    }
    finish_exact(p, scale);
}

void qn__avx2_panel_Q3_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m256i last[4], word[4], scale[16], raw[8], high[8];
    turn(row, at + sizeof(qn_block_Q3_K) - 16, last); /* d is the upper half of the last word */
    p->d = f16_high(last[3]);
    turn(row, at + offsetof(qn_block_Q3_K, scales) - 4, word); /* words 1 to 3 */
    for (int j = 0; j < 16; j++) {
        const __m256i low = bits(word[1 + j / 4 % 2], j / 8 * 4, 4), top = bits(word[3], j / 4 * 2, 2);
        scale[j] = _mm256_sub_epi32(byte_of(_mm256_or_si256(low, _mm256_slli_epi32(top, 4)), j % 4), dwords(32));
    }
    turn2(row, at + offsetof(qn_block_Q3_K, hmask), high);
    for (int half = 0; half < 2; half++) {
        turn2(row, at + offsetof(qn_block_Q3_K, qs) + (size_t)half * 32, raw);
        for (int i = 0; i < 32; i++) {
            const __m256i top = bits(high[i % 8], half * 4 + i / 8, 1);
            const __m256i q = _mm256_or_si256(bits(raw[i % 8], i / 8 * 2, 2), _mm256_slli_epi32(top, 2));
            p->w[half * 32 + i] = _mm256_sub_epi8(q, bytes(4));
        }
    }
    finish_exact(p, scale);
}

void qn__avx2_panel_Q6_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m256i last[4], word[4], scale[16], low[16], high[8];
    turn(row, at + sizeof(qn_block_Q6_K) - 16, last); /* d is the upper half of the last word */
    p->d = f16_high(last[3]);
    turn(row, at + offsetof(qn_block_Q6_K, scales), word);
    for (int j = 0; j < 16; j++) scale[j] = signed_byte_of(word[j / 4], j % 4);
    for (int half = 0; half < 2; half++) {
        turn2(row, at + (size_t)half * 64, low);
        turn2(row, at + (size_t)half * 64 + 32, low + 8);
        turn2(row, at + offsetof(qn_block_Q6_K, qh) + (size_t)half * 32, high);
        for (int i = 0; i < 32; i++) {
            const __m256i top = bits(high[i % 8], i / 8 * 2, 2);
            const __m256i q = _mm256_or_si256(bits(low[i % 16], i / 16 * 4, 4), _mm256_slli_epi32(top, 4));
            p->w[half * 32 + i] = _mm256_sub_epi8(q, bytes(32));
        }
    }
    finish_256(p, scale, 16, 0);
}

void qn__avx2_panel_IQ4_XS(row_ptrs row, size_t at, void *panel)
{
    qn_words256 *p = panel;
    __m256i head[4], w[8], z = none();
    turn(row, at, head); /* d and scales_h, scales_l */
    p->d = f16_low(head[0]);
    for (int j = 0; j < 8; j++) {
        const __m256i low = _mm256_and_si256(_mm256_srli_epi32(head[1], 4 * j), dwords(15));
        const __m256i top = _mm256_and_si256(_mm256_srli_epi32(head[0], 16 + 2 * j), dwords(3));
        const __m256i scale = _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(top, 4)), dwords(32));
        nibbles(row, at + offsetof(qn_block_IQ4_XS, qs) + (size_t)j * 16, w);
        levels(qn__iq4_values, w, 8);
        p->scale[j] = _mm256_cvtepi32_ps(scale);
        z = _mm256_add_epi32(z, _mm256_mullo_epi32(scale, whole_sums(half_sums(w, 8))));
        widen(w, 8, p->w + j * 16);
    }
    p->z = _mm256_cvtepi32_ps(z);
}
