/* SPDX-License-Identifier: MIT */
/* src/backend/numbers/math.h -- log, tanh, erf and others as every level and every device computes them; errors are
 * the largest over all floats.
 *     log      x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1; log(1 + f) = f - f^2/2 + f^3 c(f) (Cephes' logf)
 *     tanh     x + x^3 c(x^2) below QN_TANH_NEAR (Cephes' tanhf), else 1 - 2 / (exp(2 |x|) + 1)
 *     log2     e + log(m) / ln 2
 *     log1p    log(u) + (x - (u - 1)) / u, u = 1 + x rounded: what was lost in rounding comes back
 *     expm1    x + x^2 (1/2 + x c(x)), the series, below QN_EXPM1_NEAR, else exp(x) - 1
 *     sin, cos, tan  x = n pi/2 + r, pi/2 in three parts of 24 bits, so that up to QN_FAR_ANGLE what is left of x is
 *              exact after the first; r + r^3 s(r^2), 1 - r^2/2 + r^4 c(r^2), r + r^3 t(r^2) (Cephes' sinf, cosf,
 * tanf). Beyond, the C library's in double atan     |x| up to tan(pi/8), or pi/4 + atan((|x| - 1) / (|x| + 1)), or,
 * above tan(3 pi/8), pi/2 - atan(1 / |x|) (Cephes' atanf) erf      x + x n(x^2) up to QN_ERF_NEAR, else 1 - exp(-t + t
 * f(t)), t = |x|, which is 1 from QN_ERF_ONE on */
#ifndef QN_BACKEND_NUMBERS_MATH_H
#define QN_BACKEND_NUMBERS_MATH_H

#define QN_LOG_TINY    0x1p-126f  /* the least normal float */
#define QN_LOG_LEAST   0x1p-149f  /* the least of all */
#define QN_LOG_BITS    0x3f3504f3 /* sqrt(1/2) */
#define QN_LOG_LN2_HI  0.693359375f
#define QN_LOG_LN2_LO  -2.12194440e-4f
#define QN_LOG_C0      3.3333331174e-1f
#define QN_LOG_C1      -2.4999993993e-1f
#define QN_LOG_C2      2.0000714765e-1f
#define QN_LOG_C3      -1.6668057665e-1f
#define QN_LOG_C4      1.4249322787e-1f
#define QN_LOG_C5      -1.2420140846e-1f
#define QN_LOG_C6      1.1676998740e-1f
#define QN_LOG_C7      -1.1514610310e-1f
#define QN_LOG_C8      7.0376836292e-2f

#define QN_LOG2E       0x1.715476p+0f

#define QN_EXPM1_NEAR  0.5f
#define QN_EXPM1_C0    0x1.555556p-3f /* 1 / 3! and on */
#define QN_EXPM1_C1    0x1.555556p-5f
#define QN_EXPM1_C2    0x1.111112p-7f
#define QN_EXPM1_C3    0x1.6c16c2p-10f
#define QN_EXPM1_C4    0x1.a01a02p-13f
#define QN_EXPM1_C5    0x1.a01a02p-16f

#define QN_FAR_ANGLE   0x1p17f
#define QN_FAR_TO_MAX  0x1p111f /* times that is infinite */
#define QN_SMALL_ANGLE 0x1p-13f /* sin and tan are x below */
#define QN_2_PI        0x1.45f306p-1f
#define QN_PI_2_A      0x1.921fb6p+0f
#define QN_PI_2_B      -0x1.777a5cp-25f
#define QN_PI_2_C      -0x1.ee59dap-50f
#define QN_SIN_C0      -1.6666654611e-1f
#define QN_SIN_C1      8.3321608736e-3f
#define QN_SIN_C2      -1.9515295891e-4f
#define QN_COS_C0      4.166664568298827e-2f
#define QN_COS_C1      -1.388731625493765e-3f
#define QN_COS_C2      2.443315711809948e-5f
#define QN_TAN_C0      3.33331568548e-1f
#define QN_TAN_C1      1.33387994085e-1f
#define QN_TAN_C2      5.34112807005e-2f
#define QN_TAN_C3      2.44301354525e-2f
#define QN_TAN_C4      3.11992232697e-3f
#define QN_TAN_C5      9.38540185543e-3f
#define QN_TAN_PI_8    0x1.a8279ap-2f
#define QN_TAN_3PI_8   0x1.3504f4p+1f
#define QN_PI_4        0x1.921fb6p-1f
#define QN_ATAN_C0     -3.33329491539e-1f
#define QN_ATAN_C1     1.99777106478e-1f
#define QN_ATAN_C2     -1.38776856032e-1f
#define QN_ATAN_C3     8.05374449538e-2f

#define QN_TANH_NEAR   0.625f
#define QN_TANH_C0     -3.33332819422e-1f
#define QN_TANH_C1     1.33314422036e-1f
#define QN_TANH_C2     -5.37397155531e-2f
#define QN_TANH_C3     2.06390887954e-2f
#define QN_TANH_C4     -5.70498872745e-3f

#define QN_ERF_NEAR    0.927734375f
#define QN_ERF_ONE     4.0f
#define QN_ERF_F0      -1.28717512e-1f
#define QN_ERF_F1      -6.34846687e-1f
#define QN_ERF_F2      -1.06777877e-1f
#define QN_ERF_F3      2.42546219e-2f
#define QN_ERF_F4      -3.88396438e-3f
#define QN_ERF_F5      3.83197126e-4f
#define QN_ERF_F6      -1.72853470e-5f
#define QN_ERF_N0      1.28379166e-1f
#define QN_ERF_N1      -3.76125336e-1f
#define QN_ERF_N2      1.12819925e-1f
#define QN_ERF_N3      -2.67681349e-2f
#define QN_ERF_N4      4.99119423e-3f
#define QN_ERF_N5      -5.96761703e-4f

#define QN_SQRT1_2     0x1.6a09e6p-1f
#define QN_1_SQRT2PI   0x1.988454p-2f
#define QN_GELU_C0     -0x1.988454p+0f /* -2 sqrt(2 / pi) */
#define QN_GELU_C1     -0x1.24442p-4f  /* 0.044715 times that */

#endif
