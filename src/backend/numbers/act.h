/* SPDX-License-Identifier: MIT */
/* src/backend/numbers/act.h -- the forms that activations take in products, and what a product with a block format is,
 * to the bit.
 *
 * Quantized activations: x[k] ~ d * (q[k] - zero) over a block of 32 or 256 elements; the weight's format says which
 * (QN_ACT_... in its mm row). The range [lo, hi] = [min(x,0), max(x,0)] is cut into 254 steps:
 *     d = (hi/2 - lo/2) / 127
 *     zero = rint(-127 - lo * (1/d))
 *     q = clamp(rint(x * (1/d)) + zero, -127, 127)               so 0 is exact
 * A block whose range is below 2^-100 counts as zeros (all fields 0). A block with a NaN or an infinity has d = NaN
 * and the rest 0, so that every product with it is NaN.
 *
 * The value of one (row, column) is the same at every level that takes its columns in the same form, for any number
 * of columns and rows. acc starts at 0. w is the format's integer (Q4_0: nibble - 8; Q4_K: nibble; Q6_K: 6 bits -
 * 32; IQ4_NL, IQ4_XS, MXFP4: the table's entry ..).
 *
 * Blocks of 32 (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4), for block b in file order:
 *     S = sum w q - zero * sum w                                 exact in int32
 *     acc = fma((float)S, d_w * d, acc)                          d_w: the block's scale, widened exactly to float
 *     and where value = d q + m (Q4_1 Q5_1):                     acc = fma(m_w, d * (float)sum, acc)
 * Blocks of 256 (Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS), for super-block s in file order, its sub-blocks j of 16 or 32
 * elements:
 *     T = (float)(sum over j of scale_j * (sum w q over j))      exact in int32 (below 2^27), rounded once
 *     S = fma((float)-zero, (float)Z, T)                         Z = sum over j of scale_j * (sum w over j) <= 2^20
 *     acc = fma(S, d_w * d, acc)
 *     and where value = d scale q - dmin min (Q2_K Q4_K Q5_K):   M = sum over j of min_j * sum_j, exact in int32
 *                                                                acc = fma((float)M, -(dmin_w * d), acc)
 *
 * Two bfloat16 (QN_ACT_bf16: BF16 weights at level amx), 32 elements at a time, the last block padded with zeros:
 *     x1 = bf16(x), x2 = bf16(x - x1)                            nearest, ties to even; |x - x1 - x2| <= 2^-17 |x|
 *     c_p = c_p + ((chain of fma(w[k], x_p[k], .) from 0 over k = 0, 2, .. 30) + (the same over k = 1, 3, .. 31))
 *     y = c_1 + c_2                                              c_1, c_2: each from 0, block by block in file order
 * Everything below 2^-126 counts as 0, before and after each operation but the last: this is what a product of tiles
 * of bfloat16 is (Intel's manual, TDPBF16PS). An x of 3.39e38 or more makes y NaN.
 *
 * Two bfloat16 on both sides (QN_ACT_512: F16 weights at level amx), 512 elements at a time, the last block padded
 * with zeros; x1, x2 and numbers below 2^-126 as before:
 *     w1 = w without its last three bits, w2 = w - w1            both exact in bfloat16
 *     y = y + ((chain of fma(w_p[k], x_q[k], .) from 0 over k = l, l + 32, .. l + 480)
 *              + (the same over k = l + 16, l + 48, .. l + 496))
 *         for l = 0, 1, .. 15 in this order, and for each l (p, q) = (1, 1), (2, 1), (1, 2) in this order;
 *         y from 0, block by block
 * The term left out, w2 x2, is below 2^-15 |w x|. A w that is not finite makes y NaN.
 *
 * Why asymmetric blocks, and blocks of 256: NMSE of logits (tests/oracle/golden_sim.py; the reference engine for
 * comparison):
 *     Q8_0      asymmetric 2.2e-4, symmetric 3.1e-4, reference engine 3.2e-4
 *     Q4_K_M    blocks of 256: 5.8e-4, blocks of 32: 2.2e-4, reference engine 7.9e-4
 * Blocks of 32 under super-blocks would cost three more vector instructions for eight dot products: at best 61 % of
 * the arithmetic peak instead of 70 %. */
#ifndef QN_BACKEND_NUMBERS_ACT_H
#define QN_BACKEND_NUMBERS_ACT_H

#include <stdint.h>

typedef enum qn_act_kind { QN_ACT_f32, QN_ACT_32, QN_ACT_256, QN_ACT_bf16, QN_ACT_512 } qn_act_kind;

typedef struct qn_act32 {
    float d;
    int16_t zero; /* in [-127, 127] */
    int16_t sum;  /* of (q[k] - zero), in [-8128, 8128] */
    int8_t q[32];
} qn_act32;
_Static_assert(sizeof(qn_act32) == 40, "no padding: scratch sizes are computed from it");

typedef struct qn_act256 {
    float d;
    int32_t zero;
    int16_t sum[16]; /* of (q[k] - zero), 16 elements each: pairs add up to those of 32 */
    int8_t q[256];
} qn_act256;
_Static_assert(sizeof(qn_act256) == 296, "no padding: scratch sizes are computed from it");

/* Elements 2i and 2i + 1 of x1, then of x2: a lane of a tile takes these together. */
typedef struct qn_act_bf16 {
    uint16_t x[16][2][2];
} qn_act_bf16;

/* x1 and x2, which are bfloat16 numbers, as floats. */
typedef struct qn_act512 {
    float x[2][512];
} qn_act512;

/* Number of blocks in a column of k elements, and bytes of a block. */
static inline int64_t qn__act_blocks(qn_act_kind act, int64_t k)
{
    return act == QN_ACT_256    ? k / 256
           : act == QN_ACT_32   ? k / 32
           : act == QN_ACT_bf16 ? (k + 31) / 32
           : act == QN_ACT_512  ? (k + 511) / 512
                                : k;
}
static inline int64_t qn__act_block_bytes(qn_act_kind act)
{
    static const int64_t bytes[] = {[QN_ACT_f32] = sizeof(float),
                                    [QN_ACT_32] = sizeof(qn_act32),
                                    [QN_ACT_256] = sizeof(qn_act256),
                                    [QN_ACT_bf16] = sizeof(qn_act_bf16),
                                    [QN_ACT_512] = sizeof(qn_act512)};
    return bytes[act];
}

#endif
