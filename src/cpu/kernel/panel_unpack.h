/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/panel_unpack.h -- from the bytes of a format to a panel, written once: one function a format. 16
 * bytes of as many rows as a register has lanes are transposed with two shuffles a register; bit fields are
 * extracted after that, where it is cheapest. All columns share the cost.
 *
 * A level's mm_panel_unpack.c includes its mm_panel.h and gemv_lanes.h, defines FN(name), wide32 and wide256 (the
 * panels of formats with 8-bit weights) and these functions, and then includes this:
 *   w_rows(row, at)              16 bytes at `at` of rows 0, 4, 8 ..., one row in each 128 bits
 *   finish_32(p, off, plain)     from the format's w + off to all but d and m; plain: |w| <= 8
 *   finish_wide_32(p, w)         all but d
 *   sub_256(p, j, n, off, scale) sub-block j of n, from w + off and its scale; returns the sum of the format's w
 *   sub_wide_256(p, j, w, scale) sub-block j of 8; returns the sum of w
 *   wide_chained(p)              chained(p, 8, 1) for these
 *   chained(p, n, chain)         what remains, at levels that add sub-blocks in floats as long as that is exact
 *   finish_exact(p, scale, sign) sixteen sub-blocks with scales; the panel may hold sign * scale * w in bytes */
#include "quant/blocks.h"

typedef const uint8_t *const *row_ptrs;

/* 16 bytes at `at` of each row, transposed: lane r of out[i] is dword i of row r. */
static inline void load_transposed_16(row_ptrs row, size_t at, words out[4])
{
    w_transpose(w_rows(row, at), w_rows(row + 1, at), w_rows(row + 2, at), w_rows(row + 3, at), out);
}
static inline void load_transposed_32(row_ptrs row, size_t at, words out[8])
{
    load_transposed_16(row, at, out);
    load_transposed_16(row, at + 16, out + 4);
}

static inline reals f16_low(words x) { return r_low_f16(x); }
static inline reals f16_high(words x) { return r_low_f16(w_shr_32(x, 16)); }
/* n bits of every byte, from bit `shift` on */
static inline words bits(words x, int shift, int n) { return w_and(w_shr_32(x, shift), w_bytes((1 << n) - 1)); }
static inline words byte_of(words x, int i) { return w_and(w_shr_32(x, i * 8), w_set(255)); }
static inline words signed_byte_of(words x, int i) { return w_sra_32(w_shl_32(x, 24 - i * 8), 24); }

static inline void take_off(words *w, int n, int off)
{
    for (int i = 0; i < n; i++) w[i] = w_sub_8(w[i], w_bytes(off));
}

static inline void levels(const int8_t *values, words *w, int n)
{
    const words table = w_fours(_mm_loadu_si128((const void *)values));
    for (int i = 0; i < n; i++) w[i] = w_shuffle(table, w[i]);
}

/* ---- blocks of 32: nibbles of elements i and i + 16 share a byte ----------------------------- */

static inline void nibbles(row_ptrs row, size_t at, words w[8])
{
    words raw[4];
    load_transposed_16(row, at, raw);
    for (int i = 0; i < 8; i++) w[i] = bits(raw[i % 4], i / 4 * 4, 4);
}

/* w + 16 where the element's bit of the 32 in qh is set */
static inline void fifth_bits(words qh, words w[8])
{
    const words first = w_fours(_mm_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
    for (int i = 0; i < 8; i++) {
        const words bit = w_set(i % 2 ? (int)0x80402010u : 0x08040201);
        w[i] = w_or_where(w[i], w_shuffle(qh, w_add_8(w_bytes(i / 2), first)), bit, w_bytes(16));
    }
}

void FN(panel_Q4_0)(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    words head[4];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_Q4_0, qs), p->w);
    take_off(p->w, 8, 8);
    finish_32(p, 0, true);
}

void FN(panel_Q4_1)(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    words head[4];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    nibbles(row, at + offsetof(qn_block_Q4_1, qs), p->w);
    finish_32(p, 0, false);
}

void FN(panel_Q5_0)(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    words head[4];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_Q5_0, qs), p->w);
    fifth_bits(w_or(w_shr_32(head[0], 16), w_shl_32(head[1], 16)), p->w);
    take_off(p->w, 8, 16);
    finish_32(p, 0, false);
}

