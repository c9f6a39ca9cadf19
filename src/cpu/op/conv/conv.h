/* SPDX-License-Identifier: MIT */
/* src/cpu/op/conv/conv.h -- the geometry of a convolution, always with three spatial dimensions, and what its three
 * products share: reading runs of a spatial line, with zeros where a window extends beyond the edge. */
#ifndef QN_CPU_OP_CONV_H
#define QN_CPU_OP_CONV_H

#include "cpu/op/matmul/gemm.h"

typedef struct qn_conv_side { /* x or y: [n, channels, spatial] */
    const uint8_t *data;
    int64_t batch, channel, at[3]; /* strides */
} qn_conv_side;

typedef struct qn_conv_geo {
    const qn_task *t; /* NULL where only sizes are needed */
    qn_dtype dtype;
    int64_t n, c, o, groups; /* c and o of all groups */
    int64_t in[3], out[3], k[3], stride[3], pad[3], dilation[3];
    int64_t n_in, n_out, n_k; /* products of these */
    qn_conv_side x, y;
    int64_t w_out, w_in, w_at[3]; /* the weight's strides */
} qn_conv_geo;

/* x: [n,c,in..], w: [o,c/groups,k..], y: [n,o,out..] */
qn_conv_geo qn__conv_geo(const qn_conv_attrs *attrs, qn_dtype dtype, const qn_layout *x, const qn_layout *w,
                         const qn_layout *y);

/* dst[i] = line[first + i * step], i < n, or zero where that index is not in [0, size). dst is float, or double for
 * F64. */
void qn__conv_run(const qn_conv_geo *g, void *dst, const uint8_t *line, int64_t stride, int64_t first, int64_t step,
                  int64_t size, int64_t n);
/* One row of the matrix that a convolution multiplies: for channel `c` and tap `tap`, positions [j0, j0 + n) of the
 * result. */
void qn__conv_row(const qn_conv_geo *g, void *dst, int64_t batch, int64_t c, int64_t tap, int64_t j0, int64_t n);

static inline int64_t qn__conv_wide(const qn_conv_geo *g)
{
    return g->dtype == QN_DTYPE_F64 ? 8 : 4;
} /* bytes of a packed number */

#endif
