/* SPDX-License-Identifier: MIT */
/* src/text/sampler/sweep.h -- what a sampler does to every logit of a vocabulary, a block of 64 at a time.
 *
 * Written in the compiler's 16-byte vectors (every x86-64 and AArch64 has them; elsewhere they become scalar code),
 * because gcc does not vectorise loops with float comparisons. Sums have eight lanes that are added in one fixed order,
 * so results have the same bits everywhere. */
#ifndef QN_TEXT_SAMPLER_SWEEP_H
#define QN_TEXT_SAMPLER_SWEEP_H

#include "text/sampler/math.h"

#define QN_SWEEP_BLOCK 64

/* Copies logits, NaN as -INFINITY, above FLT_MAX as FLT_MAX, -0 as 0; returns the largest. */
float qn__sweep_load(float *to, const float *from);
/* The same; -INFINITY where the bit of mask[i / 32] is not set. */
float qn__sweep_load_masked(float *to, const float *from, const uint32_t *mask);
float qn__sweep_max(const float *logits);
/* The sum of weights e^((logit - max) * inv_temp); adds that of weight * exponent to *sum_wx. */
double qn__sweep_softmax(const float *logits, double max, double inv_temp, double *sum_wx);
/* The number of logits above -INFINITY; adds the sums of d and d * d, d = logit - max, over them. */
double qn__sweep_moments(const float *logits, double max, double *sum, double *sum_sq);

#endif