void FN(panel_Q5_1)(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    words head[4];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    nibbles(row, at + offsetof(qn_block_Q5_1, qs), p->w);
    fifth_bits(head[1], p->w);
    finish_32(p, 16, false);
}

void FN(panel_Q8_0)(row_ptrs row, size_t at, void *panel)
{
    wide32 *p = panel;
    words head[4], w[8];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    load_transposed_32(row, at + offsetof(qn_block_Q8_0, qs), w);
    finish_wide_32(p, w);
}

void FN(panel_IQ4_NL)(row_ptrs row, size_t at, void *panel)
{
    wide32 *p = panel;
    words head[4], w[8];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    nibbles(row, at + offsetof(qn_block_IQ4_NL, qs), w);
    levels(qn__iq4_values, w, 8);
    finish_wide_32(p, w);
}

void FN(panel_MXFP4)(row_ptrs row, size_t at, void *panel)
{
    qn_panel32 *p = panel;
    words head[4];
    load_transposed_16(row, at, head);
    const words e = byte_of(head[0], 0), normal = w_shl_32(w_sub_32(e, w_set(1)), 23);
    const words subnormal = w_shl_each(w_set(0x200000), e); /* 2^-128, 2^-127 */
    p->d = r_bits(w_where_less(e, w_set(2), subnormal, normal));
    nibbles(row, at + offsetof(qn_block_MXFP4, qs), p->w);
    levels(qn__fp4_values, p->w, 8);
    finish_32(p, 0, false);
}

/* ---- super-blocks ---------------------------------------------------------------------------- */

/* The rest of a panel from w + off and the integer scales of n sub-blocks. */
static inline void finish_256(qn_panel256 *p, const words *scale, const int n, const int off, const int chain)
{
    words z = w_zero();
    for (int j = 0; j < n; j++) z = w_add_32(z, w_mul_32(scale[j], sub_256(p, j, n, off, scale[j])));
    p->z = r_from(z);
    chained(p, n, chain);
}

static inline void pair_minima(qn_panel256 *p, const words *min, int n)
{
    for (int i = 0; i < n / 2; i++) p->min[i] = w_or(min[2 * i], w_shl_32(min[2 * i + 1], 16));
}

/* d, dmin and the twelve bytes of six-bit scales and minima of Q4_K and Q5_K */
static inline void head_k45(row_ptrs row, size_t at, qn_panel256 *p, words scale[8])
{
    words head[4], min[8];
    load_transposed_16(row, at, head);
    p->d = f16_low(head[0]);
    p->m = f16_high(head[0]);
    const words scales[2] = {bits(head[1], 0, 6), w_or(bits(head[3], 0, 4), w_shl_32(bits(head[1], 6, 2), 4))};
    const words mins[2] = {bits(head[2], 0, 6), w_or(bits(head[3], 4, 4), w_shl_32(bits(head[2], 6, 2), 4))};
    for (int j = 0; j < 8; j++) {
        scale[j] = byte_of(scales[j / 4], j % 4);
        min[j] = byte_of(mins[j / 4], j % 4);
    }
    pair_minima(p, min, 8);
}

void FN(panel_Q4_K)(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    words scale[8], raw[8];
    head_k45(row, at, p, scale);
    for (int two = 0; two < 4; two++) {
        load_transposed_32(row, at + offsetof(qn_block_Q4_K, qs) + (size_t)two * 32, raw);
        for (int i = 0; i < 16; i++) p->w[two * 16 + i] = bits(raw[i % 8], i / 8 * 4, 4);
    }
    finish_256(p, scale, 8, 0, 4);
}

void FN(panel_Q5_K)(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    words scale[8], raw[8], high[8];
    head_k45(row, at, p, scale);
    load_transposed_32(row, at + offsetof(qn_block_Q5_K, qh), high);
    for (int two = 0; two < 4; two++) {
        load_transposed_32(row, at + offsetof(qn_block_Q5_K, qs) + (size_t)two * 32, raw);
        for (int i = 0; i < 16; i++) {
            const words top = bits(high[i % 8], two * 2 + i / 8, 1);
            p->w[two * 16 + i] = w_or(bits(raw[i % 8], i / 8 * 4, 4), w_shl_32(top, 4));
        }
    }
    finish_256(p, scale, 8, 16, 2);
}

