/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/attention_pack.h -- rows of K and V to integers; part of kernel/attention_int.h. A level may define
 *     INT_KEEP                 where loading sixteen floats is cheaper than converting bytes or bfloat16
 *     INT_HALVES               and h_highest(p, n): the highest of n halves without their signs
 *     INT_HIGHEST_PAIRS        32 halves at a time, and
 *       h_highest_pairs(p, n)  sixteen numbers, the highest of which is the highest of n halves without their signs
 *     INT_FP16                 arithmetic in binary16, 32 at a time, for finite rows of a multiple of 32, and
 *       h_to_i16(y, p, power)  y = rint(p 2^power), whose magnitude is below 2^15; power: binary16
 *       h_to_pairs(y, p, power, p1, power1)    the same of two rows, pair by pair; p1 may be NULL for zeros
 *     INT_LOWS                 and i_lows_2(p, x, y): stores the low halves of 32 numbers
 *     INT_Q8                   rows of Q8_0 from their blocks' integers, and
 *       i_squares(p)           sixteen numbers whose sum is that of the squares of 32 int8; not with INT_KEEP
 *       q8_has_127(p, met)     is 127 a magnitude of 32 int8? met, q8_bytes that start at q8_none(), collects them
 *       q8_met_128(met)        was 128 among any?
 *     PACK_F16_ONLY            where the other formats are those of the level below */

#ifndef INT_SIXTEEN
INLINE lanes l_sums(const lanes *x)
{
    float sum[16];
    for (int i = 0; i < 16; i++) sum[i] = l_sum(x[i]);
    return l_load(sum);
}
INLINE ints i_highests(const ints *x)
{
    int32_t highest[16];
    for (int i = 0; i < 16; i++) highest[i] = i_highest(x[i]);
    return i_load(highest);
}
#endif

/* Loads sixteen elements of a row, from element i on, a multiple of 16. */
typedef lanes in_row(const uint8_t *row, int64_t i);
INLINE lanes in_f32(const uint8_t *row, int64_t i) { return l_load((const float *)(const void *)row + i); }
INLINE lanes in_f16(const uint8_t *row, int64_t i) { return l_from_f16((const uint16_t *)(const void *)row + i); }
INLINE lanes in_bf16(const uint8_t *row, int64_t i) { return l_from_bf16((const uint16_t *)(const void *)row + i); }
INLINE lanes in_q8_0(const uint8_t *row, int64_t i)
{
    const qn_block_Q8_0 *b = (const qn_block_Q8_0 *)(const void *)row + i / 32;
    return l_mul(l_set(l_one_f16(b->d)), l_from_i8(b->qs + i % 32));
}

/* The biased exponents of non-negative numbers. */
INLINE lanes exponents(ints bits) { return l_mul(l_of_int(i_and(bits, 0x7f800000)), l_set(0x1p-23f)); }

/* A row is read twice: for its length or highest element, and to convert it. With INT_KEEP the floats of the first
 * pass are kept, [16, n], n at most 256. Not those of halves: one instruction converts them, as fast as a load. */
#ifdef INT_KEEP
enum { KEPT = 16 * 256 };
INLINE lanes in_first(in_row *in, float *kept, int64_t at, const uint8_t *row, int64_t i)
{
    const lanes x = in(row, i);
    if (in != in_f32 && in != in_f16) l_store(kept + at + i, x);
    return x;
}
INLINE lanes in_again(in_row *in, const float *kept, int64_t at, const uint8_t *row, int64_t i)
{
    return in == in_f32 || in == in_f16 ? in(row, i) : l_load(kept + at + i);
}
#else
enum { KEPT = 1 };
INLINE lanes in_first(in_row *in, float *kept, int64_t at, const uint8_t *row, int64_t i)
{
    return (void)kept, (void)at, in(row, i);
}
INLINE lanes in_again(in_row *in, const float *kept, int64_t at, const uint8_t *row, int64_t i)
{
    return (void)kept, (void)at, in(row, i);
}
#endif

#if defined INT_Q8 && !defined PACK_F16_ONLY
#define Q8_HERE
/* The scale of a row is a power of two. Here it comes from the blocks' scales and integers, without converting
 * elements to floats. Where that can't be exact the functions return false, and the general way finds it. by: [n /
 * 32, 16], the scales of the rows' blocks. */
enum { Q8_BLOCK = 32, Q8_MOST = 256 / Q8_BLOCK };
INLINE const int8_t *q8_quants(const uint8_t *row, int64_t block)
{
    return ((const qn_block_Q8_0 *)(const void *)row + block)->qs;
}

