/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/single_256.h -- gemv for a single column in super-blocks, where the kernels of kernel/gemv_256.h
 * would need more than sixteen registers: the quants of a sub-block are unpacked, multiplied and summed one register
 * at a time, and rows are read through four pointers. */

/* Rows 0 to 3; rows 4 to 7 are four rows after each. */
typedef struct rows {
    const uint8_t *r[4];
    size_t four;
} rows;

INLINE rows rows_at(const uint8_t *w, size_t step)
{
    return (rows){{w, w + step, w + 2 * step, w + 3 * step}, 4 * step};
}

INLINE void go_on(rows *w, size_t bytes)
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        w->r[i] += bytes;
        HIDE(w->r[i]);
    }
    HIDE(w->four);
}

INLINE void quants_at(const rows *w, int at, words out[4])
{
    const words a = load_both(w->r[0] + at, w->four), b = load_both(w->r[1] + at, w->four);
    const words c = load_both(w->r[2] + at, w->four), d = load_both(w->r[3] + at, w->four);
    out[0] = _mm256_unpacklo_epi64(a, b);
    out[1] = _mm256_unpackhi_epi64(a, b);
    out[2] = _mm256_unpacklo_epi64(c, d);
    out[3] = _mm256_unpackhi_epi64(c, d);
}

/* Sums over a sub-block: of products with the column, and of weights. */
typedef struct both {
    words t[2], sum[2];
} both;

/* Adds sixteen elements; quant(i): register i of those that load_quants gives. */
#define ADD_16(a, quant, q, first) \
    UNROLL \
    for (int half_ = 0; half_ < 2; half_++) { \
        const words x_ = eight_at((q) + 8 * half_); \
        UNROLL \
        for (int j_ = 0; j_ < 2; j_++) { \
            const words u_ = quant(2 * j_ + half_), p_ = _mm256_maddubs_epi16(u_, x_); \
            (a)->t[j_] = (first) && half_ == 0 ? p_ : _mm256_add_epi16((a)->t[j_], p_); \
            (a)->sum[j_] = (first) && half_ == 0 ? u_ : w_add_8((a)->sum[j_], u_); \
            IN_ORDER((a)->t[j_]); \
            IN_ORDER((a)->sum[j_]); \
        } \
    }

/* T and Z of act.h while they are summed: two sums of each row, four rows a register. */
typedef struct parts {
    words t[2], z[2];
} parts;

/* In the layout of t[i]: bytes `at` of each row's lane as 16 bits, low byte first; 0x80 gives zero. */
INLINE words in_places(words x, int i, int at)
{
    const __m128i second = _mm_setr_epi16(0, 0, 0, 0, 0x404, 0x404, 0x404, 0x404);
    return w_shuffle(x, w_fours(_mm_add_epi16(_mm_set1_epi16((short)(at + 0x808 * i)), second)));
}

/* Adds one sub-block; its scale is in_places(scale, at). */
INLINE void add_both(parts *a, const both *b, words scale, int at)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const words by = in_places(scale, i, at);
        a->t[i] = w_add_32(a->t[i], _mm256_madd_epi16(b->t[i], by));
        IN_ORDER(a->t[i]);
        a->z[i] = w_add_32(a->z[i], _mm256_madd_epi16(_mm256_sad_epu8(b->sum[i], w_zero()), by));
        IN_ORDER(a->z[i]);
    }
}

INLINE words whole_sum(const words t[2]) { return w_add_32(dwords_of(t[0], t[1], 0), dwords_of(t[0], t[1], 1)); }

/* ---- Q4_K, Q5_K ------------------------------------------------------------------------------ */