void FN(panel_Q2_K)(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    words last[4], both[4], scale[16], min[16], raw[8];
    load_transposed_16(row, at + sizeof(qn_block_Q2_K) - 16, last); /* d and dmin are the last word */
    p->d = f16_low(last[3]);
    p->m = f16_high(last[3]);
    load_transposed_16(row, at + offsetof(qn_block_Q2_K, scales), both);
    for (int j = 0; j < 16; j++) {
        scale[j] = byte_of(bits(both[j / 4], 0, 4), j % 4);
        min[j] = byte_of(bits(both[j / 4], 4, 4), j % 4);
    }
    pair_minima(p, min, 16);
    for (int half = 0; half < 2; half++) {
        load_transposed_32(row, at + offsetof(qn_block_Q2_K, qs) + (size_t)half * 32, raw);
        for (int i = 0; i < 32; i++) p->w[half * 32 + i] = bits(raw[i % 8], i / 8 * 2, 2);
    }
    finish_exact(p, scale, 1);
}

void FN(panel_Q3_K)(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    words last[4], word[4], scale[16], raw[8], high[8];
    load_transposed_16(row, at + sizeof(qn_block_Q3_K) - 16, last); /* d is the upper half of the last word */
    p->d = f16_high(last[3]);
    load_transposed_16(row, at + offsetof(qn_block_Q3_K, scales) - 4, word); /* words 1 to 3 */
    for (int j = 0; j < 16; j++) {
        const words low = bits(word[1 + j / 4 % 2], j / 8 * 4, 4), top = bits(word[3], j / 4 * 2, 2);
        scale[j] = w_sub_32(byte_of(w_or(low, w_shl_32(top, 4)), j % 4), w_set(32));
    }
    load_transposed_32(row, at + offsetof(qn_block_Q3_K, hmask), high);
    for (int half = 0; half < 2; half++) {
        load_transposed_32(row, at + offsetof(qn_block_Q3_K, qs) + (size_t)half * 32, raw);
        for (int i = 0; i < 32; i++) {
            const words top = bits(high[i % 8], half * 4 + i / 8, 1);
            const words q = w_or(bits(raw[i % 8], i / 8 * 2, 2), w_shl_32(top, 2));
            p->w[half * 32 + i] = w_sub_8(q, w_bytes(4));
        }
    }
    finish_exact(p, scale, -1);
}

void FN(panel_Q6_K)(row_ptrs row, size_t at, void *panel)
{
    qn_panel256 *p = panel;
    words last[4], word[4], scale[16], low[16], high[8];
    load_transposed_16(row, at + sizeof(qn_block_Q6_K) - 16, last); /* d is the upper half of the last word */
    p->d = f16_high(last[3]);
    load_transposed_16(row, at + offsetof(qn_block_Q6_K, scales), word);
    for (int j = 0; j < 16; j++) scale[j] = signed_byte_of(word[j / 4], j % 4);
    for (int half = 0; half < 2; half++) {
        load_transposed_32(row, at + (size_t)half * 64, low);
        load_transposed_32(row, at + (size_t)half * 64 + 32, low + 8);
        load_transposed_32(row, at + offsetof(qn_block_Q6_K, qh) + (size_t)half * 32, high);
        for (int i = 0; i < 32; i++) {
            const words top = bits(high[i % 8], i / 8 * 2, 2);
            const words q = w_or(bits(low[i % 16], i / 16 * 4, 4), w_shl_32(top, 4));
            p->w[half * 32 + i] = w_sub_8(q, w_bytes(32));
        }
    }
    finish_256(p, scale, 16, 0, 2);
}

void FN(panel_IQ4_XS)(row_ptrs row, size_t at, void *panel)
{
    wide256 *p = panel;
    words head[4], w[8], z = w_zero();
    load_transposed_16(row, at, head); /* d and scales_h, scales_l */
    p->d = f16_low(head[0]);
    for (int j = 0; j < 8; j++) {
        const words low = w_and(w_shr_32(head[1], 4 * j), w_set(15)),
                    top = w_and(w_shr_32(head[0], 16 + 2 * j), w_set(3));
        const words scale = w_sub_32(w_or(low, w_shl_32(top, 4)), w_set(32));
        nibbles(row, at + offsetof(qn_block_IQ4_XS, qs) + (size_t)j * 16, w);
        levels(qn__iq4_values, w, 8);
        z = w_add_32(z, w_mul_32(scale, sub_wide_256(p, j, w, scale)));
    }
    p->z = r_from(z);
    wide_chained(p);
}
