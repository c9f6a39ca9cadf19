/* SPDX-License-Identifier: MIT */
/* tests/check/quantize_act32.c -- activations in blocks of 32: within half a step, 0 exactly 0, sums that are sums;
 * damaged blocks stay visible. */
#include "quantize.h"

static void quantize(const qn_kernels *kernels, void *y, const float *x, int64_t n)
{
    kernels->quantize_act32(y, x, n);
}

static void read_block(const void *block, quantized *out)
{
    const qn_act32 *a = block;
    *out = (quantized){.d = a->d, .zero = a->zero, .q = a->q, .sum = {a->sum}};
}

CHECK_KERNEL(quantize_act32)
{
    static const quantize_row row = {32, 32, sizeof(qn_act32), quantize, read_block};
    check_quantize(t, &row);
}