INLINE void single_K4(const uint8_t *w, size_t step, const qn_act256 *x, int64_t n, reals *acc, size_t bytes,
                      int quants, bool five)
{
    const uint8_t *ahead = w + ROWS * step;
    rows at = rows_at(w, step);
    acc[0] = r_zero();
    for (; n > 0; n--, x++, w += bytes, go_on(&at, bytes), ahead += ROWS * bytes) {
        HIDE(w);
        const k4_head h = k4_load(w, step);
        words fifth[2][4];
        parts a = {{w_zero(), w_zero()}, {w_zero(), w_zero()}};
        if (five) UNROLL
        for (int i = 0; i < 2; i++) quants_at(&at, 16 + 16 * i, fifth[i]);
        UNROLL
        for (int c = 0; c < 4; c++) {
            both low, high;
            PREFETCH(x, ahead, c, 4, bytes);
            UNROLL
            for (int i = 0; i < 2; i++) {
                words p[4];
                quants_at(&at, quants + 32 * c + 16 * i, p);
#define LOW(k) (five ? join_bits(p[k], 4, move_bits(fifth[i][k], 2 * c, 4), 1) : low_nibbles(p[k]))
#define HIGH(k) \
    (five ? join_bits(move_bits(p[k], 4, 0), 4, move_bits(fifth[i][k], 2 * c + 1, 4), 1) : high_nibbles(p[k]))
                ADD_16(&low, LOW, x->q + 64 * c + 16 * i, i == 0)
                ADD_16(&high, HIGH, x->q + 64 * c + 32 + 16 * i, i == 0)
#undef LOW
#undef HIGH
            }
            add_both(&a, &low, h.scale[c / 2], 0x8000 + c % 2 * 2);
            add_both(&a, &high, h.scale[c / 2], 0x8000 + c % 2 * 2 + 1);
        }
        const reals t = r_from(whole_sum(a.t));
        k4_end(1, acc, &t, dwords_of(a.z[0], a.z[1], 0), &h, x);
    }
}

static void single_Q4_K(const uint8_t *w, size_t step, const void *x, int64_t n, reals *y)
{
    single_K4(w, step, x, n, y, sizeof(qn_block_Q4_K), 16, false);
}

static void single_Q5_K(const uint8_t *w, size_t step, const void *x, int64_t n, reals *y)
{
    single_K4(w, step, x, n, y, sizeof(qn_block_Q5_K), 48, true);
}

/* ---- Q6_K ------------------------------------------------------------------------------------ */

static void single_Q6_K(const uint8_t *w, size_t step, const void *columns, int64_t n, reals *acc)
{
    const qn_act256 *x = columns;
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(ORDER_0213));
    int16_t sum[16] __attribute__((aligned(32)));
    const uint8_t *ahead = w + ROWS * step;
    rows at = rows_at(w, step);
    acc[0] = r_zero();
    for (; n > 0; n--, x++, w += sizeof(qn_block_Q6_K), go_on(&at, sizeof(qn_block_Q6_K)),
                  ahead += ROWS * sizeof(qn_block_Q6_K)) {
        HIDE(w);
        const reals d = load_f16(w + 208, step);
        /* scale: of even and odd sub-blocks, 16 bits each */
        words bytes[4], scale[4][2], off = w_zero(), sum_scales = w_zero();
        parts a = {{w_zero(), w_zero()}, {w_zero(), w_zero()}};
        const __m256i sum_q =
            _mm256_add_epi16(_mm256_loadu_si256((const void *)x->sum), _mm256_set1_epi16((short)(16 * x->zero)));
        _mm256_store_si256((__m256i *)(void *)sum, _mm256_shuffle_epi8(sum_q, order));
        STAYS(sum);
        load_16(w + 192, step, bytes);
        UNROLL
        for (int i = 0; i < 4; i++) {
            scale[i][0] = w_sra_16(w_shl_16(bytes[i], 8), 8);
            scale[i][1] = w_sra_16(bytes[i], 8);
            off = w_dot_16(off, scale[i][0], all_4(sum + 4 * i));
            off = w_dot_16(off, scale[i][1], all_4(sum + 4 * i + 2));
            sum_scales = _mm256_add_epi16(sum_scales, _mm256_add_epi16(scale[i][0], scale[i][1]));
        }
        STAYS(scale);
        UNROLL
        for (int half = 0; half < 2; half++) {
            UNROLL
            for (int odd = 0; odd < 2; odd++) {
                words h[4], p[4];
                quants_at(&at, 128 + 32 * half + 16 * odd, h);
                UNROLL
                for (int k = 0; k < 2; k++) { /* sub-blocks s and s + 4 */
                    const int s = odd + 2 * k;
                    both low, high;
                    PREFETCH(x, ahead, 4 * half + 2 * odd + k, 8, sizeof(qn_block_Q6_K));
                    quants_at(&at, 64 * half + 16 * s, p);
#define LOW(i)  join_bits(p[i], 4, move_bits(h[i], 2 * k, 4), 2)
#define HIGH(i) join_bits(move_bits(p[i], 4, 0), 4, move_bits(h[i], 4 + 2 * k, 4), 2)
                    ADD_16(&low, LOW, x->q + 128 * half + 16 * s, true)
                    add_both(&a, &low, scale[2 * half][odd], k ? 0x302 : 0x100);
                    ADD_16(&high, HIGH, x->q + 128 * half + 16 * s + 64, true)
                    add_both(&a, &high, scale[2 * half + 1][odd], k ? 0x302 : 0x100);
#undef LOW
#undef HIGH
                }
            }
        }
        const words t = w_sub_32(whole_sum(a.t), w_shl_32(off, 5));
        const words z = w_sub_32(dwords_of(a.z[0], a.z[1], 0), w_shl_32(pairs_to_words(sum_scales), 9)); /* 32 * 16 */
        acc[0] = add_super(acc[0], r_from(t), z, x, d);
    }
}

