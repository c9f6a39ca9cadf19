/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_panel_unpack.c -- unpacks panels of sixteen rows (mm_panel.h). Transposing 16 rows x 16 bytes
 * costs 20 vector instructions. Weights of all formats stay bytes, with the format's own values. */
#include "cpu/avx512/mm_panel.h"

#include "cpu/avx512/gemv_lanes.h"

#define FN(name) qn__avx512_##name
typedef qn_panel32 wide32;
typedef qn_panel256 wide256;

static inline words w_rows(const uint8_t *const *row, size_t at)
{
    const words a = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(row[0] + at)));
    const words b = _mm512_inserti32x4(a, _mm_loadu_si128((const void *)(row[4] + at)), 1);
    const words c = _mm512_inserti32x4(b, _mm_loadu_si128((const void *)(row[8] + at)), 2);
    return _mm512_inserti32x4(c, _mm_loadu_si128((const void *)(row[12] + at)), 3);
}

static inline words sum_w(const words *w, int n)
{
    words s = w_zero();
    for (int i = 0; i < n; i++) s = w_dot_8(s, w_bytes(1), w[i]);
    return s;
}

static inline void finish_32(qn_panel32 *p, int off, bool plain)
{
    (void)off, (void)plain;
    p->sum_w = w_and(sum_w(p->w, 8), w_set(0xffff));
}
static inline void finish_wide_32(wide32 *p, const words *w)
{
    for (int i = 0; i < 8; i++) p->w[i] = w[i];
    finish_32(p, 0, false);
}

static inline words sub_256(qn_panel256 *p, int j, const int n, const int off, words scale)
{
    (void)off;
    const words sum = sum_w(p->w + j * (64 / n), 64 / n);
    p->start[j] = w_sub_32(w_zero(), w_shl_32(sum, 7));
    p->scale[j] = r_from(scale);
    return sum;
}
static inline words sub_wide_256(wide256 *p, int j, const words *w, words scale)
{
    for (int i = 0; i < 8; i++) p->w[j * 8 + i] = w[i];
    return sub_256(p, j, 8, 0, scale);
}

static inline void chained(qn_panel256 *p, int n, int chain)
{
    for (int j = 0; j < n && chain <= 2; j += chain) {
        p->start[j] = w_add_32(p->start[j], _mm512_castps_si512(r_set(QN_PANEL_FLOATS)));
        p->more[j / chain] = r_mul(p->scale[j], r_set(-QN_PANEL_FLOATS));
    }
}

static inline void wide_chained(wide256 *p) { chained(p, 8, 1); }

/* Multiplies w with the integer scales of sixteen sub-blocks; sign: of what w holds then (mm_panel.h). */
static inline void finish_exact(qn_panel256 *p, const words *scale, const int sign)
{
    const words low = w_set(0x00ff00ff);
    for (int j = 0; j < 16; j++) {
        const words one = w_and(sign < 0 ? w_sub_32(w_zero(), scale[j]) : scale[j], w_set(0xffff));
        const words s = w_or(one, w_shl_32(one, 16));
        for (int i = 4 * j; i < 4 * j + 4; i++) {
            const words even = _mm512_mullo_epi16(p->w[i], s),
                        odd = _mm512_mullo_epi16(_mm512_andnot_si512(low, p->w[i]), s);
            p->w[i] = w_select(low, even, odd);
        }
    }
    const words sum = sum_w(p->w, 64);
    p->start[0] = w_sub_32(w_zero(), w_shl_32(sum, 7));
    p->z = r_from(sign < 0 ? w_sub_32(w_zero(), sum) : sum);
}

#include "cpu/kernel/panel_unpack.h"
