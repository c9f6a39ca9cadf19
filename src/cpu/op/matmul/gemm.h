/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/gemm.h -- one tile of a matrix product, for all ops that are one: matmul, and convolution, whose
 * matrix is never stored but gathered a tile at a time.
 *
 * y[i][j] = sum over k of a(k, i) * b(k, j). To the bit: real numbers up to 32 bits are multiplied as float32, F64
 * as F64. k is divided into slices of QN_MM_SLICE; a slice is one chain of fused multiply-adds from 0 in the order
 * of k, and slices are added in order (as a linear product with float weights, dispatch.h). Integers wrap. So
 * neither tiles nor threads change a bit. */
#ifndef QN_CPU_OP_GEMM_H
#define QN_CPU_OP_GEMM_H

#include "cpu/op/pointwise/typed.h"

/* One operand: its element (k, j), j being a row of the left matrix or a column of the right one. */
typedef struct qn_gemm_side {
    const uint8_t *data;
    qn_dtype dtype;
    int64_t k_stride, j_stride;
    /* Not NULL: writes elements [k0, k0 + nk) x [j0, j0 + nj) to dst[(k - k0) * stride + j - j0], as float or, for F64,
     * double. */
    void (*pack)(const struct qn_gemm_side *s, void *dst, int64_t stride, int64_t k0, int64_t nk, int64_t j0,
                 int64_t nj);
    const void *ctx;      /* of pack */
    int64_t ctx_index[4]; /* likewise */
} qn_gemm_side;

typedef struct qn_gemm {
    qn_gemm_side a, b;
    int64_t k;
    qn_dtype dtype; /* of y, a and b */
    uint8_t *y;     /* y[i * y_stride + j] */
    int64_t y_stride;
    double alpha, beta; /* y = alpha product + beta c */
    const uint8_t *c;   /* NULL: none; of y's dtype */
    int64_t c_row, c_col;
    /* Not NULL: takes y instead of storing it: row i, columns [j0, j0 + n), as float or double; may change x. */
    void (*store)(const struct qn_gemm *g, const qn_task *t, int64_t i, int64_t j0, int64_t n, void *x);
    const void *ctx; /* of store */
    int64_t ctx_index[4];
} qn_gemm;

/* How an m x n result is divided: tiles of rows x cols, at most QN_GEMM_ROWS x QN_GEMM_COLS. */
enum { QN_GEMM_ROWS = 288, QN_GEMM_COLS = 128 };
typedef struct qn_gemm_cut {
    int64_t rows, cols, n_rows, n_cols;
} qn_gemm_cut;
/* `batch` such results are to be computed; stores: results go through `store` or are narrower than float. */
qn_gemm_cut qn__gemm_cut(int64_t m, int64_t n, int64_t k, int64_t batch, bool small_rows);
static inline int64_t qn__gemm_tiles(const qn_gemm_cut *c) { return c->n_rows * c->n_cols; }
int64_t qn__gemm_chunk(const qn_gemm_cut *c, int64_t k);

/* Rows [i0, i1), columns [j0, j1) of y; uses the thread's tile. */
void qn__gemm_tile(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1);
void qn__gemm_tile_f64(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1);
void qn__gemm_tile_int(const qn_task *t, const qn_gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1);
/* Computes tile number `tile`. */
void qn__gemm_run(const qn_task *t, const qn_gemm *g, const qn_gemm_cut *cut, int64_t m, int64_t n, int64_t tile);

#endif
