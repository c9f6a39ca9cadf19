/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/rig.h -- what the tests of modules share. */
#ifndef QN_TEST_NN_RIG_H
#define QN_TEST_NN_RIG_H

#include "../array/rig.h"
#include <quern/nn.h>

/* Numbers that tests/oracle/modules.py makes the same way: k counts the elements, s tells tensors apart. */
static inline double unit(int64_t k, int s) { return (double)((k * 37 + s * 11 + 5) % 101 + 0.3) / 101; }

static inline qn_tensor *numbers(qn_context *c, qn_shape shape, int s)
{
    const int64_t n = qn_shape_numel(&shape);
    float *x = calloc((size_t)n + 1, sizeof *x);
    for (int64_t k = 0; k < n; k++) x[k] = (float)(2 * unit(k, s) - 1);
    qn_tensor *t = f32(c, shape, x);
    free(x);
    return t;
}

/* Are all values of a those of b, to the bit? */
static inline bool same_values(qn_tensor *a, qn_tensor *b)
{
    const int64_t n = qn_numel(a);
    if (n != qn_numel(b) || qn_dtype_of(a) != qn_dtype_of(b)) return false;
    const qn_dtype_info *info = qn_dtype_get(qn_dtype_of(a));
    const size_t bytes = (size_t)(n / info->block_elems * info->block_bytes);
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    const bool same = qn_to_host(a, x, bytes) == QN_OK && qn_to_host(b, y, bytes) == QN_OK && memcmp(x, y, bytes) == 0;
    free(x);
    free(y);
    return same;
}

#endif
