/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv_256.h -- gemv for super-blocks of 256: Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS. A format converts its
 * weights to unsigned bytes w + off, a sub-block at a time. The offsets are corrected in the start values of the
 * sums of products, and subtracted from Z at the end. */
/* T and Z of a super-block so far (act.h), and pairs of sub-blocks that are still to be added to T. */
typedef struct sums {
    words t[GEMV_COLS_MAX], z;
    reals chain[GEMV_COLS_MAX];
} sums;

#define FOR_COLUMNS(c) \
    UNROLL \
    for (int c = 0; c < nc; c++)

INLINE void clear(const int nc, reals *v)
{
    FOR_COLUMNS(c) v[c] = r_zero();
}

INLINE void clear_sums(const int nc, sums *a)
{
    FOR_COLUMNS(c) a->t[c] = w_zero();
    a->z = w_zero();
}

/* Byte j of each lane, in all four bytes. */
INLINE words four_times(words x, int j)
{
    const __m128i firsts = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    return w_shuffle(x, w_fours(_mm_add_epi8(firsts, _mm_set1_epi8((char)j))));
}

/* Adds one sub-block: s[c] = sum w q; Z gets the sum of u, 4 n elements; scale: in all four bytes of a lane. */
INLINE void add_sub(const int nc, sums *a, const words *s, const words *u, int n, int max, words scale)
{
    FOR_COLUMNS(c) a->t[c] = w_add_32(a->t[c], w_mul_32(s[c], w_sra_32(scale, 24)));
    a->z = sum_scaled(a->z, u, n, max, scale);
}

/* The same for sub-block j of a format where the sum of two sub-blocks is below 2^24. With several columns, pairs
 * are added as floats, which is exact: five instructions instead of six (AVX-512, 8 columns: Q5_K 8 % faster, Q6_K
 * 13 %). The sums of even sub-blocks start at FLOATS, so that their bits are those of a float: 0x1.8p23 + sum. */
enum { FLOATS = 0x4b400000 }; /* the bits of 0x1.8p23f */
#define IN_PAIRS (GEMV_PAIRS && nc > 1)

INLINE words start_of(const int nc, int j) { return w_set(IN_PAIRS && j % 2 == 0 ? FLOATS : 0); }

INLINE void add_of_pair(const int nc, sums *a, int j, const words *s, const words *u, int n, int max, words scale)
{
    if (!IN_PAIRS) {
        add_sub(nc, a, s, u, n, max, scale);
        return;
    }
    const reals number = r_from(w_sra_32(scale, 24)), more = r_mul(number, r_set(-0x1.8p23f));
    FOR_COLUMNS(c) {
        a->chain[c] = j % 2 == 0 ? r_fma(r_bits(s[c]), number, more) : r_fma(r_from(s[c]), number, a->chain[c]);
        if (j % 2) a->t[c] = w_add_32(a->t[c], r_to_words(a->chain[c]));
    }
    a->z = sum_scaled(a->z, u, n, max, scale);
}

/* acc + d S (act.h) */
INLINE reals add_super(reals acc, reals t, words z, const qn_act256 *x, reals d)
{
    const reals s = r_fma(r_set((float)-x->zero), r_from(z), t);
    return r_fma(s, r_mul(d, r_set(x->d)), acc);
}

INLINE void add_supers(const int nc, reals *acc, const sums *a, const qn_act256 *x, reals d)
{
    FOR_COLUMNS(c) acc[c] = add_super(acc[c], r_from(a->t[c]), a->z, &x[c], d);
}

INLINE reals add_mins(reals acc, words m, const qn_act256 *x, reals dmin)
{
    return r_fnma(r_from(m), r_mul(dmin, r_set(x->d)), acc);
}

/* start[i] = -off * sum of q over 16 elements: where sums of (w + off) q start. floats: those of even i start at
 * FLOATS. */
