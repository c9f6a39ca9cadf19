/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_panel_unpack.c -- from the bytes of a format to a panel, one function a format. Turning costs 20 vector
 * instructions for 16 rows x 16 bytes; bits are taken apart after it, where it is cheapest. All columns share the cost. */
#include "cpu/avx512/mm_panel.h"

#include "cpu/avx512/lanes.h"
#include "quant/blocks.h"

typedef const uint8_t *const *row_ptrs;

/* ---- turning
 * -------------------------------------------------------------------------------------------------------------- */

static inline __m128i load16(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

static inline __m512i four_rows(row_ptrs row, size_t at)
{
    __m512i z = _mm512_castsi128_si512(load16(row[0] + at));
    z = _mm512_inserti32x4(z, load16(row[4] + at), 1);
    z = _mm512_inserti32x4(z, load16(row[8] + at), 2);
    return _mm512_inserti32x4(z, load16(row[12] + at), 3);
}

/* 16 bytes at `at` of each row; lane r of out[i] is the i-th 32-bit word of row r. */
static inline void turn(row_ptrs row, size_t at, __m512i out[4])
{
    const __m512i a = four_rows(row, at), b = four_rows(row + 1, at), c = four_rows(row + 2, at), d = four_rows(row + 3, at);
    const __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    const __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
    out[0] = _mm512_unpacklo_epi64(ab0, cd0);
    out[1] = _mm512_unpackhi_epi64(ab0, cd0);
    out[2] = _mm512_unpacklo_epi64(ab1, cd1);
    out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}
static inline void turn2(row_ptrs row, size_t at, __m512i out[8])
{
    turn(row, at, out);
    turn(row, at + 16, out + 4);
}

static inline __m512i dwords(int x) { return _mm512_set1_epi32(x); }
static inline __m512i bytes(int x) { return _mm512_set1_epi8((char)x); }
static inline __m512 f16_low(__m512i x) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)); }
static inline __m512 f16_high(__m512i x) { return f16_low(_mm512_srli_epi32(x, 16)); }
/* n bits of every byte, from bit `shift` on */
static inline __m512i bits(__m512i x, unsigned shift, int n)
{
    return _mm512_and_si512(_mm512_srli_epi32(x, shift), bytes((1 << n) - 1));
}
static inline __m512i byte_of(__m512i x, int i) { return _mm512_and_si512(_mm512_srli_epi32(x, (unsigned)i * 8), dwords(255)); }
static inline __m512i signed_byte_of(__m512i x, int i)
{
    return _mm512_srai_epi32(_mm512_slli_epi32(x, 24 - (unsigned)i * 8), 24);
}
static inline __m512i table_of(const int8_t *values) { return _mm512_broadcast_i32x4(load16((const uint8_t *)values)); }

static inline __m512i sum_w(const __m512i *w, int n)
{
    __m512i s = _mm512_setzero_si512();
    for (int i = 0; i < n; i++) s = _mm512_dpbusd_epi32(s, bytes(1), w[i]);
    return s;
}

/* ---- blocks of 32: nibbles of elements i and i + 16 share a byte
 * ---------------------------------------------------------- */

static inline void finish_32(qn_panel32 *p) { p->sum_w = _mm512_and_si512(sum_w(p->w, 8), dwords(0xffff)); }

static inline void nibbles(row_ptrs row, size_t at, __m512i w[8])
{
    __m512i raw[4];
    turn(row, at, raw);
    for (int i = 0; i < 8; i++) w[i] = bits(raw[i % 4], i / 4 * 4, 4);
}

void qn__avx512_panel_Q4_0(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_Q4_0, qs), p->w);
    for (int i = 0; i < 8; i++) p->w[i] = _mm512_sub_epi8(p->w[i], bytes(8));
    finish_32(p);
}

void qn__avx512_panel_Q4_1(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    nibbles(row, at + offsetof(qn_block_Q4_1, qs), p->w);
    finish_32(p);
}

/* w + 16 where the element's bit of the 32 in qh is set */
static inline void fifth_bits(__m512i qh, __m512i w[8])
{
    const __m512i low = dwords(0x08040201), high = dwords((int)0x80402010u);
    for (int i = 0; i < 8; i++) {
        const __m512i each = _mm512_shuffle_epi8(qh, _mm512_add_epi8(bytes(i / 2), _mm512_broadcast_i32x4(_mm_set_epi32(
                                                                                       0x0c0c0c0c, 0x08080808, 0x04040404, 0))));
        w[i] = _mm512_mask_add_epi8(w[i], _mm512_test_epi8_mask(each, i % 2 ? high : low), w[i], bytes(16));
    }
}

