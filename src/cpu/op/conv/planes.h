/* SPDX-License-Identifier: MIT */
/* src/cpu/op/conv/planes.h -- what pooling and resizing share: tensors [n, c, spatial..] as planes of three spatial
 * dimensions, and their loops, written once for all real dtypes. An item is a plane, so additions into a plane
 * happen in order. */
#ifndef QN_CPU_OP_PLANES_H
#define QN_CPU_OP_PLANES_H

#include "cpu/op/pointwise/typed.h"

/* ROW(dtype, stored type, type to compute in, to it, from it) */
/* clang-format off */
#define QN_REAL_ROWS(ROW) \
    ROW(F32,  float,    float,  QN_SAME,         QN_SAME) \
    ROW(F64,  double,   double, QN_SAME,         QN_SAME) \
    ROW(F16,  uint16_t, float,  qn__f16_to_f32,  qn__f32_to_f16) \
    ROW(BF16, uint16_t, float,  qn__bf16_to_f32, qn__f32_to_bf16)
/* clang-format on */

typedef struct qn_planes {
    int64_t size[3], stride[3]; /* spatial, outermost first; leading ones of size 1 */
    int64_t channels, batch_stride, channel_stride;
} qn_planes;

static inline qn_planes qn__planes(const qn_layout *l, int n_spatial)
{
    qn_planes p = {.channels = l->dim[1], .batch_stride = l->stride[0], .channel_stride = l->stride[1]};
    for (int i = 0; i < 3; i++) {
        const int from = i - (3 - n_spatial);
        p.size[i] = from >= 0 ? l->dim[2 + from] : 1;
        p.stride[i] = from >= 0 ? l->stride[2 + from] : 0;
    }
    return p;
}

static inline int64_t qn__plane_start(const qn_planes *p, int64_t plane)
{
    return plane / p->channels * p->batch_stride + plane % p->channels * p->channel_stride;
}

/* A node's array of three over its spatial dimensions, as three; leading ones get `one`. */
static inline void qn__spread(const int64_t in[3], int n_spatial, int64_t one, int64_t out[3])
{
    for (int i = 0; i < 3; i++) out[i] = i < 3 - n_spatial ? one : in[i - (3 - n_spatial)];
}

static inline int64_t qn__plane_items(const qn_node *node, int64_t *chunk)
{
    const qn_layout *l = &node->layout;
    const int64_t planes = l->dim[0] * l->dim[1], numel = qn_layout_numel(l);
    *chunk = planes > 0 ? qn__chunk_of(4096, numel / planes) : 1;
    return planes;
}

#endif