INLINE void starts_of_16(const qn_act256 *x, int off, bool floats, int32_t start[16])
{
    const __m256i more = _mm256_set1_epi64x(floats ? FLOATS : 0);
    UNROLL
    for (int i = 0; i < 16; i += 8) {
        const __m256i sum = _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(x->sum + i)));
        const __m256i q = _mm256_add_epi32(sum, _mm256_set1_epi32(16 * x->zero));
        _mm256_store_si256((__m256i *)(void *)(start + i),
                           _mm256_add_epi32(_mm256_mullo_epi32(q, _mm256_set1_epi32(-off)), more));
    }
    STAYS(*(int32_t(*)[16])start);
}

INLINE __m256i sums_of_32(const qn_act256 *x)
{
    return _mm256_madd_epi16(_mm256_loadu_si256((const void *)x->sum), _mm256_set1_epi16(1));
}

INLINE void starts_of_32(const qn_act256 *x, int off, int32_t start[8])
{
    const __m256i q = _mm256_add_epi32(sums_of_32(x), _mm256_set1_epi32(32 * x->zero));
    _mm256_store_si256((__m256i *)(void *)start, _mm256_mullo_epi32(q, _mm256_set1_epi32(-off)));
    STAYS(*(int32_t(*)[8])start);
}

/* m + sum over the four minima in each lane of min * sum; `sum` is in the order 0 2 1 3 */
INLINE words dot_mins(words m, words mins, const int16_t sum[4])
{
    const words even = w_set(0x00ff00ff);
    m = w_dot_16(m, w_and(mins, even), all_4(sum));
    return w_dot_16(m, w_and(w_shr_32(mins, 8), even), all_4(sum + 2));
}

#define ORDER_0213 0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15

/* Fields that can't be read as part of 16 bytes go through memory; latency is hidden. */
INLINE words load_dwords(const uint8_t *w, size_t step)
{
    uint32_t v[ROWS] __attribute__((aligned(64)));
    copy_uint32_t(w, step, v);
    return w_load(v);
}

INLINE reals load_f16(const uint8_t *w, size_t step)
{
    uint16_t v[ROWS] __attribute__((aligned(32)));
    copy_uint16_t(w, step, v);
    return r_from_f16(v);
}

#ifndef OWN_LOAD_32
INLINE void load_32(const uint8_t *w, size_t step, words out[8])
{
    load_quants(w, step, out);
    load_quants(w + 16, step, out + 4);
}
/* Loads the i-th 16 bytes just before they are used: there are too few registers for all. */
INLINE void load_nth_16(const uint8_t *w, size_t step, int i, words *out)
{
    load_quants(w + 16 * i, step, out + 4 * i);
}
#else
INLINE void load_nth_16(const uint8_t *w, size_t step, int i, words *out)
{
    if (i % 2 == 0) load_32(w + 16 * i, step, out + 4 * i);
}
#endif

/* Moves bits from position `from` of each byte to position `to`. The other bits must be masked off. */
INLINE words move_bits(words x, int from, int to)
{
    return from < to ? w_shl_16(x, to - from) : from > to ? w_shr_16(x, from - to) : x;
}

/* ---- Q4_K, Q5_K ------------------------------------------------------------------------------ */

typedef struct k4_head {
    reals d, dmin;
    words scale[2], min[2]; /* of sub-blocks 0 to 3 and 4 to 7 */
} k4_head;

INLINE k4_head k4_load(const uint8_t *w, size_t step)
{
    const words six = w_bytes(63), upper = w_bytes(48);
    words v[4]; /* d and dmin, the twelve bytes of scales */
    load_16(w, step, v);
    return (k4_head){
        .d = r_low_f16(v[0]),
        .dmin = r_low_f16(w_shr_32(v[0], 16)),
        .scale = {w_and(v[1], six), w_or(low_nibbles(v[3]), w_and(w_shr_16(v[1], 2), upper))},
        .min = {w_and(v[2], six), w_or(high_nibbles(v[3]), w_and(w_shr_16(v[2], 2), upper))},
    };
}

INLINE words k4_mins(const k4_head *h, const qn_act256 *x)
{
    int16_t sum[8] __attribute__((aligned(16)));
    const __m256i s = sums_of_32(x);
    const __m128i v = _mm_packs_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    _mm_store_si128((__m128i *)(void *)sum, _mm_shuffle_epi8(v, _mm_setr_epi8(ORDER_0213)));
    STAYS(sum);
    return dot_mins(dot_mins(w_zero(), h->min[0], sum), h->min[1], sum + 4);
}