INLINE lanes q8_scales(const uint8_t *const *row, int64_t block)
{
    uint16_t d[16];
    for (int c = 0; c < 16; c++) memcpy(&d[c], row[c] + block * (int64_t)sizeof(qn_block_Q8_0), 2);
    return l_from_f16(d);
}

#ifndef INT_KEEP
/* The sums of squares except for their last bits. Neither these nor the chains of pack_k_some are off by more than
 * 20 roundings of 2^-24, so their exponents agree where no sum is within 64 steps of the next power of two. */
INLINE bool q8_squares(lanes *square, float by[Q8_MOST][16], const uint8_t *const *row, const int64_t n)
{
    lanes sum[16];
    float squared[Q8_MOST][16];
    for (int64_t b = 0; b < n / Q8_BLOCK; b++) {
        const lanes d = q8_scales(row, b);
        l_store(by[b], d);
        l_store(squared[b], l_mul(d, d));
    }
    for (int c = 0; c < 16; c++) {
        sum[c] = l_set(0);
        for (int64_t b = 0; b < n / Q8_BLOCK; b++)
            sum[c] = l_fma(l_of_int(i_squares(q8_quants(row[c], b))), l_set(squared[b][c]), sum[c]);
    }
    *square = l_sums(sum);
    return l_all_finite(*square) && l_lowest(l_of_int(i_and(i_add(i_bits(*square), i_set(64)), 0x7fffff))) >= 128;
}

#endif

/* The highest magnitudes, where the highest integer of every block is 127, as quantizing makes it. */
INLINE bool q8_highest(ints *highest, float by[Q8_MOST][16], const uint8_t *const *row, const int64_t n)
{
    lanes most = l_set(0), all = most;
    q8_bytes met = q8_none();
    bool usual = true;
    for (int64_t b = 0; b < n / Q8_BLOCK; b++) {
        const lanes d = q8_scales(row, b), size = l_max(d, l_sub(l_set(0), d));
        l_store(by[b], d);
        most = l_max(most, size);
        all = l_add(all, size);
        for (int c = 0; c < 16; c++) usual &= q8_has_127(q8_quants(row[c], b), &met);
    }
    *highest = i_bits(l_mul(most, l_set(127)));
    return usual && !q8_met_128(met) && l_all_finite(all);
}

INLINE void q8_times(float by[Q8_MOST][16], lanes power, const int64_t n)
{
    for (int64_t b = 0; b < n / Q8_BLOCK; b++) l_store(by[b], l_mul(l_load(by[b]), power));
}
#endif

/* attn_pack_k for up to sixteen rows: sums over lanes, and what depends on them, are computed for all rows at once. */
INLINE void pack_k_some(in_row *in, int16_t *y, float *scale, const uint8_t *const *row, int rows, const int64_t n)
{
    lanes sum[16], square;
    float up[16], kept[KEPT];
#if defined Q8_HERE && !defined INT_KEEP /* with INT_KEEP the general way is as fast */
    float by[Q8_MOST][16];
    const bool q8 = in == in_q8_0 && q8_squares(&square, by, row, n);
#else
    const bool q8 = false;
#endif
    if (!q8) {
        for (int c = 0; c < 16; c++) {
            lanes s = l_set(0);
            for (int64_t i = 0; i < n; i += 16) {
                const lanes x = in_first(in, kept, c * n, row[c], i);
                s = l_fma(x, x, s);
            }
            sum[c] = s;
        }
        square = l_sums(sum);
    }
    const lanes sane = l_set(0x1p126f), magic = l_set(QN_EXP_MAGIC);
    /* 2^power, power = floor((29 - exponent) / 2), in the low bits of t */
    const lanes half = l_fma(l_sub(l_set(29 + 127), exponents(i_bits(square))), l_set(0.5f), l_set(-0.25f));
    const lanes t = l_if_less(square, sane, l_add(half, magic), magic), power = l_sub(t, magic);
    l_store(up, l_scale_by(l_set(1), t));
    l_store_n(scale, rows, l_if_less(square, sane, l_scale_by(l_set(1), l_sub(magic, power)), l_set(NAN)));
#ifdef INT_FP16
    if (in == in_f16 && n % 32 == 0 && l_all_finite(square)) {
        uint16_t by[16];
        l_to_f16(by, power);
        for (int c = 0; c < rows; c++, y += n)
            for (int64_t i = 0; i < n; i += 32) h_to_i16(y + i, row[c] + 2 * i, by[c]);
        return;
    }
#endif
#if defined Q8_HERE && !defined INT_KEEP
    if (q8) {
        q8_times(by, l_load(up), n);
        for (int c = 0; c < rows; c++)
            for (int64_t b = 0; b < n / Q8_BLOCK; b++, y += Q8_BLOCK) {
                const int8_t *q = q8_quants(row[c], b);
                const lanes factor = l_set(by[b][c]);
                i_to_i16_2(y, i_round(l_mul(l_from_i8(q), factor)), i_round(l_mul(l_from_i8(q + 16), factor)));
            }
        return;
    }
#endif
#ifdef INT_LOWS
    /* A half has 11 bits, so one below 2^15 is at most 32752: nothing is saturated, and a sum can round. */
    if (in == in_f16 && n % 32 == 0 && l_all_finite(square)) {
        for (int c = 0; c < rows; c++, y += n) {
            const lanes factor = l_set(up[c]), magic_sum = l_set(0x1.8p23f);
#define INTEGERS(i) i_bits(l_fma(in(row[c], i), factor, magic_sum))
            for (int64_t i = 0; i < n; i += 32) i_lows_2(y + i, INTEGERS(i), INTEGERS(i + 16));
#undef INTEGERS
        }
        return;
    }
#endif
    for (int c = 0; c < rows; c++, y += n) {
        const lanes factor = l_set(up[c]);
        int64_t i = 0;
#define INTEGERS(i) i_round(l_mul(in_again(in, kept, c *n, row[c], i), factor))
        for (; i + 32 <= n; i += 32) i_to_i16_2(y + i, INTEGERS(i), INTEGERS(i + 16));
        if (i < n) i_to_i16(y + i, INTEGERS(i));
#undef INTEGERS
    }
}

