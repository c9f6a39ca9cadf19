/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_one_float.c -- few columns of floats with weights in F32, F16 and BF16. Eight elements of sixteen rows at a time are
 * turned as the file has them, two halves a lane, and become floats after it: a third of the instructions of turning floats, and
 * nothing goes through memory. Sums are slices of QN_MM_SLICE, each one chain (ukr.h). */
#include "cpu/avx512/mm_one.h"

enum { EIGHT = 8, SLICE_EIGHTS = QN_MM_SLICE / EIGHT };
typedef float act8[EIGHT];

/* v[i]: element i of sixteen rows */
INLINE void load8_F32(const uint8_t *w, size_t step, __m512 v[8])
{
    __m512i u[8];
    load_16(w, step, u);
    load_16(w + 16, step, u + 4);
    UNROLL for (int i = 0; i < 8; i++) v[i] = _mm512_castsi512_ps(u[i]);
}

INLINE void load8_BF16(const uint8_t *w, size_t step, __m512 v[8])
{
    __m512i u[4];
    load_16(w, step, u);
    UNROLL for (int i = 0; i < 4; i++) {
        v[2 * i] = _mm512_castsi512_ps(_mm512_slli_epi32(u[i], 16));
        v[2 * i + 1] = _mm512_castsi512_ps(_mm512_and_si512(u[i], _mm512_set1_epi32((int)0xffff0000u)));
    }
}

INLINE void load8_F16(const uint8_t *w, size_t step, __m512 v[8])
{
    /* halves 0, 2, 4 ... of sixteen lanes, then 1, 3, 5 ... */
    const __m512i even = _mm512_set_epi32(0x001e001c, 0x001a0018, 0x00160014, 0x00120010, 0x000e000c, 0x000a0008, 0x00060004,
                                          0x00020000, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i order = _mm512_add_epi16(_mm512_shuffle_i64x2(even, even, 0xee),
                                           _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1));
    __m512i u[4];
    load_16(w, step, u);
    UNROLL for (int i = 0; i < 4; i++) {
        const __m512i parted = _mm512_permutexvar_epi16(order, u[i]);
        v[2 * i] = _mm512_cvtph_ps(_mm512_castsi512_si256(parted));
        v[2 * i + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(parted, 1));
    }
}

/* acc[c] += sum over eight elements of x[c] v, in order */
INLINE void add8(const int nc, __m512 *acc, const __m512 v[8], const act8 *x)
{
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int c = 0; c < nc; c++) acc[c] = _mm512_fmadd_ps(_mm512_set1_ps(x[c][i]), v[i], acc[c]);
}

#define FOR_COLUMNS(c) UNROLL for (int c = 0; c < nc; c++)

/* A part of the lines that rows will need: a whole line of all sixteen is asked for while one is used up. */
INLINE void fetch_part(const uint8_t *w, size_t step, int64_t at, const int eight_bytes)
{
    const int rows = eight_bytes / 4, parts = 64 / eight_bytes;
    const uint8_t *p = w + (size_t)(at % parts * rows) * step;
    UNROLL for (int r = 0; r < rows; r++) _mm_prefetch((const char *)p + (size_t)r * step + FETCH_AHEAD, _MM_HINT_T0);
}

/* One column and its one chain keep up with memory (98 % of the read bandwidth); two slices at a time would be twice as many streams
 * for the prefetcher (87 %). */
#define FORMAT(name, bytes, panel_from)                                                                                \
    INLINE void one_##name(const int nc, const uint8_t *w, size_t step, const act8 *x, int64_t n, __m512 *y)           \
    {                                                                                                                  \
        __m512 v[8], acc[QN_ONE_COLS_MAX];                                                                             \
        FOR_COLUMNS(c) y[c] = _mm512_setzero_ps();                                                                     \
        for (int64_t at = 0; at < n; at += SLICE_EIGHTS) {                                                             \
            const int64_t here = n - at < SLICE_EIGHTS ? n - at : SLICE_EIGHTS;                                        \
            FOR_COLUMNS(c) acc[c] = _mm512_setzero_ps();                                                               \
            for (int64_t i = 0; i < here; i++, x += nc, w += EIGHT * (bytes)) {                                        \
                HIDE(w);                                                                                               \
                fetch_part(w, step, i, EIGHT * (bytes));                                                               \
                load8_##name(w, step, v);                                                                              \
                add8(nc, acc, v, x);                                                                                   \
            }                                                                                                          \
            FOR_COLUMNS(c) y[c] = at == 0 ? acc[c] : _mm512_add_ps(y[c], acc[c]);                                      \
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

void qn__avx512_one_float_init(qn_ukr *ukr)
{
#define FORMAT(name, bytes, panel_from)                                                                                \
    any_##name = ukr->mm[QN_DTYPE_##name].one;                                                                         \
    qn__avx512_one_set(&ukr->mm[QN_DTYPE_##name], mm_eights_##name);                                                   \
    ukr->mm[QN_DTYPE_##name].panel_cols = panel_from;
    FORMATS
#undef FORMAT
}