INLINE void k4_dots(const int nc, words *s, words start, int j, const words u[8], int max, const qn_act256 *x)
{
    FOR_COLUMNS(c) s[c] = start;
    dots_n(nc, s, u, x->q + 32 * j, sizeof *x, 8, max);
}

INLINE void k4_end(const int nc, reals *acc, const reals *t, words z, const k4_head *h, const qn_act256 *x)
{
    FOR_COLUMNS(c) {
        acc[c] = add_super(acc[c], t[c], z, &x[c], h->d);
        acc[c] = add_mins(acc[c], k4_mins(h, &x[c]), &x[c], h->dmin);
    }
}

/* Half of a super-block stays below 2^24 (4 * 63 * 32 * 15 * 127): adding in floats is exact and cheaper than in
 * integers. The sum of both halves is rounded once, as act.h demands. */
INLINE void q4_sub(const int nc, reals *t, words *z, const k4_head *h, int j, const words u[8], const qn_act256 *x)
{
    const words scale = four_times(h->scale[j / 4], j % 4);
    const reals number = r_from(w_shr_32(scale, 24));
    words s[GEMV_COLS_MAX];
    k4_dots(nc, s, w_zero(), j, u, 15, x);
    FOR_COLUMNS(c) t[c] = j % 4 == 0 ? r_mul(r_from(s[c]), number) : r_fma(r_from(s[c]), number, t[c]);
    *z = sum_scaled(*z, u, 8, 15, scale);
}

INLINE void gemv_Q4_K(const int nc, const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc)
{
    const uint8_t *ahead = w + ROWS * step;
    clear(nc, acc);
    for (; n > 0; n--, x += nc, w += sizeof(qn_block_Q4_K), ahead += ROWS * sizeof(qn_block_Q4_K)) {
        HIDE(w);
        const k4_head h = k4_load(w, step);
        reals t[2][GEMV_COLS_MAX];
        words z = w_zero();
        UNROLL
        for (int c = 0; c < 4; c++) {
            words p[8], u[8];
            PREFETCH(x, ahead, c, 4, sizeof(qn_block_Q4_K));
            load_32(w + 16 + 32 * c, step, p);
            UNROLL
            for (int i = 0; i < 8; i++) u[i] = low_nibbles(p[i]);
            q4_sub(nc, t[c / 2], &z, &h, 2 * c, u, x);
            UNROLL
            for (int i = 0; i < 8; i++) u[i] = high_nibbles(p[i]);
            q4_sub(nc, t[c / 2], &z, &h, 2 * c + 1, u, x);
        }
        FOR_COLUMNS(c) t[0][c] = r_add(t[0][c], t[1][c]);
        k4_end(nc, acc, t[0], z, &h, x);
    }
}

INLINE void gemv_Q5_K(const int nc, const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc)
{
    const uint8_t *ahead = w + ROWS * step;
    clear(nc, acc);
    for (; n > 0; n--, x += nc, w += sizeof(qn_block_Q5_K), ahead += ROWS * sizeof(qn_block_Q5_K)) {
        HIDE(w);
        const k4_head h = k4_load(w, step);
        sums a;
        clear_sums(nc, &a);
        words fifth[8], p[8], u[8], s[GEMV_COLS_MAX];
        reals t[GEMV_COLS_MAX];
        load_32(w + 16, step, fifth);
        UNROLL
        for (int j = 0; j < 8; j++) {
            if (j % 2 == 0) load_32(w + 48 + 16 * j, step, p);
            PREFETCH(x, ahead, j, 8, sizeof(qn_block_Q5_K));
            UNROLL
            for (int i = 0; i < 8; i++)
                u[i] = join_bits(move_bits(p[i], j % 2 * 4, 0), 4, move_bits(fifth[i], j, 4), 1);
            k4_dots(nc, s, start_of(nc, j), j, u, 31, x);
            add_of_pair(nc, &a, j, s, u, 8, 31, four_times(h.scale[j / 4], j % 4));
        }
        FOR_COLUMNS(c) t[c] = r_from(a.t[c]);
        k4_end(nc, acc, t, a.z, &h, x);
    }
}

