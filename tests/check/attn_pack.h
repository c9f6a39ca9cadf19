/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack.h -- rows of floats as int16: what the integers are worth is within half a step of the row, the
 * step is as small as the row's contract allows, and every bit is the reference level's. */
#include "check.h"

static inline void pack_same(check *t, const int16_t *got, const int16_t *want, int64_t n)
{
    check_same_bytes(t, got, want, (size_t)n * 2, "at level ref");
}

/* `x` as integers times `step`, every `y_stride`th of y. */
static inline void pack_near(check *t, const int16_t *y, int64_t y_stride, const float *x, double s, int64_t n,
                             double step)
{
    for (int64_t i = 0; i < n; i++)
        check_close(t, y[i * y_stride] * step, x[i] * s, step * 0.501 + fabs(x[i] * s) * 4 * FLT_EPSILON + FLT_MIN, i);
}

static inline double pack_length(const float *x, double s, int64_t n)
{
    double square = 0;
    for (int64_t i = 0; i < n; i++) square += x[i] * s * (x[i] * s);
    return sqrt(square);
}
