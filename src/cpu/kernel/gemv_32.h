/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv_32.h -- gemv for blocks of 32: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4. A format converts a
 * block to unsigned bytes u = w + off. Then S = sum u q - zero sum u - off sum (q - zero); the last sum is in the
 * column's block.
 *
 * Scales, minima and fifth bits of all rows are collected one block ahead with scalar moves. These leave the vector
 * ports free, and the wide loads that read the values back do not wait for the narrow stores. */
/* The fields of a block beside its quants, by row. */
typedef struct heads {
    uint32_t bits[ROWS];
    uint16_t d[ROWS], m[ROWS];
    uint8_t e[64];
} heads; /* its size is a multiple of 64, so both of a pair are aligned */

/* ---- formats: fields (head_NAME) and quants (quants_NAME) -------------------------------------- */

INLINE void nibbles(const uint8_t *w, size_t step, words u[8])
{
    words p[4];
    load_quants(w, step, p);
    UNROLL
    for (int i = 0; i < 4; i++) {
        u[i] = low_nibbles(p[i]);
        u[i + 4] = high_nibbles(p[i]);
    }
}

INLINE void look_up(words table, words u[8])
{
    UNROLL
    for (int i = 0; i < 8; i++) u[i] = w_shuffle(table, u[i]);
}

INLINE void head_Q4_0(const uint8_t *w, size_t step, heads *h) { front_uint16_t(w, step, h->d); }
INLINE void quants_Q4_0(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    (void)h;
    nibbles(w + 2, step, u);
}

INLINE void head_Q4_1(const uint8_t *w, size_t step, heads *h)
{
    front_uint16_t(w, step, h->d);
    front_uint16_t(w + 2, step, h->m);
}
INLINE void quants_Q4_1(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    (void)h;
    nibbles(w + 4, step, u);
}

INLINE void head_Q5_0(const uint8_t *w, size_t step, heads *h)
{
    front_uint16_t(w, step, h->d);
    front_uint32_t(w + 2, step, h->bits);
}
INLINE void quants_Q5_0(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    nibbles(w + 6, step, u);
    add_fifth(w_load(h->bits), u);
}

INLINE void head_Q5_1(const uint8_t *w, size_t step, heads *h)
{
    front_uint16_t(w, step, h->d);
    front_uint16_t(w + 2, step, h->m);
    front_uint32_t(w + 4, step, h->bits);
}
INLINE void quants_Q5_1(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    nibbles(w + 8, step, u);
    add_fifth(w_load(h->bits), u);
}

INLINE void head_Q8_0(const uint8_t *w, size_t step, heads *h) { front_uint16_t(w, step, h->d); }
INLINE void quants_Q8_0(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    (void)h;
    load_quants(w + 2, step, u);
    load_quants(w + 18, step, u + 4);
    UNROLL
    for (int i = 0; i < 8; i++) u[i] = w_xor(u[i], w_bytes(-128));
}

INLINE void head_IQ4_NL(const uint8_t *w, size_t step, heads *h) { front_uint16_t(w, step, h->d); }
INLINE void quants_IQ4_NL(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    (void)h;
    nibbles(w + 2, step, u);
    look_up(table_16(qn__iq4_values, 128), u);
}

INLINE void head_MXFP4(const uint8_t *w, size_t step, heads *h) { front_uint8_t(w, step, h->e); }
INLINE void quants_MXFP4(const uint8_t *w, size_t step, const heads *h, words u[8])
{
    (void)h;
    nibbles(w + 1, step, u);
    look_up(table_16(qn__fp4_values, 12), u);
}

INLINE reals scale_f16(const heads *h) { return r_from_f16(h->d); }
INLINE reals scale_e8m0(const heads *h) /* 2^(e - 128): a normal number from e = 2 on */
{
    const words e = w_from_u8(h->e);
    const words normal = w_shl_32(w_sub_32(e, w_set(1)), 23), small = w_shl_each(w_set(0x00200000), e);
    return r_bits(w_where_less(e, w_set(2), small, normal));
}