/* ---- sub-blocks of 16 ------------------------------------------------------------------------ */

INLINE void gemv_Q6_K(const int nc, const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc)
{
    int32_t start[GEMV_COLS_MAX][16] __attribute__((aligned(64)));
    const uint8_t *ahead = w + ROWS * step;
    clear(nc, acc);
    for (; n > 0; n--, x += nc, w += sizeof(qn_block_Q6_K), ahead += ROWS * sizeof(qn_block_Q6_K)) {
        HIDE(w);
        const reals d = load_f16(w + 208, step);
        sums a;
        clear_sums(nc, &a);
        words scale[4], low[16], high[8], u[4], dot[GEMV_COLS_MAX], sum_scales = w_zero();
        FOR_COLUMNS(c) starts_of_16(&x[c], 32, IN_PAIRS, start[c]);
        load_16(w + 192, step, scale);
        UNROLL
        for (int i = 0; i < 4; i++) sum_scales = w_dot_8(sum_scales, w_bytes(1), scale[i]);
        UNROLL
        for (int s = 0; s < 16; s++) {
            const int at = s % 8 * 4; /* of the sub-block in its half of 128 elements, in dwords */
            PREFETCH(x, ahead, s, 16, sizeof(qn_block_Q6_K));
            if (s % 8 < 4) load_nth_16(w + s / 8 * 64, step, s % 4, low);
            if (s % 8 < 2) load_nth_16(w + 128 + s / 8 * 32, step, s % 2, high);
            UNROLL
            for (int i = 0; i < 4; i++)
                u[i] = join_bits(move_bits(low[at % 16 + i], at / 16 * 4, 0), 4,
                                 move_bits(high[at % 8 + i], at / 8 * 2, 4), 2);
            FOR_COLUMNS(c) dot[c] = all_4(&start[c][s]);
            dots_n(nc, dot, u, x->q + 16 * s, sizeof *x, 4, 63);
            add_of_pair(nc, &a, s, dot, u, 4, 63, four_times(scale[s / 4], s % 4));
        }
        a.z = w_sub_32(a.z, w_shl_32(sum_scales, 9)); /* 32 * 16 */
        add_supers(nc, acc, &a, x, d);
    }
}

/* Q2_K and Q3_K have the most sub-blocks and arithmetic per byte, and sums that fit 16 bits: four sub-blocks at a
 * time. */

/* Two sums of each row, below 2^15, as the two halves of a lane. */
INLINE words as_pairs(words low, words high) { return w_odd_halves(low, w_shl_32(high, 16)); }

/* Adds four sub-blocks. s[j][c]: sum w q; bytes[j]: four bytes whose sum is that of u = w + off; scale: the four
 * scales of each row, signed. The caller corrects for off. */
INLINE void add_four(const int nc, sums *a, words s[4][GEMV_COLS_MAX], const words bytes[4], words scale)
{
    const words even = w_sra_16(w_shl_16(scale, 8), 8), odd = w_sra_16(scale, 8);
    FOR_COLUMNS(c) {
        a->t[c] = w_dot_16(a->t[c], as_pairs(s[0][c], s[2][c]), even);
        a->t[c] = w_dot_16(a->t[c], as_pairs(s[1][c], s[3][c]), odd);
    }
    UNROLL
    for (int j = 0; j < 4; j++) a->z = w_dot_8(a->z, bytes[j], four_times(scale, j));
}

