/* SPDX-License-Identifier: MIT */
/* src/backend/numbers/exp.h -- exp as every level computes it, operation for operation:
 *     t = fma(x, log2(e), MAGIC)     x / ln 2, rounded to an integer n that stands in the low bits of t
 *     r = x - n ln 2                 in two fused steps; HI has 15 bits, so that n * HI is exact
 *     p = 1 + (r + r^2 q(r))         q: minimax of degree 4 on |r| <= ln 2 / 2; error 3e-9 of p
 *     exp(x) = p * 2^n               by adding n to the exponent field
 * x below QN_EXP_MIN gives 0 (the result would be subnormal), above QN_EXP_MAX infinity, NaN gives NaN. The relative
 * error is at most 8.5e-8, measured over every float. */
#ifndef QN_BACKEND_NUMBERS_EXP_H
#define QN_BACKEND_NUMBERS_EXP_H

#define QN_EXP_MIN    -87.3365f /* exp is 2^-126 just above */
#define QN_EXP_MAX    88.72283f /* the largest float whose exp is finite */
#define QN_EXP_LOG2E  0x1.715476p+0f
#define QN_EXP_MAGIC  0x1.8p+23f
#define QN_EXP_LN2_HI 0x1.62e4p-1f
#define QN_EXP_LN2_LO 0x1.7f7d1cp-20f
#define QN_EXP_C0     0x1.fffffcp-2f
#define QN_EXP_C1     0x1.555492p-3f
#define QN_EXP_C2     0x1.5558f2p-5f
#define QN_EXP_C3     0x1.123a2p-7f
#define QN_EXP_C4     0x1.6a23dp-10f

#endif