/* The bits of the highest magnitude of each of sixteen rows. */
INLINE ints highest_of_rows(in_row *in, float *kept, const uint8_t *const *row, const int64_t n)
{
    ints highest[16];
#ifdef INT_HIGHEST_PAIRS
    if (in == in_f16 && n % 32 == 0) {
        uint16_t half[16];
        for (int c = 0; c < 16; c++) highest[c] = h_highest_pairs(row[c], n);
        i_low((int16_t *)half, i_highests(highest));
        return i_magnitude(in((const uint8_t *)half, 0));
    }
#endif
#ifdef INT_HALVES
    if (in == in_f16 || in == in_bf16) { /* halves compare as their bits do */
        uint16_t half[16];
        for (int c = 0; c < 16; c++) half[c] = h_highest((const uint16_t *)(const void *)row[c], n);
        return i_magnitude(in((const uint8_t *)half, 0));
    }
#endif
    for (int c = 0; c < 16; c++) {
        ints h = i_zero();
        for (int64_t i = 0; i < n; i += 16) h = i_max(h, i_magnitude(in_first(in, kept, c * n, row[c], i)));
        highest[c] = h;
    }
    return i_highests(highest);
}

INLINE void pack_v_some(in_row *in, int16_t *y, float *log_scale, float *weight, const uint8_t *const *row, int rows,
                        const int64_t n)
{
    float up[16], kept[KEPT];
    ints highest;
#ifdef Q8_HERE
    float by[Q8_MOST][16];
    const bool q8 = in == in_q8_0 && q8_highest(&highest, by, row, n);
#else
    const bool q8 = false;
#endif
    if (!q8) highest = highest_of_rows(in, kept, row, n);
    /* 2^15 - 1/2 would round beyond int16: it counts as 2^15 */
    const lanes exponent = exponents(i_add(i_within(highest, 0, 0x7f800000), i_set(0x100))), too_high = l_set(64 + 127);
    const lanes power = l_if_less(exponent, too_high, l_min(l_sub(l_set(14 + 127), exponent), l_set(40)), l_set(0));
    const lanes ups = l_scale_by(l_set(1), l_add(power, l_set(QN_EXP_MAGIC)));
    l_store(up, ups);
    l_store_n(weight, rows, l_if_less(exponent, too_high, ups, l_set(NAN)));
    l_store_n(log_scale, rows,
              l_if_less(exponent, too_high, l_mul(l_sub(l_set(0), power), l_set(QN_ATTN_LN2)), l_set(NAN)));
#ifdef INT_FP16
    if (in == in_f16 && n % 32 == 0 && i_highest(highest) < 0x7f800000) {
        uint16_t by[17];
        l_to_f16(by, power);
        for (int c = 0; c < rows; c += 2, y += 2 * n)
            for (int64_t i = 0; i < n; i += 32)
                h_to_pairs(y + 2 * i, row[c] + 2 * i, by[c], c + 1 < rows ? row[c + 1] + 2 * i : NULL, by[c + 1]);
        return;
    }
#endif
#ifdef Q8_HERE
    if (q8) {
        q8_times(by, ups, n);
        for (int c = 0; c < rows; c += 2)
            for (int64_t i = 0; i < n; i += 16, y += 32) {
                const int64_t b = i / Q8_BLOCK, at = i % Q8_BLOCK;
#define INTEGERS(c) i_bits(l_fma(l_from_i8(q8_quants(row[c], b) + at), l_set(by[b][c]), l_set(0x1.8p23f)))
                i_store(y, i_pairs(INTEGERS(c), c + 1 < rows ? INTEGERS(c + 1) : i_zero()));
#undef INTEGERS
            }
        return;
    }
#endif
    for (int c = 0; c < rows; c += 2, y += 2 * n) {
        const bool two = c + 1 < rows;
        const lanes up0 = l_set(up[c]), up1 = l_set(two ? up[c + 1] : 0);
#ifdef INT_HALVES /* halves were not kept; a product with a power of two is exact, so that the sum may round it */
#define AGAIN(c, i)            (in == in_f16 || in == in_bf16 ? in(row[c], i) : in_again(in, kept, (c)*n, row[c], i))
#define INTEGERS(c, factor, i) i_bits(l_fma(AGAIN(c, i), factor, l_set(0x1.8p23f)))
#elif defined INT_LOWS
#define INTEGERS(c, factor, i) i_bits(l_fma(in_again(in, kept, (c)*n, row[c], i), factor, l_set(0x1.8p23f)))
#else
#define INTEGERS(c, factor, i) i_round(l_mul(in_again(in, kept, (c)*n, row[c], i), factor))
#endif
        for (int64_t i = 0; i < n; i += 16)
            i_store(y + 2 * i, i_pairs(INTEGERS(c, up0, i), two ? INTEGERS(c + 1, up1, i) : i_zero()));
#undef INTEGERS
#undef AGAIN
    }
}

