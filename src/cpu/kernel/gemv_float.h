/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/gemv_float.h -- gemv for weights in F32, F16 and BF16. Eight elements of ROWS rows at a time are
 * transposed as the file has them, two halves a lane, and converted to floats after that: a third of the
 * instructions of transposing floats, and nothing goes through memory. Sums are slices of QN_MM_SLICE, each one
 * chain (dispatch.h). */
enum { EIGHT = 8, SLICE_EIGHTS = QN_MM_SLICE / EIGHT };
typedef float act8[EIGHT];

/* pair_NAME: the elements in one word of each row. */
INLINE void pair_F32(words u, reals *v) { v[0] = r_bits(u); }
INLINE void pair_BF16(words u, reals *v)
{
    v[0] = r_bits(w_shl_32(u, 16));
    v[1] = r_bits(w_and(u, w_set((int)0xffff0000u)));
}
INLINE void pair_F16(words u, reals *v) { w_halves(u, &v[0], &v[1]); }

/* The same by way of memory: what is stored for a word, and the elements from there. */
#ifdef OWN_HALVES
INLINE words stored_F16(words u) { return w_part(u); }
INLINE void pair_at_F16(const words *p, reals *v) { r_parted(p, &v[0], &v[1]); }
#else
INLINE words stored_F16(words u) { return u; }
INLINE void pair_at_F16(const words *p, reals *v) { pair_F16(*p, v); }
#endif
INLINE words stored_F32(words u) { return u; }
INLINE void pair_at_F32(const words *p, reals *v) { pair_F32(*p, v); }
INLINE words stored_BF16(words u) { return u; }
INLINE void pair_at_BF16(const words *p, reals *v) { pair_BF16(*p, v); }

/* v[i]: element i of each row */
#define LOAD8(name, bytes) \
    INLINE void load8_##name(const uint8_t *w, size_t step, reals v[8]) \
    { \
        words u[8]; \
        UNROLL \
        for (int i = 0; i < (bytes) / 2; i++) load_16(w + 16 * i, step, u + 4 * i); \
        UNROLL \
        for (int i = 0; i < 2 * (bytes); i++) pair_##name(u[i], &v[i * 4 / (bytes)]); \
    }
/* clang-format off */
LOAD8(F32, 4) LOAD8(F16, 2) LOAD8(BF16, 2)
/* clang-format on */
#undef LOAD8

/* acc[c] += sum over eight elements of x[c] v, in order */
INLINE void add8(const int nc, reals *acc, const reals v[8], const act8 *x)
{
    UNROLL
    for (int i = 0; i < 8; i++) UNROLL
    for (int c = 0; c < nc; c++) acc[c] = r_fma(r_set(x[c][i]), v[i], acc[c]);
}

#define FOR_COLUMNS(c) \
    UNROLL \
    for (int c = 0; c < nc; c++)

/* A slice is first stored transposed, one word of each row a register, and then multiplied: so one column can run
 * the chains of two slices, which hides the latency of additions. (F32 has one chain; that is enough for its bytes.)
 * A row's four parts of a line are read together: rows a power of two apart fall into one set of the first-level
 * cache, and the line would be evicted before its second part was read. Half of what comes next is prefetched while
 * slices are transposed, half while they are multiplied. Zen 5, 2 threads, F16, 2048 columns: 65 to 80 % of the read
 * bandwidth; transposed in registers with one chain: 55 %. */
#define SLICE_LINES(bytes) (QN_MM_SLICE * (bytes) / 64)
enum { LINE_WORDS = 16 };

#ifdef OWN_SINGLE_FLOAT /* a level's own kernels for a single column: single_F32, single_F16, single_BF16 */
#include OWN_SINGLE_FLOAT
#define GEMV_FLOAT(name) QN_GEMV_WITH_SINGLE(name, EIGHT, act8, single_##name)
#else
#define GEMV_FLOAT(name) QN_GEMV(name, EIGHT, act8)
#endif

