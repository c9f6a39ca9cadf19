/* SPDX-License-Identifier: MIT */
/* tests/check/quantize.h -- the check that both kinds of quantized activations share. */
#ifndef QN_TESTS_CHECK_QUANTIZE_H
#define QN_TESTS_CHECK_QUANTIZE_H

#include "check.h"

typedef struct quantized {
    float d;
    int zero;
    const int8_t *q;
    int16_t sum[16];
} quantized;

typedef struct quantize_row {
    int block, summed; /* elements of a block, of a sum */
    size_t bytes;      /* of a block */
    void (*quantize)(const qn_kernels *kernels, void *y, const float *x, int64_t n);
    void (*read)(const void *block, quantized *out);
} quantize_row;

void check_quantize(check *t, const quantize_row *row);

#endif
