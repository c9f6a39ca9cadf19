/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/rows.h -- the numbers that the packing figures are about. The oracle program and the test include
 * this file, so it needs nothing of Quern, and of the C library only what is rounded exactly: both sides see the same
 * bits. */
#ifndef QN_TEST_QUANT_ROWS_H
#define QN_TEST_QUANT_ROWS_H

#include <math.h>
#include <stdint.h>

#include "blocks_random.h"

#define N_ROWS 8
#define N_COLS 2048

/* DIST(name, one value; u0, u1: uniform in (0, 1), g: gaussian, c and at: a gaussian and a column that the row keeps)
 */
/* clang-format off */
#define DIST_ROWS(DIST) \
    DIST(gaussian,  g) \
    DIST(laplace,   (u0 < 0.5 ? 1 : -1) * rows_log(u1)) \
    DIST(student2,  (2 * u0 - 1) / sqrt(2 * u0 * (1 - u0))) \
    DIST(uniform,   2 * u0 - 1) \
    DIST(positive,  u0 + 0.1) \
    DIST(constant,  c) \
    DIST(zeros,     0 * u0) \
    DIST(sparse,    u0 < 0.05 ? g : 0) \
    DIST(outlier,   col == at ? 50 * g : g) \
    DIST(offset,    3 * c + 0.1 * g) \
    DIST(ternary,   u0 < 1.0 / 3 ? -c : u0 < 2.0 / 3 ? 0 : c)
/* clang-format on */

/* Magnitudes that the distributions are multiplied by: the usual, that of real weights, and both ends of binary16. */
static const double rows_scale[] = {1, 0.02, 1e-6, 1e-30, 6e4};
#define N_SCALES 5

enum {
/* clang-format off */
#define DIST(name, value) DIST_##name,
    DIST_ROWS(DIST)
#undef DIST
    N_DISTS
    /* clang-format on */
};

static inline double rows_uniform(uint64_t seed, uint64_t n)
{
    return ((double)(random_word(seed, n) >> 12) + 0.5) * 0x1p-52;
}

/* ln x for x in (0, 1), by halving and a series: libm's may differ in the last bit from one machine to the next. */
static inline double rows_log(double x)
{
    double halvings = 0, y, power, sum = 0;

    for (; x < 0.70710678118654752; x *= 2) halvings++;
    y = (x - 1) / (x + 1);
    power = y;
    for (int k = 1; k < 40; k += 2, power *= y * y) sum += power / k;
    return 2 * sum - halvings * 0.69314718055994531;
}

/* Sum of twelve uniforms. */
static inline double rows_gaussian(uint64_t seed, uint64_t n)
{
    double sum = 0;

    for (uint64_t k = 0; k < 12; k++) sum += rows_uniform(seed + 1, 12 * n + k);
    return sum - 6;
}

static inline void rows_fill(int dist, double scale, float *x)
{
    for (int row = 0; row < N_ROWS; row++) {
        const uint64_t seed = 1000003u * (uint64_t)(dist + 1) + 7919u * (uint64_t)row;
        const double c = rows_gaussian(seed, N_COLS);
        const int at = (int)(random_word(seed + 2, 0) % N_COLS);

        for (int col = 0; col < N_COLS; col++) {
            const double u0 = rows_uniform(seed + 3, 2 * (uint64_t)col),
                         u1 = rows_uniform(seed + 3, 2 * (uint64_t)col + 1);
            const double g = rows_gaussian(seed, (uint64_t)col);
            double v = 0;

#define DIST(name, value) \
    if (dist == DIST_##name) v = (value);
            DIST_ROWS(DIST)
#undef DIST
            (void)at, (void)u1;
            x[row * N_COLS + col] = (float)(v * scale);
        }
    }
}

/* Importance as activations give it: most columns alike, some a hundred times heavier. */
static inline void rows_importance(float *w)
{
    for (int col = 0; col < N_COLS; col++) {
        const double l = rows_log(rows_uniform(77, (uint64_t)col));
        w[col] = (float)(0.05 + l * l * l * l);
    }
}

/* Sum of w (x - y)^2 over all rows; w may be a null pointer. */
static inline double rows_error(const float *x, const float *y, const float *w)
{
    double sum = 0;

    for (int i = 0; i < N_ROWS * N_COLS; i++) {
        const double e = (double)x[i] - (double)y[i];
        sum += (w ? (double)w[i % N_COLS] : 1) * e * e;
    }
    return sum;
}

#endif
