/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_one_float.h -- few columns of floats with weights in F32, F16 and BF16. Eight elements of ROWS rows at a time are
 * turned as the file has them, two halves a lane, and become floats after it: a third of the instructions of turning floats, and
 * nothing goes through memory. Sums are slices of QN_MM_SLICE, each one chain (ukr.h). */
enum { EIGHT = 8, SLICE_EIGHTS = QN_MM_SLICE / EIGHT };
typedef float act8[EIGHT];

/* v[i]: element i of each row */
INLINE void load8_F32(const uint8_t *w, size_t step, reals v[8])
{
    words u[8];
    load_16(w, step, u);
    load_16(w + 16, step, u + 4);
    UNROLL for (int i = 0; i < 8; i++) v[i] = r_bits(u[i]);
}

INLINE void load8_BF16(const uint8_t *w, size_t step, reals v[8])
{
    words u[4];
    load_16(w, step, u);
    UNROLL for (int i = 0; i < 4; i++) {
        v[2 * i] = r_bits(w_shl_32(u[i], 16));
        v[2 * i + 1] = r_bits(w_and(u[i], w_set((int)0xffff0000u)));
    }
}

INLINE void load8_F16(const uint8_t *w, size_t step, reals v[8])
{
    words u[4];
    load_16(w, step, u);
    UNROLL for (int i = 0; i < 4; i++) w_halves(u[i], &v[2 * i], &v[2 * i + 1]);
}

/* acc[c] += sum over eight elements of x[c] v, in order */
INLINE void add8(const int nc, reals *acc, const reals v[8], const act8 *x)
{
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int c = 0; c < nc; c++) acc[c] = r_fma(r_set(x[c][i]), v[i], acc[c]);
}

#define FOR_COLUMNS(c) UNROLL for (int c = 0; c < nc; c++)

/* A part of the lines that rows will need: a whole line of each is asked for while one is used up. */
INLINE void fetch_part(const uint8_t *w, size_t step, int64_t at, const int eight_bytes)
{
    const int rows = ROWS * eight_bytes / 64, parts = 64 / eight_bytes;
    const uint8_t *p = w + (size_t)(at % parts * rows) * step;
    UNROLL for (int r = 0; r < rows; r++) _mm_prefetch((const char *)p + (size_t)r * step + FETCH_AHEAD, _MM_HINT_T0);
}

/* One column and its one chain keep up with memory (98 % of the read bandwidth); two slices at a time would be twice as many streams
 * for the prefetcher (87 %). */
#define FORMAT(name, bytes, panel_from)                                                                                \
    INLINE void one_##name(const int nc, const uint8_t *w, size_t step, const act8 *x, int64_t n, reals *y)           \
    {                                                                                                                  \
        reals v[8], acc[ONE_COLS_MANY];                                                                             \
        FOR_COLUMNS(c) y[c] = r_zero();                                                                     \
        for (int64_t at = 0; at < n; at += SLICE_EIGHTS) {                                                             \
            const int64_t here = n - at < SLICE_EIGHTS ? n - at : SLICE_EIGHTS;                                        \
            FOR_COLUMNS(c) acc[c] = r_zero();                                                               \
            for (int64_t i = 0; i < here; i++, x += nc, w += EIGHT * (bytes)) {                                        \
                HIDE(w);                                                                                               \
                fetch_part(w, step, i, EIGHT * (bytes));                                                               \
                load8_##name(w, step, v);                                                                              \
                add8(nc, acc, v, x);                                                                                   \
            }                                                                                                          \
            FOR_COLUMNS(c) y[c] = at == 0 ? acc[c] : r_add(y[c], acc[c]);                                      \
        }                                                                                                              \
    }                                                                                                                  \
    QN_ONE(name, EIGHT, act8)                                                                                          \
    static qn_mm_fn any_##name; /* of the general kernels, for rows that are no multiple of eight */                   \
    static void mm_eights_##name(const qn_mm_args *a)                                                                  \
    {                                                                                                                  \
        if (a->k % EIGHT == 0) mm_##name(a);                                                                           \
        else any_##name(a);                                                                                            \
    }
/* From how many columns on a panel is faster: 12 and 16 columns, Gflop/s of one thread here and there: F16 66, 71 and 70, 75; BF16 79, 93
 * and 62, 79. */
#define FORMATS FORMAT(F32, 4, 17) FORMAT(F16, 2, 9) FORMAT(BF16, 2, 17)
FORMATS
#undef FORMAT

void FN(one_float_init)(qn_ukr *ukr)
{
#define FORMAT(name, bytes, panel_from)                                                                                \
    any_##name = ukr->mm[QN_DTYPE_##name].one;                                                                         \
    one_set(&ukr->mm[QN_DTYPE_##name], mm_eights_##name);                                                   \
    ukr->mm[QN_DTYPE_##name].panel_cols = panel_from;
    FORMATS
#undef FORMAT
}
