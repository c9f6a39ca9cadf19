/* SPDX-License-Identifier: MIT */
/* src/cpu/ukr_math_const.h -- log, tanh and erf as every level computes them; errors are the largest over all floats.
 * log:  x = m 2^e with m in [sqrt(1/2), sqrt(2)), f = m - 1; log(1 + f) = f - f^2/2 + f^3 c(f)   (Cephes' logf)
 * tanh: x + x^3 c(x^2) below QN_TANH_NEAR (Cephes' tanhf), else 1 - 2 / (exp(2 |x|) + 1)
 * erf:  x + x n(x^2) up to QN_ERF_NEAR, else 1 - exp(-t + t f(t)), t = |x|, which is 1 from QN_ERF_ONE on */
#ifndef QN_CPU_UKR_MATH_CONST_H
#define QN_CPU_UKR_MATH_CONST_H

#define QN_LOG_TINY 0x1p-126f  /* the least normal float */
#define QN_LOG_LEAST 0x1p-149f /* the least of all */
#define QN_LOG_BITS 0x3f3504f3 /* sqrt(1/2) */
#define QN_LOG_LN2_HI 0.693359375f
#define QN_LOG_LN2_LO -2.12194440e-4f
#define QN_LOG_C0 3.3333331174e-1f
#define QN_LOG_C1 -2.4999993993e-1f
#define QN_LOG_C2 2.0000714765e-1f
#define QN_LOG_C3 -1.6668057665e-1f
#define QN_LOG_C4 1.4249322787e-1f
#define QN_LOG_C5 -1.2420140846e-1f
#define QN_LOG_C6 1.1676998740e-1f
#define QN_LOG_C7 -1.1514610310e-1f
#define QN_LOG_C8 7.0376836292e-2f

#define QN_TANH_NEAR 0.625f
#define QN_TANH_C0 -3.33332819422e-1f
#define QN_TANH_C1 1.33314422036e-1f
#define QN_TANH_C2 -5.37397155531e-2f
#define QN_TANH_C3 2.06390887954e-2f
#define QN_TANH_C4 -5.70498872745e-3f

#define QN_ERF_NEAR 0.927734375f
#define QN_ERF_ONE 4.0f
#define QN_ERF_F0 -1.28717512e-1f
#define QN_ERF_F1 -6.34846687e-1f
#define QN_ERF_F2 -1.06777877e-1f
#define QN_ERF_F3 2.42546219e-2f
#define QN_ERF_F4 -3.88396438e-3f
#define QN_ERF_F5 3.83197126e-4f
#define QN_ERF_F6 -1.72853470e-5f
#define QN_ERF_N0 1.28379166e-1f
#define QN_ERF_N1 -3.76125336e-1f
#define QN_ERF_N2 1.12819925e-1f
#define QN_ERF_N3 -2.67681349e-2f
#define QN_ERF_N4 4.99119423e-3f
#define QN_ERF_N5 -5.96761703e-4f

#define QN_SQRT1_2 0x1.6a09e6p-1f
#define QN_1_SQRT2PI 0x1.988454p-2f
#define QN_GELU_C0 -0x1.988454p+0f /* -2 sqrt(2 / pi) */
#define QN_GELU_C1 -0x1.24442p-4f  /* 0.044715 times that */

#endif
