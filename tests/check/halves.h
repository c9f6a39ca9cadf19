/* SPDX-License-Identifier: MIT */
/* tests/check/halves.h -- the checks that both kinds of 16-bit floats share, by the definition of such a format. */
#ifndef QN_TESTS_CHECK_HALVES_H
#define QN_TESTS_CHECK_HALVES_H

#include "check.h"

typedef struct check_half {
    int bits; /* of the significand after the point */
    int emin; /* the least exponent */
    void (*pack)(const qn_kernels *kernels, uint16_t *y, const float *x, int64_t n);
    void (*unpack)(const qn_kernels *kernels, float *y, const uint16_t *x, int64_t n);
} check_half;

/* Nearest, ties to even. */
void check_half_pack(check *t, const check_half *half);
/* Every value becomes exactly itself. */
void check_half_unpack(check *t, const check_half *half);

#endif