#define FORMAT(name, bytes, panel_from) \
    INLINE void add_slices_##name(const int nc, const int ns, const uint8_t *w, size_t step, const uint8_t *ahead, \
                                  const act8 *x, reals *acc) \
    { \
        words transposed[2 * SLICE_LINES(bytes) * LINE_WORDS]; \
        UNROLL \
        for (int i = 0; i < ns * nc; i++) acc[i] = r_zero(); \
        for (int l = 0; l < ns * SLICE_LINES(bytes); l++, w += 64, ahead += ROWS * 32) { \
            words u[LINE_WORDS]; \
            HIDE(w); \
            UNROLL \
            for (int i = 0; i < 4; i++) { \
                load_16(w + 16 * i, step, u + 4 * i); \
                PREFETCH(w, ahead, i, 4, 32); \
            } \
            UNROLL \
            for (int i = 0; i < LINE_WORDS; i++) w_store(&transposed[l * LINE_WORDS + i], stored_##name(u[i])); \
        } \
        for (int l = 0; l < SLICE_LINES(bytes); l++, ahead += ROWS * 32 * ns) UNROLL \
        for (int i = 0; i < LINE_WORDS; i++) { \
            UNROLL \
            for (int s = 0; s < ns; s++) { \
                reals v[2]; \
                pair_at_##name(&transposed[(s * SLICE_LINES(bytes) + l) * LINE_WORDS + i], v); \
                UNROLL \
                for (int e = 0; e < 4 / (bytes); e++) { \
                    const int at = l * 64 / (bytes) + i * 4 / (bytes) + e; \
                    const act8 *from = x + (s * SLICE_EIGHTS + at / 8) * nc; \
                    FOR_COLUMNS(c) acc[s * nc + c] = r_fma(r_set(from[c][at % 8]), v[e], acc[s * nc + c]); \
                } \
            } \
            PREFETCH(x, ahead, i, LINE_WORDS, ns * 32); \
        } \
    } \
    INLINE void gemv_##name(const int nc, const uint8_t *w, size_t step, const act8 *x, int64_t n, reals *y) \
    { \
        const int ns = nc == 1 && (bytes) < 4 ? 2 : 1, many = ns * SLICE_EIGHTS; \
        const uint8_t *ahead = w + ROWS * step; \
        reals v[8], acc[2 * GEMV_COLS_MAX]; \
        int64_t at = 0; \
        FOR_COLUMNS(c) y[c] = r_zero(); \
        for (; n - at >= many; \
             at += many, x += many * nc, w += many * EIGHT * (bytes), ahead += ROWS * many * EIGHT * (bytes)) { \
            add_slices_##name(nc, ns, w, step, ahead, x, acc); \
            FOR_COLUMNS(c) y[c] = at == 0 ? acc[c] : r_add(y[c], acc[c]); \
            if (ns == 2) y[0] = r_add(y[0], acc[1]); \
        } \
        for (; at < n; at += SLICE_EIGHTS) { \
            const int64_t here = n - at < SLICE_EIGHTS ? n - at : SLICE_EIGHTS; \
            FOR_COLUMNS(c) acc[c] = r_zero(); \
            for (int64_t i = 0; i < here; i++, x += nc, w += EIGHT * (bytes), ahead += ROWS * EIGHT * (bytes)) { \
                HIDE(w); \
                load8_##name(w, step, v); \
                add8(nc, acc, v, x); \
                PREFETCH(x, ahead, 0, 1, EIGHT *(bytes)); \
            } \
            FOR_COLUMNS(c) y[c] = at == 0 ? acc[c] : r_add(y[c], acc[c]); \
        } \
    } \
    GEMV_FLOAT(name) \
    static qn_mm_fn any_##name; /* the general kernel (mm_float.h), for rows that are no multiple of eight */ \
    static void mm_eights_##name(const qn_mm_args *a) \
    { \
        if (a->k % EIGHT == 0) \
            mm_##name(a); \
        else \
            any_##name(a); \
    }
/* From how many columns on a panel is faster. Gflop/s of one thread with 12 and 16 columns, gemv and panel: F16 66,
 * 71 and 70, 75; BF16 79, 93 and 62, 79. */
#ifndef FLOAT_FORMATS
#define FLOAT_FORMATS FORMAT(F32, 4, 17) FORMAT(F16, 2, 9) FORMAT(BF16, 2, 17)
#endif
FLOAT_FORMATS
#undef FORMAT

void FN(gemv_float_init)(qn_kernels *kernels)
{
#define FORMAT(name, bytes, panel_from) \
    any_##name = kernels->mm[QN_DTYPE_##name].gemv; \
    gemv_set(kernels, QN_DTYPE_##name, mm_eights_##name, panel_from);
    FLOAT_FORMATS
#undef FORMAT
}