void qn__avx512_panel_Q5_0(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_Q5_0, qs), p->w);
    fifth_bits(_mm512_or_si512(_mm512_srli_epi32(head[0], 16), _mm512_slli_epi32(head[1], 16)), p->w);
    for (int i = 0; i < 8; i++) p->w[i] = _mm512_sub_epi8(p->w[i], bytes(16));
    finish_32(p);
}

void qn__avx512_panel_Q5_1(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    nibbles(row, at + offsetof(qn_block_Q5_1, qs), p->w);
    fifth_bits(head[1], p->w);
    finish_32(p);
}

void qn__avx512_panel_Q8_0(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    turn2(row, at + offsetof(qn_block_Q8_0, qs), p->w);
    finish_32(p);
}

static inline void levels(const int8_t *values, __m512i *w, int n)
{
    const __m512i table = table_of(values);
    for (int i = 0; i < n; i++) w[i] = _mm512_shuffle_epi8(table, w[i]);
}

void qn__avx512_panel_IQ4_NL(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_IQ4_NL, qs), p->w);
    levels(qn__iq4_values, p->w, 8);
    finish_32(p);
}

void qn__avx512_panel_MXFP4(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    __m512i head[4];
    turn(row, at, head);
    const __m512i e = byte_of(head[0], 0), normal = _mm512_slli_epi32(_mm512_sub_epi32(e, dwords(1)), 23);
    const __m512i subnormal = _mm512_sllv_epi32(dwords(0x200000), e); /* 2^-128, 2^-127 */
    p->d = _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, _mm512_cmplt_epi32_mask(e, dwords(2)), subnormal));
    nibbles(row, at + offsetof(qn_block_MXFP4, qs), p->w);
    levels(qn__fp4_values, p->w, 8);
    finish_32(p);
}

/* ---- super-blocks
 * --------------------------------------------------------------------------------------------------------- */

/* From w and integer scales to the rest. */
static inline void finish_256(qn_panel256 *p, const __m512i *scale, const int n)
{
    __m512i z = _mm512_setzero_si512();
    for (int j = 0; j < n; j++) {
        const __m512i sum = sum_w(p->w + j * (64 / n), 64 / n);
        p->start[j] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, 7));
        p->scale[j] = _mm512_cvtepi32_ps(scale[j]);
        z = _mm512_add_epi32(z, _mm512_mullo_epi32(scale[j], sum));
    }
    p->z = _mm512_cvtepi32_ps(z);
}

static inline void pair_minima(qn_panel256 *p, const __m512i *min, int n)
{
    for (int i = 0; i < n / 2; i++) p->min[i] = _mm512_or_si512(min[2 * i], _mm512_slli_epi32(min[2 * i + 1], 16));
}

/* From w and integer scales of sixteen sub-blocks to one whole; sign: of what w holds then (mm_panel.h). */
static inline void finish_exact(qn_panel256 *p, const __m512i *scale, const int sign)
{
    const __m512i low = _mm512_set1_epi16(0x00ff), none = _mm512_setzero_si512();
    for (int j = 0; j < 16; j++) {
        const __m512i one = _mm512_and_si512(sign < 0 ? _mm512_sub_epi32(none, scale[j]) : scale[j], dwords(0xffff));
        const __m512i s = _mm512_or_si512(one, _mm512_slli_epi32(one, 16));
        for (int i = 4 * j; i < 4 * j + 4; i++) {
            const __m512i even = _mm512_mullo_epi16(p->w[i], s), odd = _mm512_mullo_epi16(_mm512_andnot_si512(low, p->w[i]), s);
            p->w[i] = _mm512_ternarylogic_epi32(low, even, odd, 0xca);
        }
    }
    const __m512i sum = sum_w(p->w, 64);
    p->start[0] = _mm512_sub_epi32(none, _mm512_slli_epi32(sum, 7));
    p->z = _mm512_cvtepi32_ps(sign < 0 ? _mm512_sub_epi32(none, sum) : sum);
}

/* d, dmin and the twelve bytes of six-bit scales and minima of Q4_K and Q5_K */
static inline void head_k45(row_ptrs row, size_t at, qn_panel256 *p, __m512i scale[8])
{
    __m512i head[4], min[8];
    turn(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    const __m512i scales[2] = {bits(head[1], 0, 6), _mm512_or_si512(bits(head[3], 0, 4), _mm512_slli_epi32(bits(head[1], 6, 2), 4))};
    const __m512i mins[2] = {bits(head[2], 0, 6), _mm512_or_si512(bits(head[3], 4, 4), _mm512_slli_epi32(bits(head[2], 6, 2), 4))};
    for (int j = 0; j < 8; j++) {
        scale[j] = byte_of(scales[j / 4], j % 4);
        min[j] = byte_of(mins[j / 4], j % 4);
    }
    pair_minima(p, min, 8);
}

void qn__avx512_panel_Q4_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m512i scale[8], raw[8];
    head_k45(row, at, p, scale);
    for (int two = 0; two < 4; two++) {
        turn2(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32, raw);
        for (int i = 0; i < 16; i++) p->w[two * 16 + i] = bits(raw[i % 8], i / 8 * 4, 4);
    }
    finish_256(p, scale, 8);
}

