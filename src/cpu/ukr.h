/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr.h -- the dispatch table of the CPU backend: small kernels, and matrix products by weight format.
 *
 * A level's table starts as a copy of the level below and replaces what it does better, so every slot is always filled. It
 * is chosen once, when a backend opens, and kept in that backend: two levels can be open at once.
 *
 * What a product is, at every level and for any number of columns (so that neither threads nor batch size change a bit):
 *  - F32, F16, BF16 weights, and formats without a kernel of their own (unpacked a row-tile at a time): sixteen lanes, lane j
 *    takes elements k = j (mod 16) in order with fused multiply-adds; a tail shorter than 16 fills with zeros; then lanes are
 *    added pairwise: 8+8, 4+4, 2+2, 1+1 (lane j with lane j + half). The order is the same at every level, so results are
 *    bit-identical between levels too.
 *  - Block formats with a kernel: x is quantized once to qn_act blocks of 32. For each block b of a weight row in file order, in one
 *    float accumulator that starts at 0:
 *        S_b = sum over k of scale_int(k) * w_int[k] * (q[k] - zero)          exact in int32
 *        acc = fma((float)S_b, d_w * d_b, acc)                                 d_w: the (super-)block's float scale, widened from f16
 *        and, in formats with a minimum (value = d*q - m):  M_b = min_int * sum(q[k] - zero);  acc = fma((float)M_b, -(m_w * d_b), acc)
 *    scale_int and min_int are the block's integer sub-scales (1 where the format has none). */
#ifndef QN_CPU_UKR_H
#define QN_CPU_UKR_H

#include "quant/quant.h"
#include <quern/machine.h>
#include <quern/tensor.h>

/* Activations, 32 at a time: x[k] ~ d * (q[k] - zero). The range [lo, hi] = [min(x,0), max(x,0)] is cut into 254 steps: d =
 * (hi/2 - lo/2) / 127, zero = rint(-127 - lo * (1/d)), q = clamp(rint(x * (1/d)) + zero, -127, 127): 0 is exact. An
 * asymmetric block halves the squared error of a symmetric one: NMSE of the logits of a Q8_0 model 1.9e-4 against 3.2e-4
 * (mean over 20 perturbed runs), which is what keeps every format safely under the reference engine's error. A block whose
 * range is below 2^-100 counts as zeros (all fields 0). A block that holds a NaN or an infinity has d = NaN and the rest 0,
 * so every product with it is NaN: a damaged value is seen at the end, not laundered into a number. The sums are those that
 * unsigned 8-bit weights and sub-scales need: sum w (q - zero) = sum u q - zero sum u - off sum (q - zero) with u = w +
 * off; they stand in pairs so that one instruction multiplies and adds two of them. */
typedef struct qn_act {
    float d;
    int16_t sum;      /* of (q[k] - zero), in [-8128, 8128] */
    int16_t zero;     /* in [-127, 127] */
    int16_t half[2];  /* of (q[k] - zero) for k < 16 and for k >= 16 */
    int8_t q[32];
} qn_act;
_Static_assert(sizeof(qn_act) == 44, "no padding: scratch sizes are computed from it");

/* y[c][r] for `rows` weight rows and `cols` columns. */
typedef struct qn_mm_args {
    const uint8_t *w;       /* first weight row, any alignment */
    size_t w_row_bytes;
    const void *x;          /* first column: float[k] or qn_act[k / 32] by the kernel's `act` */
    size_t x_row_bytes;
    float *y;               /* y[c * y_stride + r] */
    int64_t y_stride;
    int64_t k;              /* a multiple of the weight's block; 0 gives zeros */
    int32_t rows, cols;     /* 0 is nothing to do */
    float *tile;            /* QN_MM_TILE_BYTES of this thread's own, aligned to 64 bytes */
} qn_mm_args;
#define QN_MM_TILE_BYTES (64 * 1024)
typedef void (*qn_mm_fn)(const struct qn_mm_args *args);

typedef struct qn_mm {
    qn_mm_fn fn;            /* NULL for dtypes that are no weights */
    bool act_q8;            /* columns are qn_act blocks; else float */
} qn_mm;

typedef struct qn_ukr {
    qn_cpu_level level;
#define QN_UKR(name, bound, ret, params) ret (*name) params;
#include "cpu/ukr.def"
#undef QN_UKR
    qn_mm mm[QN_DTYPE_COUNT];
    qn_unpack_fn unpack[QN_DTYPE_COUNT]; /* quant's, or a faster one with the same bits; NULL for integers and booleans */
} qn_ukr;

/* The table of a level, built once; levels that the machine lacks give the best it has. Thread-safe. */
const qn_ukr *qn__ukr_get(qn_cpu_level level);

/* One function a rung, in its folder: replaces what it does better. */
void qn__ukr_init_ref(qn_ukr *ukr);
void qn__ukr_init_avx2(qn_ukr *ukr);
void qn__ukr_init_avx512(qn_ukr *ukr);

#endif
