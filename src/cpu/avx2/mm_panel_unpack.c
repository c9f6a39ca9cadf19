/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_panel_unpack.c -- unpacks panels of eight rows (mm_panel.h). Transposing 8 rows x 16 bytes costs
 * 16 vector instructions. */
#include "cpu/avx2/mm_panel.h"

#include "cpu/avx2/gemv_lanes.h"

#define FN(name) qn__avx2_##name
typedef qn_words32 wide32;
typedef qn_words256 wide256;

static inline words w_rows(const uint8_t *const *row, size_t at) { return two_halves(row[0] + at, row[4] + at); }

static inline words halves(int x) { return _mm256_set1_epi16((short)x); }
static inline words both_halves(words x)
{
    return w_odd_halves(x, w_shl_32(x, 16));
} /* the low 16 bits of each lane, twice */

/* Sums of the two elements in each 16-bit lane over the n vectors of a sub-block, and sums of all four. Weights in
 * panels of bytes are so small that n of them fit a byte: 8 in [-16, 15], 4 in [-32, 31]. */
static inline words half_sums(const words *w, int n)
{
    words s = w[0];
    for (int i = 1; i < n; i++) s = w_add_8(s, w[i]);
    return _mm256_maddubs_epi16(w_bytes(1), s);
}
static inline words half_sums_wide(const words *w, int n)
{
    words s = w_zero();
    for (int i = 0; i < n; i++) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(w_bytes(1), w[i]));
    return s;
}
static inline words whole_sums(words half_sums) { return _mm256_madd_epi16(half_sums, halves(1)); }

static inline void finish_32(qn_panel32 *p, int off, bool plain)
{
    for (int i = 0; i < (off ? 8 : 0); i++) p->w[i] = w_sub_8(p->w[i], w_bytes(off));
    const words half = half_sums(p->w, 8);
    if (plain) {
        p->start = half;
        return;
    }
    p->start = _mm256_mullo_epi16(half, halves(-127));
    p->pair = w_odd_halves(w_sub_32(w_zero(), whole_sums(half)), halves(off));
}

/* Bytes to words: elements 4i and 4i+1 of each row are lane r of to[2i], the next two of to[2i+1]. */
static inline void widen(const words *w, int n, words *to)
{
    for (int i = 0; i < n; i++) {
        const words even = w_sra_16(w_shl_16(w[i], 8), 8), odd = w_sra_16(w[i], 8);
        to[2 * i] = w_odd_halves(even, w_shl_32(odd, 16));
        to[2 * i + 1] = w_odd_halves(w_shr_32(even, 16), odd);
    }
}
static inline void finish_wide_32(wide32 *p, const words *w) { widen(w, 8, p->w); }
static inline words sub_wide_256(wide256 *p, int j, const words *w, words scale)
{
    const words s = both_halves(scale);
    widen(w, 8, p->w + j * 16);
    for (int i = j * 16; i < j * 16 + 16; i++) p->w[i] = _mm256_mullo_epi16(p->w[i], s);
    return whole_sums(half_sums_wide(w, 8));
}

static inline words sub_256(qn_panel256 *p, int j, const int n, const int off, words scale)
{
    words *w = p->w + j * (64 / n);
    for (int i = 0; i < (off ? 64 / n : 0); i++) w[i] = w_sub_8(w[i], w_bytes(off));
    const words half = half_sums(w, 64 / n);
    p->start[j] = _mm256_mullo_epi16(half, halves(-127));
    p->scale[j] = both_halves(scale);
    if (off && j % 2) p->pair[j / 2] = w_shl_16(w_odd_halves(p->scale[j - 1], p->scale[j]), 1);
    return w_add_32(whole_sums(half), w_set(256 / n * off));
}

static inline void wide_chained(wide256 *p) { (void)p; }
static inline void chained(qn_panel256 *p, int n, int chain) { (void)p, (void)n, (void)chain; }

static inline void finish_exact(qn_panel256 *p, const words *scale, int sign)
{
    (void)sign;
    words z = w_zero();
    for (int j = 0; j < 16; j++) {
        const words s = both_halves(scale[j]);
        p->scale[j] = s;
        z = w_add_32(z, _mm256_madd_epi16(half_sums(p->w + j * 4, 4), s));
    }
    p->start[0] = w_mul_32(z, w_set(-127));
    p->z = r_from(z);
}

#include "cpu/kernel/panel_unpack.h"
