/* SPDX-License-Identifier: MIT */
/* tests/check/quantize_act256.c -- activations in blocks of 256, with a sum for each 16; otherwise as quantize_act32.c.
 */
#include "quantize.h"

static void quantize(const qn_kernels *kernels, void *y, const float *x, int64_t n)
{
    kernels->quantize_act256(y, x, n);
}

static void read_block(const void *block, quantized *out)
{
    const qn_act256 *a = block;
    *out = (quantized){.d = a->d, .zero = a->zero, .q = a->q};
    memcpy(out->sum, a->sum, sizeof a->sum);
}

CHECK_KERNEL(quantize_act256)
{
    static const quantize_row row = {256, 16, sizeof(qn_act256), quantize, read_block};
    check_quantize(t, &row);
}