INLINE void gemv_Q3_K(const int nc, const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc)
{
    const words none = w_zero(), ones = w_bytes(1);
    int32_t start[GEMV_COLS_MAX][16] __attribute__((aligned(64)));
    const uint8_t *ahead = w + ROWS * step;
    clear(nc, acc);
    for (; n > 0; n--, x += nc, w += sizeof(qn_block_Q3_K), ahead += ROWS * sizeof(qn_block_Q3_K)) {
        HIDE(w);
        const reals d = load_f16(w + 108, step);
        sums a;
        clear_sums(nc, &a);
        words v[4], low[8], high[8], u[4], s[4][GEMV_COLS_MAX], bytes[4], sum_scales = none;
        FOR_COLUMNS(c) starts_of_16(&x[c], 4, false, start[c]);
        load_16(w + 92, step, v); /* v[1..3] are the twelve bytes of scales */
        load_32(w, step, high);
        UNROLL
        for (int i = 0; i < 16; i++) {
            const int j = i / 4; /* four scales a register: nibbles of v[1] and v[2], bit pairs of v[3] */
            if (i % 8 < 2) load_nth_16(w + 32 + i / 8 * 32, step, i % 2, low);
            UNROLL
            for (int k = 0; k < 4; k++)
                u[k] = join_bits(move_bits(low[i % 2 * 4 + k], i % 8 / 2 * 2, 0), 2,
                                 move_bits(high[i % 2 * 4 + k], i / 2, 2), 1);
            FOR_COLUMNS(c) s[i % 4][c] = all_4(&start[c][i]);
            dots_n(nc, s[i % 4], u, x->q + 16 * i, sizeof *x, 4, 7);
            bytes[i % 4] = add_bytes(u);
            PREFETCH(x, ahead, i, 16, sizeof(qn_block_Q3_K));
            if (i % 4 < 3) continue;
            const words six = join_bits(move_bits(v[1 + j % 2], j / 2 * 4, 0), 4, move_bits(v[3], 2 * j, 4), 2);
            const words scale = w_sub_8(six, w_bytes(32));
            add_four(nc, &a, s, bytes, scale);
            sum_scales = w_dot_8(sum_scales, ones, scale);
        }
        a.z = w_sub_32(a.z, w_shl_32(sum_scales, 6)); /* 4 * 16 */
        add_supers(nc, acc, &a, x, d);
    }
}

INLINE void gemv_Q2_K(const int nc, const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc)
{
    const words none = w_zero();
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(ORDER_0213));
    int16_t sum[16] __attribute__((aligned(32)));
    const uint8_t *ahead = w + ROWS * step;
    clear(nc, acc);
    for (; n > 0; n--, x += nc, w += sizeof(qn_block_Q2_K), ahead += ROWS * sizeof(qn_block_Q2_K)) {
        HIDE(w);
        const words dd = load_dwords(w + 80, step);
        sums a;
        clear_sums(nc, &a);
        words v[4], p[8], u[4], s[4][GEMV_COLS_MAX], bytes[4];
        load_16(w, step, v); /* scales in low nibbles, minima in high ones */
        UNROLL
        for (int i = 0; i < 16; i++) {
            PREFETCH(x, ahead, i, 16, sizeof(qn_block_Q2_K));
            if (i % 8 < 2) load_nth_16(w + 16 + i / 8 * 32, step, i % 2, p);
            UNROLL
            for (int k = 0; k < 4; k++) u[k] = w_and(move_bits(p[i % 2 * 4 + k], i % 8 / 2 * 2, 0), w_bytes(3));
            FOR_COLUMNS(c) s[i % 4][c] = none;
            dots_n(nc, s[i % 4], u, x->q + 16 * i, sizeof *x, 4, 3);
            bytes[i % 4] = add_bytes(u);
            if (i % 4 < 3) continue;
            add_four(nc, &a, s, bytes, low_nibbles(v[i / 4]));
        }
        add_supers(nc, acc, &a, x, r_low_f16(dd));
        const reals dmin = r_low_f16(w_shr_32(dd, 16));
        FOR_COLUMNS(c) {
            words m = none;
            const __m256i in_order = _mm256_loadu_si256((const void *)x[c].sum);
            _mm256_store_si256((__m256i *)(void *)sum, _mm256_shuffle_epi8(in_order, order));
            STAYS(sum);
            UNROLL
            for (int j = 0; j < 4; j++) m = dot_mins(m, high_nibbles(v[j]), sum + 4 * j);
            acc[c] = add_mins(acc[c], m, &x[c], dmin);
        }
    }
}

/* ---- IQ4_XS ---------------------------------------------------------------------------------- */

