/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/single_256.h -- gemv for a single column in Q2_K and Q3_K, where instructions count, not bytes. S
 * of act.h is exact in any order (at most 2^23), so it is one integer sum: the column's zero is multiplied with the
 * sums of weights of sub-blocks. Weights stay where they are in their byte, as multiples of 4 or 16; that factor is
 * removed when sums become 16 bits wide. */

/* -zero in every byte */
INLINE words minus_zero(const qn_act256 *x) { return w_bytes((char)-x->zero); }

/* s + sum of u (q - zero) over 16 elements; `fit` values of u can be added in a byte */
INLINE words dot_16_weights(words s, const words u[4], const int8_t *q, words zero, int fit)
{
    UNROLL
    for (int i = 0; i < 4; i++) s = w_dot_8(s, u[i], all_4(q + 4 * i));
    if (fit >= 4) return w_dot_8(s, add_bytes(u), zero);
    if (fit >= 2) return w_dot_8(w_dot_8(s, w_add_8(u[0], u[1]), zero), w_add_8(u[2], u[3]), zero);
    UNROLL
    for (int i = 0; i < 4; i++) s = w_dot_8(s, u[i], zero);
    return s;
}

/* low / 2^from_low and high / 2^from_high, below 2^15, as the halves of a lane */
INLINE words pair_of(words low, int from_low, words high, int from_high)
{
    return w_odd_halves(from_low ? w_shr_32(low, from_low) : low, w_shl_32(high, 16 - from_high));
}

INLINE void single_Q2_K(const uint8_t *w, size_t step, const void *column, int64_t n, reals *y)
{
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(ORDER_0213));
    const qn_act256 *x = column;
    const uint8_t *ahead = w + ROWS * step;
    int16_t sum[16] __attribute__((aligned(32)));
    reals acc = r_zero();
    for (; n > 0; n--, x++, w += sizeof(qn_block_Q2_K), ahead += ROWS * sizeof(qn_block_Q2_K)) {
        HIDE(w);
        const words dd = load_dwords(w + 80, step), zero = minus_zero(x);
        words v[4], p[8], u[4], s[4]; /* v: scales in low nibbles, minima in high ones */
        /* t_odd is 256 times, m_even 16 times the value */
        words t = w_zero(), t_odd = w_zero(), m = w_zero(), m_even = w_zero();
        _mm256_store_si256((__m256i *)(void *)sum,
                           _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)x->sum), order));
        STAYS(sum);
        load_16(w, step, v);
        UNROLL
        for (int i = 0; i < 16; i++) {
            const int k = i % 8 / 2;
            PREFETCH(x, ahead, i, 16, sizeof(qn_block_Q2_K));
            if (i % 8 == 0) load_32(w + 16 + 4 * i, step, p);
            UNROLL
            for (int j = 0; j < 4; j++) u[j] = w_and(p[i % 2 * 4 + j], w_bytes((char)(3 << 2 * k)));
            s[i % 4] = dot_16_weights(w_zero(), u, x->q + 16 * i, zero, k < 3 ? 4 : 1);
            if (i % 4 < 3) continue;
            const words f = v[i / 4];
            t = w_dot_16(t, pair_of(s[0], 2 * k - 2, s[2], 2 * k), w_and(f, w_set(0x000f000f)));
            t_odd = w_dot_16(t_odd, pair_of(s[1], 2 * k - 2, s[3], 2 * k), w_and(f, w_set(0x0f000f00)));
            m_even = w_dot_16(m_even, w_and(f, w_set(0x00f000f0)), all_4(sum + i - 3));
            m = w_dot_16(m, w_shr_16(f, 12), all_4(sum + i - 1));
        }
        t = w_add_32(t, w_sra_32(t_odd, 8));
        m = w_add_32(m, w_sra_32(m_even, 4));
        acc = r_fma(r_from(t), r_mul(r_low_f16(dd), r_set(x->d)), acc);
        acc = add_mins(acc, m, x, r_low_f16(w_shr_32(dd, 16)));
    }
    y[0] = acc;
}