/* ---- Q2_K, Q3_K ------------------------------------------------------------------------------ */

/* Everything is exact in integers, so S needs no Z: X = sum over j of scale_j (sum w (q - zero)), and two sums of
 * each row stay separate to the end. t += 256 X of sub-block j without offset; scale: the four scales of each row,
 * of sub-blocks j / 4 * 4 and up. */
INLINE void add_exact_16(words t[2], const words u[4], const int8_t *q, words minus_zero, words scale, int j)
{
    const words x[2] = {eight_at(q), eight_at(q + 8)};
    UNROLL
    for (int i = 0; i < 2; i++) {
        words s = _mm256_maddubs_epi16(w_add_8(u[2 * i], u[2 * i + 1]), minus_zero);
        s = _mm256_add_epi16(s, _mm256_maddubs_epi16(u[2 * i], x[0]));
        s = _mm256_add_epi16(s, _mm256_maddubs_epi16(u[2 * i + 1], x[1]));
        t[i] = w_add_32(t[i], _mm256_madd_epi16(s, in_places(scale, i, 0x80 + j % 4 * 0x100)));
        IN_ORDER(t[i]);
    }
}

static void single_Q2_K(const uint8_t *w, size_t step, const void *columns, int64_t n, reals *acc)
{
    const qn_act256 *x = columns;
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(ORDER_0213));
    int16_t sum[16] __attribute__((aligned(32)));
    const uint8_t *ahead = w + ROWS * step;
    rows at = rows_at(w, step);
    acc[0] = r_zero();
    for (; n > 0; n--, x++, w += sizeof(qn_block_Q2_K), go_on(&at, sizeof(qn_block_Q2_K)),
                  ahead += ROWS * sizeof(qn_block_Q2_K)) {
        HIDE(w);
        words t[2] = {w_zero(), w_zero()}, v[4], m = w_zero();
        const words dd = load_dwords(w + 80, step), minus_zero = w_bytes(-x->zero);
        load_16(w, step, v); /* scales in low nibbles, minima in high ones */
        _mm256_store_si256((__m256i *)(void *)sum,
                           _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)x->sum), order));
        STAYS(sum);
        UNROLL
        for (int j = 0; j < 4; j++) m = dot_mins(m, high_nibbles(v[j]), sum + 4 * j);
        UNROLL
        for (int j = 0; j < 4; j++) v[j] = low_nibbles(v[j]);
        UNROLL
        for (int k = 0; k < 4; k++) { /* sub-blocks s, s + 2, s + 4, s + 6 */
            const int s = k / 2 * 8 + k % 2;
            words p[4], u[4];
            PREFETCH(x, ahead, k, 4, sizeof(qn_block_Q2_K));
            quants_at(&at, 16 + 16 * k, p);
            UNROLL
            for (int j = s; j < s + 8; j += 2) {
                UNROLL
                for (int i = 0; i < 4; i++) u[i] = w_and(move_bits(p[i], j % 8 / 2 * 2, 0), w_bytes(3));
                add_exact_16(t, u, x->q + 16 * j, minus_zero, v[j / 4], j);
            }
        }
        acc[0] = r_fma(r_from(w_sra_32(whole_sum(t), 8)), r_mul(r_low_f16(dd), r_set(x->d)), acc[0]);
        acc[0] = add_mins(acc[0], m, x, r_low_f16(w_shr_32(dd, 16)));
    }
}