/* scale[e]: of sub-blocks e, e + 2, e + 4 and e + 6. */
INLINE void iq4_xs_scales(words first, words low, words scale[2])
{
    const words even = w_set(0x00ff00ff);
    const __m128i two_each = _mm_setr_epi8(2, 2, 3, 3, 6, 6, 7, 7, 10, 10, 11, 11, 14, 14, 15, 15);
    const words high = w_shuffle(first, w_fours(two_each)); /* the upper bits of four sub-blocks in each byte */
    const words upper[2] = {w_select(even, w_shl_16(high, 4), high),
                            w_select(even, w_shl_16(high, 2), w_shr_16(high, 2))};
    UNROLL
    for (int e = 0; e < 2; e++) {
        const words six = w_and(w_select(w_bytes(15), e ? w_shr_16(low, 4) : low, upper[e]), w_bytes(63));
        scale[e] = w_sub_8(six, w_bytes(32));
    }
}

INLINE void gemv_IQ4_XS(const int nc, const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc)
{
    const words table = table_16(qn__iq4_values, 128);
    int32_t start[GEMV_COLS_MAX][8] __attribute__((aligned(32)));
    const uint8_t *ahead = w + ROWS * step;
    clear(nc, acc);
    for (; n > 0; n--, x += nc, w += sizeof(qn_block_IQ4_XS), ahead += ROWS * sizeof(qn_block_IQ4_XS)) {
        HIDE(w);
        sums a;
        clear_sums(nc, &a);
        /* v[0]: d, scales_h; v[1]: scales_l */
        words v[4], scale[2], p[4], u[8], dot[GEMV_COLS_MAX], sum_scales = w_zero();
        FOR_COLUMNS(c) starts_of_32(&x[c], 128 - SHIFT(255), start[c]);
        load_16(w, step, v);
        iq4_xs_scales(v[0], v[1], scale);
        UNROLL
        for (int e = 0; e < 2; e++) sum_scales = w_dot_8(sum_scales, w_bytes(1), scale[e]);
        UNROLL
        for (int j = 0; j < 8; j++) {
            PREFETCH(x, ahead, j, 8, sizeof(qn_block_IQ4_XS));
            load_quants(w + 8 + 16 * j, step, p);
            UNROLL
            for (int i = 0; i < 4; i++) {
                u[i] = w_shuffle(table, low_nibbles(p[i]));
                u[i + 4] = w_shuffle(table, high_nibbles(p[i]));
            }
            FOR_COLUMNS(c) dot[c] = all_4(&start[c][j]);
            dots_n(nc, dot, u, x->q + 32 * j, sizeof *x, 8, 255);
            add_sub(nc, &a, dot, u, 8, 255, four_times(scale[j % 2], j / 2));
        }
        a.z = w_sub_32(a.z, w_shl_32(sum_scales, 12)); /* 128 * 32 */
        add_supers(nc, acc, &a, x, r_low_f16(v[0]));
    }
}

#ifdef OWN_SINGLE_256 /* a level's own kernels for a single column: single_NAME of the formats in SINGLES */
#include OWN_SINGLE_256
#else
#define SINGLES(FORMAT)
#define OTHERS(FORMAT) FORMAT(Q2_K) FORMAT(Q3_K) FORMAT(Q4_K) FORMAT(Q5_K) FORMAT(Q6_K) FORMAT(IQ4_XS)
#endif
#define FORMATS_256(FORMAT) SINGLES(FORMAT) OTHERS(FORMAT)

#define FORMAT(name)        QN_GEMV_WITH_SINGLE(name, 256, qn_act256, single_##name)
SINGLES(FORMAT)
#undef FORMAT
#define FORMAT(name) QN_GEMV(name, 256, qn_act256)
OTHERS(FORMAT)
#undef FORMAT

void FN(gemv_256_init)(qn_kernels *kernels)
{
#define FORMAT(name) gemv_set(kernels, QN_DTYPE_##name, mm_##name, GEMV_PANEL_FROM);
    FORMATS_256(FORMAT)
#undef FORMAT
    gemv_set(kernels, QN_DTYPE_Q2_K, mm_Q2_K, GEMV_PANEL_FROM_EXACT);
    gemv_set(kernels, QN_DTYPE_Q3_K, mm_Q3_K, GEMV_PANEL_FROM_EXACT);
}
