/* SPDX-License-Identifier: MIT */
/* src/graph/ops/conv.h -- convolution, pooling, resizing, bags of embeddings, and their gradients: attributes and
 * builders. Included by graph.h. Tensors are [batch, channels, spatial ..] with 1 to 3 spatial dimensions; arrays of
 * three in attributes use the first n_spatial places. All real dtypes. */
#ifndef QN_GRAPH_OPS_CONV_H
#define QN_GRAPH_OPS_CONV_H

#include "graph/graph.h"

typedef struct qn_conv_attrs {
    int64_t stride[3], padding[3], dilation[3];
    int64_t size[3]; /* conv_input: spatial size of the result; conv_weight: of the kernel; conv: 0 */
    int32_t n_spatial, groups;
} qn_conv_attrs;

typedef enum qn_pool_kind { QN_POOL_max, QN_POOL_avg, QN_POOL_argmax } qn_pool_kind;
typedef struct qn_pool_attrs {
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t size[3]; /* adaptive: of the result; pool_back: of the source */
    int64_t divisor; /* of avg; 0: the number of elements */
    int32_t kind, n_spatial, ceil_mode, count_include_pad, adaptive, pad_;
} qn_pool_attrs;

typedef enum qn_upsample_mode { QN_UPSAMPLE_nearest, QN_UPSAMPLE_linear } qn_upsample_mode;
typedef struct qn_upsample_attrs {
    int64_t size[3]; /* of the result; upsample_back: of the source */
    double scale[3]; /* result / source as the caller said it; 0: from the sizes */
    int32_t mode, n_spatial, align_corners, pad_;
} qn_upsample_attrs;

typedef enum qn_bag_mode { QN_BAG_sum, QN_BAG_mean, QN_BAG_max } qn_bag_mode;
/* n_rows: embedding_bag_back */
typedef struct qn_bag_attrs {
    int64_t n_rows, padding_idx;
    int32_t mode, include_last, strict, pad_;
} qn_bag_attrs;

/* x [n,c,in..], w [o,c/groups,k..], b [o] or NULL -> [n,o,out..]; out = (in + 2 padding - dilation (k - 1) - 1) /
 * stride + 1 */
qn_node *qn__conv(qn_graph *g, qn_node *x, qn_node *w, qn_node *b, const qn_conv_attrs *attrs);
/* The gradient of conv to its x, which is transposed convolution: y [n,o,out..], w, b [c] or NULL -> [n,c,size..] */
qn_node *qn__conv_input(qn_graph *g, qn_node *y, qn_node *w, qn_node *b, const qn_conv_attrs *attrs);
/* The gradient of conv to its w: x, y as above -> [o,c/groups,size..] */
qn_node *qn__conv_weight(qn_graph *g, qn_node *x, qn_node *y, const qn_conv_attrs *attrs);

/* x [n,c,in..] -> [n,c,out..]; kind argmax gives I64 places in the plane (the first of equals; NaN wins). */
qn_node *qn__pool(qn_graph *g, qn_node *x, const qn_pool_attrs *attrs);
/* y: the result's gradient; x: the source, for max only (NULL for avg) -> [n,c,size..] */
qn_node *qn__pool_back(qn_graph *g, qn_node *y, qn_node *x, const qn_pool_attrs *attrs);

qn_node *qn__upsample(qn_graph *g, qn_node *x, const qn_upsample_attrs *attrs);
qn_node *qn__upsample_back(qn_graph *g, qn_node *y, const qn_upsample_attrs *attrs);

/* table [rows,m], ids [k], offsets [bags] (or [bags + 1] with include_last), weights [k] (mode sum) or NULL ->
 * [bags,m]. Ids equal to padding_idx (-1: none) are left out; an empty bag is 0. strict as for indices, see
 * ops_index.h: offsets too then lie in [0, k]. */
qn_node *qn__embedding_bag(qn_graph *g, qn_node *table, qn_node *ids, qn_node *offsets, qn_node *weights,
                           const qn_bag_attrs *attrs);
/* y [bags,m]: the gradient of the result; table: for max only -> the gradient of the table [n_rows,m] */
qn_node *qn__embedding_bag_back(qn_graph *g, qn_node *y, qn_node *ids, qn_node *offsets, qn_node *weights,
                                qn_node *table, const qn_bag_attrs *attrs);

#endif