/* Moves the third bits of four sub-blocks, in the low nibble of each byte: bit 0 to bit 2, 1 to 3, 2 to 6, 3 to 7. */
INLINE words third_bits(words nibble)
{
#define AT(n) (char)(((n)&1) << 2 | ((n)&2) << 2 | ((n)&4) << 4 | ((n)&8) << 4)
    return w_shuffle(w_fours(_mm_setr_epi8(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8), AT(9), AT(10),
                                           AT(11), AT(12), AT(13), AT(14), AT(15))),
                     nibble);
#undef AT
}

INLINE void single_Q3_K(const uint8_t *w, size_t step, const void *column, int64_t n, reals *y)
{
    const __m512i at_start = _mm512_setr_epi32(2, 2, 2, 2, 6, 6, 6, 6, 2, 2, 2, 2, 6, 6, 6, 6);
    const qn_act256 *x = column;
    const uint8_t *ahead = w + ROWS * step;
    int32_t start[16] __attribute__((aligned(64))); /* -4 sum (q - zero), 16 times that where the weights are */
    reals acc = r_zero();
    for (; n > 0; n--, x++, w += sizeof(qn_block_Q3_K), ahead += ROWS * sizeof(qn_block_Q3_K)) {
        HIDE(w);
        const reals d = load_f16(w + 108, step);
        const words zero = minus_zero(x), by_16 = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)x->sum));
        /* both: the weights of two sub-blocks, the second 16 times */
        words v[4], high[8], p[8], both[2][8], u[4], s[4], t = w_zero();
        w_store(start, w_sub_32(w_zero(), w_shl_each(by_16, at_start)));
        STAYS(start);
        load_16(w + 92, step, v);                /* v[1..3] are the twelve bytes of scales */
        v[3] = w_xor(v[3], w_bytes((char)0xaa)); /* the upper bit of six is the sign of scale - 32 */
        load_32(w, step, high);
        UNROLL
        for (int i = 0; i < 16; i++) {
            const int k = i % 8 / 2;
            PREFETCH(x, ahead, i, 16, sizeof(qn_block_Q3_K));
            if (i % 8 == 0) {
                load_32(w + 32 + 4 * i, step, p);
                UNROLL
                for (int j = 0; j < 8; j++) {
                    const words third = third_bits(i == 0 ? low_nibbles(high[j]) : high_nibbles(high[j]));
                    both[0][j] = w_select(w_bytes(0x33), p[j], third);
                    both[1][j] = w_select(w_bytes(0x33), w_shr_16(p[j], 2), w_shr_16(third, 1));
                }
            }
            UNROLL
            for (int j = 0; j < 4; j++) u[j] = w_and(both[k % 2][i % 2 * 4 + j], w_bytes(k < 2 ? 0x07 : 0x70));
            s[i % 4] = dot_16_weights(all_4(start + i), u, x->q + 16 * i, zero, k < 2 ? 4 : 2);
            if (i % 4 < 3) continue;
            const words four = move_bits(v[1 + i / 4 % 2], i / 8 * 4, 2), two = move_bits(v[3], i / 4 * 2, 6);
            const words scale = w_select(w_bytes(0x3c), four, two); /* at bit 2 of each byte */
            const int times = k < 2 ? 0 : 4;
            t = w_dot_16(t, pair_of(s[0], times, s[2], times), w_sra_16(w_shl_16(scale, 8), 10));
            t = w_dot_16(t, pair_of(s[1], times, s[3], times), w_sra_16(scale, 10));
        }
        acc = r_fma(r_from(t), r_mul(d, r_set(x->d)), acc);
    }
    y[0] = acc;
}

#define SINGLES(FORMAT) FORMAT(Q2_K) FORMAT(Q3_K)
#define OTHERS(FORMAT)  FORMAT(Q4_K) FORMAT(Q5_K) FORMAT(Q6_K) FORMAT(IQ4_XS)