/* ---- the product ----------------------------------------------------------------------------- */

/* FORMAT(name, off, greatest u, scale, value = d w + m) */
/* clang-format off */
#define FORMATS_32(FORMAT) \
    FORMAT(Q4_0, 8, 15, scale_f16, false) FORMAT(Q4_1, 0, 15, scale_f16, true) FORMAT(Q5_0, 16, 31, scale_f16, false) \
    FORMAT(Q5_1, 0, 31, scale_f16, true) FORMAT(Q8_0, 128, 255, scale_f16, false) \
    FORMAT(IQ4_NL, 128, 255, scale_f16, false) FORMAT(MXFP4, 12, 24, scale_e8m0, false)
/* clang-format on */

/* to[c] = S of one block. (sum of w + rest, rest) . (zero, sum) is one instruction: all four fit 16 bits. */
INLINE void dot_blocks(const int nc, const words u[8], int off, int max, const qn_act32 *x, words *to)
{
    const int rest = off - SHIFT(max);
    words pair = sum_n(w_set(SHIFT(max) ? -32 * SHIFT(max) : rest << 16), u, 8, max);
    if (SHIFT(max)) pair = w_or(w_and(pair, w_set(0xffff)), w_set((int)((uint32_t)rest << 16)));
    UNROLL
    for (int c = 0; c < nc; c++) to[c] = w_zero();
    dots_n(nc, to, u, x->q, sizeof *x, 8, max);
    UNROLL
    for (int c = 0; c < nc; c++) to[c] = w_sub_32(to[c], w_dot_16(w_zero(), pair, all_4(&x[c].zero)));
}
_Static_assert(offsetof(qn_act32, sum) == offsetof(qn_act32, zero) + 2, "zero and sum are read as one pair");

#define FORMAT(name, off, max, scale, with_min) \
    INLINE void gemv_##name(const int nc, const uint8_t *w, size_t step, const qn_act32 *x, int64_t n, reals *y) \
    { \
        heads ring[2] __attribute__((aligned(64))); \
        reals acc[GEMV_COLS_MAX]; \
        const uint8_t *ahead = w + ROWS * step; \
        UNROLL \
        for (int c = 0; c < nc; c++) acc[c] = r_zero(); \
        if (n > 0) head_##name(w, step, &ring[0]); \
        for (int64_t b = 0; b < n; b++, x += nc, w += sizeof(qn_block_##name)) { \
            const heads *h = &ring[b % 2]; \
            words u[8], s[GEMV_COLS_MAX]; \
            HIDE(w); \
            if (b + 1 < n) head_##name(w + sizeof(qn_block_##name), step, &ring[(b + 1) % 2]); \
            PREFETCH_SMALL(x, ahead, 0, 2, sizeof(qn_block_##name), b); \
            quants_##name(w, step, h, u); \
            PREFETCH_SMALL(x, ahead, 1, 2, sizeof(qn_block_##name), b); \
            ahead += ROWS * sizeof(qn_block_##name); \
            dot_blocks(nc, u, off, max, x, s); \
            const reals d = scale(h), m = with_min ? r_from_f16(h->m) : d; \
            UNROLL \
            for (int c = 0; c < nc; c++) { \
                acc[c] = r_fma(r_from(s[c]), r_mul(d, r_set(x[c].d)), acc[c]); \
                if (with_min) acc[c] = r_fma(m, r_set(x[c].d * (float)x[c].sum), acc[c]); \
            } \
        } \
        UNROLL \
        for (int c = 0; c < nc; c++) y[c] = acc[c]; \
    } \
    QN_GEMV(name, 32, qn_act32)
FORMATS_32(FORMAT)
#undef FORMAT

void FN(gemv_32_init)(qn_kernels *kernels)
{
#define FORMAT(name, off, max, scale, with_min) gemv_set(kernels, QN_DTYPE_##name, mm_##name, GEMV_PANEL_FROM_32);
    FORMATS_32(FORMAT)
#undef FORMAT
}