/* The rows of sixteen cells; the last one is repeated where there are fewer. */
INLINE int rows_of(const uint8_t **row, const void *base, int64_t bytes, const int32_t *cell, int64_t c,
                   int64_t n_cells)
{
    const int rows = n_cells - c < 16 ? (int)(n_cells - c) : 16;
    for (int i = 0; i < 16; i++) {
        const int64_t at = c + (i < rows ? i : rows - 1);
        row[i] = (const uint8_t *)base + (cell ? cell[at] : at) * bytes;
    }
    return rows;
}
/* The usual head sizes are constants, so that loops over a row are unrolled. */
#define PACK_K(in, base, bytes, cell) \
    for (int64_t c = 0; c < n_cells; c += 16) { \
        const uint8_t *row[16]; \
        const int rows = rows_of(row, base, bytes, cell, c, n_cells); \
        if (n == 64) \
            pack_k_some(in, y + c * n, scale + c, row, rows, 64); \
        else if (n == 256) \
            pack_k_some(in, y + c * n, scale + c, row, rows, 256); \
        else if (n == 128) \
            pack_k_some(in, y + c * n, scale + c, row, rows, 128); \
        else \
            pack_k_some(in, y + c * n, scale + c, row, rows, n); \
    }
#define PACK_V(in, base, bytes, cell) \
    for (int64_t c = 0; c < n_cells; c += 16) { \
        const uint8_t *row[16]; \
        const int rows = rows_of(row, base, bytes, cell, c, n_cells); \
        if (n == 64) \
            pack_v_some(in, y + c * n, log_scale + c, weight + c, row, rows, 64); \
        else if (n == 256) \
            pack_v_some(in, y + c * n, log_scale + c, weight + c, row, rows, 256); \
        else if (n == 128) \
            pack_v_some(in, y + c * n, log_scale + c, weight + c, row, rows, 128); \
        else \
            pack_v_some(in, y + c * n, log_scale + c, weight + c, row, rows, n); \
    }
#define PACK_CELLS(format) \
    void FN(attn_pack_k_##format)(int16_t * y, float *scale, const void *base, int64_t cell_bytes, \
                                  const int32_t *cell, int64_t n_cells, int64_t n) \
    { \
        PACK_K(in_##format, base, cell_bytes, cell) \
    } \
    void FN(attn_pack_v_##format)(int16_t * y, float *log_scale, float *weight, const void *base, int64_t cell_bytes, \
                                  const int32_t *cell, int64_t n_cells, int64_t n) \
    { \
        PACK_V(in_##format, base, cell_bytes, cell) \
    }
PACK_CELLS(f16)
#ifndef PACK_F16_ONLY
PACK_CELLS(bf16)
PACK_CELLS(q8_0)
#undef PACK_CELLS

void FN(attn_pack_k)(int16_t *y, float *scale, const float *x, int64_t n_cells, int64_t n)
{
    PACK_K(in_f32, x, 4 * n, (const int32_t *)NULL)
}

void FN(attn_pack_v)(int16_t *y, float *log_scale, float *weight, const float *x, int64_t n_cells, int64_t n)
{
    PACK_V(in_f32, x, 4 * n, (const int32_t *)NULL)
}
#endif