void qn__avx512_panel_Q5_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m512i scale[8], raw[8], high[8];
    head_k45(row, at, p, scale);
    turn2(row, at + offsetof(qn_block_Q5_K, qh), high);
    for (int two = 0; two < 4; two++) {
        turn2(row, at + offsetof(qn_block_Q5_K, qs) + (size_t)two * 32, raw);
        for (int i = 0; i < 16; i++) {
            const __m512i top = bits(high[i % 8], (unsigned)(two * 2 + i / 8), 1);
            p->w[two * 16 + i] = _mm512_or_si512(bits(raw[i % 8], i / 8 * 4, 4), _mm512_slli_epi32(top, 4));
        }
    }
    finish_256(p, scale, 8);
}

void qn__avx512_panel_Q2_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m512i last[4], both[4], scale[16], min[16], raw[8];
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
        for (int i = 0; i < 32; i++) p->w[half * 32 + i] = bits(raw[i % 8], (unsigned)(i / 8 * 2), 2);
    }
    finish_exact(p, scale, 1);
}

void qn__avx512_panel_Q3_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m512i last[4], words[4], scale[16], raw[8], high[8];
    turn(row, at + sizeof(qn_block_Q3_K) - 16, last); /* d is the upper half of the last word */
    p->d = f16_high(last[3]);
    turn(row, at + offsetof(qn_block_Q3_K, scales) - 4, words); /* words 1 to 3 */
    for (int j = 0; j < 16; j++) {
        const __m512i low = bits(words[1 + j / 4 % 2], (unsigned)(j / 8 * 4), 4), top = bits(words[3], (unsigned)(j / 4 * 2), 2);
        scale[j] = _mm512_sub_epi32(byte_of(_mm512_or_si512(low, _mm512_slli_epi32(top, 4)), j % 4), dwords(32));
    }
    turn2(row, at + offsetof(qn_block_Q3_K, hmask), high);
    for (int half = 0; half < 2; half++) {
        turn2(row, at + offsetof(qn_block_Q3_K, qs) + (size_t)half * 32, raw);
        for (int i = 0; i < 32; i++) {
            const __m512i top = bits(high[i % 8], (unsigned)(half * 4 + i / 8), 1);
            const __m512i q = _mm512_or_si512(bits(raw[i % 8], (unsigned)(i / 8 * 2), 2), _mm512_slli_epi32(top, 2));
            p->w[half * 32 + i] = _mm512_sub_epi8(q, bytes(4));
        }
    }
    finish_exact(p, scale, -1);
}

void qn__avx512_panel_Q6_K(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m512i last[4], words[4], scale[16], low[16], high[8];
    turn(row, at + sizeof(qn_block_Q6_K) - 16, last); /* d is the upper half of the last word */
    p->d = f16_high(last[3]);
    turn(row, at + offsetof(qn_block_Q6_K, scales), words);
    for (int j = 0; j < 16; j++) scale[j] = signed_byte_of(words[j / 4], j % 4);
    for (int half = 0; half < 2; half++) {
        turn2(row, at + (size_t)half * 64, low);
        turn2(row, at + (size_t)half * 64 + 32, low + 8);
        turn2(row, at + offsetof(qn_block_Q6_K, qh) + (size_t)half * 32, high);
        for (int i = 0; i < 32; i++) {
            const __m512i top = bits(high[i % 8], (unsigned)(i / 8 * 2), 2);
            const __m512i q = _mm512_or_si512(bits(low[i % 16], i / 16 * 4, 4), _mm512_slli_epi32(top, 4));
            p->w[half * 32 + i] = _mm512_sub_epi8(q, bytes(32));
        }
    }
    finish_256(p, scale, 16);
}

void qn__avx512_panel_IQ4_XS(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    __m512i head[4], scale[8];
    turn(row, at, head); /* d and scales_h, scales_l */
    p->d = f16_low(head[0]);
    for (int j = 0; j < 8; j++) {
        const __m512i low = _mm512_and_si512(_mm512_srli_epi32(head[1], 4 * (unsigned)j), dwords(15));
        const __m512i top = _mm512_and_si512(_mm512_srli_epi32(head[0], 16 + 2 * (unsigned)j), dwords(3));
        scale[j] = _mm512_sub_epi32(_mm512_or_si512(low, _mm512_slli_epi32(top, 4)), dwords(32));
        nibbles(row, at + offsetof(qn_block_IQ4_XS, qs) + (size_t)j * 16, p->w + j * 8);
    }
    levels(qn__iq4_values, p->w, 64);
    finish_256(p, scale, 8);
}
