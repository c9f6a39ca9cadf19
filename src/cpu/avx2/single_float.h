/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/single_float.h -- gemv for a single column of floats with weights in F32, F16 and BF16. Slices are
 * transposed and then multiplied as in kernel/gemv_float.h, but four at a time (F32: two): with eight rows a
 * register, two chains would leave half of an addition's latency unused. F16 is transposed as halves, so that eight
 * rows of an element become floats when they are read. One thread of Zen 3, weights in cache, GB/s: F32 17 to 21,
 * F16 13 to 21, BF16 16 to 21. */

/* A cache line of eight rows as words: element e of all rows in register e. */
INLINE void transpose_words(const uint8_t *w, size_t step, words *line)
{
    words u[16];
    UNROLL
    for (int i = 0; i < 4; i++) load_16(w + 16 * i, step, u + 4 * i);
    UNROLL
    for (int i = 0; i < 16; i++) w_store(&line[i], u[i]);
}

INLINE reals float_of_F32(const words *line, int e) { return r_bits(w_load(&line[e])); }
INLINE reals float_of_BF16(const words *line, int e)
{
    const words u = w_load(&line[e / 2]);
    return r_bits(e % 2 ? w_and(u, w_set((int)0xffff0000u)) : w_shl_32(u, 16));
}

/* As halves: elements 16 h + i and 16 h + 8 + i are in the two parts of register 8 h + i. */
INLINE void transpose_halves(const uint8_t *w, size_t step, words *line)
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        words u[8], v[8];
        UNROLL
        for (int r = 0; r < 8; r += 2) {
            const words a = _mm256_loadu_si256((const void *)(row_at(w, step, r) + 32 * h));
            const words b = _mm256_loadu_si256((const void *)(row_at(w, step, r + 1) + 32 * h));
            u[r] = _mm256_unpacklo_epi16(a, b);
            u[r + 1] = _mm256_unpackhi_epi16(a, b);
        }
        UNROLL
        for (int r = 0; r < 8; r += 4) UNROLL
        for (int i = 0; i < 2; i++) {
            v[r + 2 * i] = _mm256_unpacklo_epi32(u[r + i], u[r + i + 2]);
            v[r + 2 * i + 1] = _mm256_unpackhi_epi32(u[r + i], u[r + i + 2]);
        }
        UNROLL
        for (int i = 0; i < 4; i++) {
            w_store(&line[8 * h + 2 * i], _mm256_unpacklo_epi64(v[i], v[i + 4]));
            w_store(&line[8 * h + 2 * i + 1], _mm256_unpackhi_epi64(v[i], v[i + 4]));
        }
    }
}

INLINE reals float_of_F16(const words *line, int e)
{
    const __m128i *part = (const __m128i *)(const void *)&line[e / 16 * 8 + e % 8];
    return _mm256_cvtph_ps(_mm_load_si128(part + e / 8 % 2));
}

#define FORMAT(name, bytes, slices, transpose) \
    INLINE void single_slices_##name(const int ns, const uint8_t *w, size_t step, const uint8_t *ahead, \
                                     const float *x, reals *acc) \
    { \
        words transposed[(slices)*SLICE_LINES(bytes) * LINE_WORDS]; \
        UNROLL \
        for (int s = 0; s < ns; s++) acc[s] = r_zero(); \
        for (int l = 0; l < ns * SLICE_LINES(bytes); l++, w += 64, ahead += ROWS * 32) { \
            HIDE(w); \
            transpose(w, step, &transposed[l * LINE_WORDS]); \
            PREFETCH(w, ahead, 0, 1, 32); \
        } \
        for (int l = 0; l < SLICE_LINES(bytes); l++, ahead += ROWS * 32 * ns, x += 64 / (bytes)) UNROLL \
        for (int i = 0; i < 16; i++) { \
            UNROLL \
            for (int j = 0; j < 4 / (bytes); j++) UNROLL \
            for (int s = 0; s < ns; s++) { \
                const words *line = &transposed[(s * SLICE_LINES(bytes) + l) * LINE_WORDS]; \
                const int e = i * 4 / (bytes) + j; \
                acc[s] = r_fma(r_set(x[s * QN_MM_SLICE + e]), float_of_##name(line, e), acc[s]); \
            } \
            PREFETCH(x, ahead, i, 16, ns * 32); \
        } \
    } \
    static void single_##name(const uint8_t *w, size_t step, const void *column, int64_t n, reals *y) \
    { \
        const act8 *x = column; \
        const uint8_t *ahead = w + ROWS * step; \
        int64_t at = 0; \
        y[0] = r_zero(); \
        while (at < n) { \
            const int64_t left = n - at; \
            const int many = left >= (slices)*SLICE_EIGHTS ? slices : 1; \
            const int64_t here = left < SLICE_EIGHTS ? left : many * SLICE_EIGHTS; \
            reals v[8], acc[slices]; \
            if (many > 1) \
                single_slices_##name(slices, w, step, ahead, x[0], acc); \
            else if (here == SLICE_EIGHTS) \
                single_slices_##name(1, w, step, ahead, x[0], acc); \
            else { \
                acc[0] = r_zero(); \
                for (int64_t i = 0; i < here; i++) { \
                    load8_##name(w + i * EIGHT * (bytes), step, v); \
                    add8(1, acc, v, x + i); \
                } \
            } \
            for (int s = 0; s < many; s++) y[0] = at == 0 && s == 0 ? acc[0] : r_add(y[0], acc[s]); \
            at += here; \
            x += here; \
            w += here * EIGHT * (bytes); \
            ahead += here * ROWS * EIGHT * (bytes); \
        } \
    }
/* clang-format off */
FORMAT(F32, 4, 2, transpose_words) FORMAT(F16, 2, 4, transpose_halves) FORMAT(BF16, 2, 4, transpose_words)
/* clang-format on */
#undef FORMAT
