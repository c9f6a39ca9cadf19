/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_tile.h -- float products in sixteen lanes, for every weight format that unpacks. The loops over rows, columns
 * and k are here once; a level gives the register block. */
#ifndef QN_CPU_UKR_TILE_H
#define QN_CPU_UKR_TILE_H

#include "cpu/ukr.h"

enum { QN_TILE_ROWS_MAX = 8, QN_TILE_COLS_MAX = 8 };

typedef struct qn_tile_kernel {
    int rows, cols; /* weight rows and columns at a time: as many accumulators as the level has registers for */
    /* Lane j of acc[c * rows + r] takes w[r][i] * x[c][i], i = j (mod 16), fused and in order; past k come zeros. n_cols <=
     * cols. */
    void (*run)(const float *const *w, const float *const *x, int n_cols, int64_t k, float (*acc)[16]);
    /* sums[i] = the lanes of acc[i], in the tree of ukr.h */
    void (*sum)(float (*acc)[16], int n, float *sums);
} qn_tile_kernel;

/* Aligned F32 weights are used where they lie; everything else goes through `unpack`, the level's for this dtype. */
void qn__tile_mm(const qn_mm_args *a, qn_dtype dtype, qn_unpack_fn unpack, const qn_tile_kernel *kernel);

#endif
