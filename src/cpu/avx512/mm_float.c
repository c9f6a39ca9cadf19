/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/mm_float.c -- float products: a block of 4 rows by 6 columns keeps its 24 accumulators, 4 weights and a
 * column in registers. */
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/lanes.h"
#include "cpu/ukr_tile.h"

enum { ROWS = 4, COLS = 6 };

static inline __attribute__((always_inline)) void block(const float *const *w, const float *const *x, const int n_cols, int64_t k,
                                                        float (*out)[16])
{
    __m512 acc[COLS][ROWS];
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < ROWS; r++) acc[c][r] = _mm512_loadu_ps(out[c * ROWS + r]);

#define STEP(LOAD)                                                                                                     \
    __m512 v[ROWS];                                                                                                    \
    for (int r = 0; r < ROWS; r++) v[r] = LOAD(w[r] + i);                                                              \
    for (int c = 0; c < n_cols; c++) {                                                                                 \
        const __m512 u = LOAD(x[c] + i);                                                                               \
        for (int r = 0; r < ROWS; r++) acc[c][r] = _mm512_fmadd_ps(v[r], u, acc[c][r]);                                \
    }
#define LOAD_ALL(p) _mm512_loadu_ps(p)
#define LOAD_REST(p) _mm512_maskz_loadu_ps(mask, p)
    int64_t i = 0;
    for (; i + 16 <= k; i += 16) {
        STEP(LOAD_ALL)
    }
    if (i < k) {
        const __mmask16 mask = first((int)(k - i));
        STEP(LOAD_REST)
    }
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < ROWS; r++) _mm512_storeu_ps(out[c * ROWS + r], acc[c][r]);
}

#define BLOCK(n)                                                                                                       \
    static void block_##n(const float *const *w, const float *const *x, int64_t k, float (*out)[16])                   \
    {                                                                                                                  \
        block(w, x, n, k, out);                                                                                        \
    }
BLOCK(1) BLOCK(2) BLOCK(3) BLOCK(4) BLOCK(5) BLOCK(6)
#undef BLOCK

static void run(const float *const *w, const float *const *x, int n_cols, int64_t k, float (*acc)[16])
{
    static void (*const blocks[])(const float *const *, const float *const *, int64_t, float (*)[16]) = {
        block_1, block_2, block_3, block_4, block_5, block_6,
    };
    blocks[n_cols - 1](w, x, k, acc);
}

static void sum(float (*acc)[16], int n, float *sums)
{
    for (int i = 0; i < n; i++) sums[i] = l_sum(_mm512_loadu_ps(acc[i]));
}

static const qn_tile_kernel kernel = {ROWS, COLS, run, sum};
#include "cpu/ukr_tile_fns.h"

void qn__avx512_mm_float_init(qn_ukr *ukr)
{
    mm_init(ukr);
}
