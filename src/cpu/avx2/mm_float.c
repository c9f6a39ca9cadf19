/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_float.c -- float products: 4 rows by 3 columns. The sixteen lanes are two registers that never meet
 * before the end, so k is walked twice, once for lanes 0 to 7 and once for 8 to 15: 12 accumulators fit, where both at once
 * would need 24. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "cpu/ukr_tile.h"

enum { ROWS = 4, COLS = 3 };

/* Lanes half * 8 to half * 8 + 7. */
static inline __attribute__((always_inline)) void block(const float *const *w, const float *const *x, const int n_cols, int64_t k,
                                                        int half, float (*out)[16])
{
    __m256 acc[COLS][ROWS];
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < ROWS; r++) acc[c][r] = _mm256_loadu_ps(out[c * ROWS + r] + 8 * half);

#define STEP(LOAD)                                                                                                     \
    __m256 u[COLS];                                                                                                    \
    for (int c = 0; c < n_cols; c++) u[c] = LOAD(x[c] + i);                                                            \
    for (int r = 0; r < ROWS; r++) {                                                                                   \
        const __m256 v = LOAD(w[r] + i);                                                                               \
        for (int c = 0; c < n_cols; c++) acc[c][r] = _mm256_fmadd_ps(v, u[c], acc[c][r]);                              \
    }
#define LOAD_ALL(p) _mm256_loadu_ps(p)
#define LOAD_REST(p) _mm256_maskload_ps(p, mask)
    int64_t i = 8 * half;
    const int64_t full = k / 16 * 16;
    for (; i < full; i += 16) {
        STEP(LOAD_ALL)
    }
    if (full < k) {
        const ints masks = first((int)(k - full));
        const __m256i mask = half ? masks.b : masks.a;
        STEP(LOAD_REST)
    }
    for (int c = 0; c < n_cols; c++)
        for (int r = 0; r < ROWS; r++) _mm256_storeu_ps(out[c * ROWS + r] + 8 * half, acc[c][r]);
}

#define BLOCK(n)                                                                                                       \
    static void block_##n(const float *const *w, const float *const *x, int64_t k, float (*out)[16])                   \
    {                                                                                                                  \
        block(w, x, n, k, 0, out);                                                                                     \
        block(w, x, n, k, 1, out);                                                                                     \
    }
BLOCK(2) BLOCK(3)
#undef BLOCK

/* One column leaves registers for both halves, and memory is walked once. */
static void block_1(const float *const *w, const float *const *x, int64_t k, float (*out)[16])
{
    lanes acc[ROWS];
    int64_t i = 0;
    for (int r = 0; r < ROWS; r++) acc[r] = l_load(out[r]);
    for (; i + 16 <= k; i += 16) {
        const lanes u = l_load(x[0] + i);
        for (int r = 0; r < ROWS; r++) acc[r] = l_fma(l_load(w[r] + i), u, acc[r]);
    }
    if (i < k) {
        const int rest = (int)(k - i);
        const lanes zero = l_set(0), u = l_load_n(x[0] + i, rest, zero);
        for (int r = 0; r < ROWS; r++) acc[r] = l_fma(l_load_n(w[r] + i, rest, zero), u, acc[r]);
    }
    for (int r = 0; r < ROWS; r++) l_store(out[r], acc[r]);
}

static void run(const float *const *w, const float *const *x, int n_cols, int64_t k, float (*acc)[16])
{
    static void (*const blocks[])(const float *const *, const float *const *, int64_t, float (*)[16]) = {
        block_1, block_2, block_3,
    };
    blocks[n_cols - 1](w, x, k, acc);
}

static void sum(float (*acc)[16], int n, float *sums)
{
    for (int i = 0; i < n; i++) sums[i] = l_sum(l_load(acc[i]));
}

static const qn_tile_kernel kernel = {ROWS, COLS, run, sum};
#include "cpu/ukr_tile_fns.h"

void qn__avx2_mm_float_init(qn_ukr *ukr)
{
    mm_init(ukr);
}
