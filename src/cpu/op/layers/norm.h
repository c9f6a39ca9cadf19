/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/norm.h -- mean and scale of a row; backward computes them again, so nothing is kept in between. */
#ifndef QN_CPU_OP_NORM_H
#define QN_CPU_OP_NORM_H

#include "cpu/op/driver.h"

#include <math.h>

typedef struct norm_f32 {
    float mean, scale;
} norm_f32; /* normalized: (x - mean) * scale */
typedef struct norm_f64 {
    double mean, scale;
} norm_f64;

/* centred: layer_norm; else rms_norm, whose mean is 0. */
static inline norm_f32 norm_of_f32(const qn_kernels *kernels, const float *x, int64_t n, double eps, bool centred)
{
    if (!centred) return (norm_f32){0, 1.0f / sqrtf(kernels->sum_sq_f32(x, n) / (float)n + (float)eps)};
    const float mean = kernels->sum_f32(x, n) / (float)n;
    return (norm_f32){mean, 1.0f / sqrtf(kernels->dev_sq_f32(x, mean, n) / (float)n + (float)eps)};
}

static inline norm_f64 norm_of_f64(const double *x, int64_t n, double eps, bool centred)
{
    norm_f64 of = {0, 0};
    double sum = 0;
    for (int64_t i = 0; i < n && centred; i++) of.mean += x[i];
    of.mean /= (double)n;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - of.mean) * (x[i] - of.mean);
    of.scale = 1 / sqrt(sum / (double)n + eps);
    return of;
}

#endif