static void single_Q3_K(const uint8_t *w, size_t step, const void *columns, int64_t n, reals *acc)
{
    const qn_act256 *x = columns;
    const __m256i order = _mm256_broadcastsi128_si256(_mm_setr_epi8(ORDER_0213));
    int16_t sum[16] __attribute__((aligned(32)));
    const uint8_t *ahead = w + ROWS * step;
    rows at = rows_at(w, step);
    acc[0] = r_zero();
    for (; n > 0; n--, x++, w += sizeof(qn_block_Q3_K), go_on(&at, sizeof(qn_block_Q3_K)),
                  ahead += ROWS * sizeof(qn_block_Q3_K)) {
        HIDE(w);
        words t[2] = {w_zero(), w_zero()}, v[4], scale[4], high[2][4], off = w_zero();
        const reals d = load_f16(w + 108, step);
        const words minus_zero = w_bytes(-x->zero);
        /* v[1..3] are the twelve bytes of scales: nibbles of v[1], v[2], and bit pairs of v[3] */
        load_16(w + 92, step, v);
        _mm256_store_si256((__m256i *)(void *)sum,
                           _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)x->sum), order));
        STAYS(sum);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const words six = join_bits(move_bits(v[1 + j % 2], j / 2 * 4, 0), 4, move_bits(v[3], 2 * j, 4), 2);
            scale[j] = w_sub_8(six, w_bytes(32));
            off = w_dot_16(off, w_sra_16(w_shl_16(scale[j], 8), 8), all_4(sum + 4 * j));
            off = w_dot_16(off, w_sra_16(scale[j], 8), all_4(sum + 4 * j + 2));
        }
        UNROLL
        for (int i = 0; i < 2; i++) quants_at(&at, 16 * i, high[i]);
        UNROLL
        for (int k = 0; k < 4; k++) { /* sub-blocks s, s + 2, s + 4, s + 6 */
            const int s = k / 2 * 8 + k % 2;
            words p[4], u[4];
            PREFETCH(x, ahead, k, 4, sizeof(qn_block_Q3_K));
            quants_at(&at, 32 + 16 * k, p);
            UNROLL
            for (int j = s; j < s + 8; j += 2) {
                UNROLL
                for (int i = 0; i < 4; i++)
                    u[i] = join_bits(move_bits(p[i], j % 8 / 2 * 2, 0), 2, move_bits(high[k % 2][i], j / 2, 2), 1);
                add_exact_16(t, u, x->q + 16 * j, minus_zero, scale[j / 4], j);
            }
        }
        /* the sum of both would not fit 32 bits */
        UNROLL
        for (int i = 0; i < 2; i++) t[i] = w_sra_32(t[i], 8);
        acc[0] = r_fma(r_from(w_sub_32(whole_sum(t), w_shl_32(off, 2))), r_mul(d, r_set(x->d)), acc[0]);
    }
}

#define SINGLES(FORMAT) FORMAT(Q2_K) FORMAT(Q3_K) FORMAT(Q4_K) FORMAT(Q5_K) FORMAT(Q6_K)
#define OTHERS(FORMAT)  FORMAT(IQ4_XS)
