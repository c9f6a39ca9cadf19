/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/sizes.h -- what a launch tells its kernel, read by both sides. Strides are in elements. */
#ifndef QN_GPU_SIZES_H
#define QN_GPU_SIZES_H

typedef enum qn_gpu_format { QN_GPU_F32, QN_GPU_F16, QN_GPU_BF16, QN_GPU_Q8_0 } qn_gpu_format;
typedef enum qn_gpu_pointwise { QN_GPU_ADD, QN_GPU_MUL, QN_GPU_SCALE, QN_GPU_SILU, QN_GPU_SWIGLU } qn_gpu_pointwise;

typedef struct qn_pointwise_sizes {
    int64_t n;
    int32_t what; /* qn_gpu_pointwise */
    float a, b;   /* scale: a x + b */
} qn_pointwise_sizes;

typedef struct qn_copy_sizes {
    int64_t n, dim[8], stride[8]; /* of x; y is dense */
    int32_t raw;      /* bytes of an element that is moved as it is: 1, 2, 4, 8; 0: from one format to another */
    int32_t from, to; /* qn_gpu_format; not Q8_0 */
} qn_copy_sizes;

typedef struct qn_norm_sizes {
    int64_t n, x_stride, y_stride; /* elements of a row */
    float eps;
    int32_t has_weight;
} qn_norm_sizes;

typedef struct qn_rope_sizes {
    int64_t d, n_rot, x_stride, y_stride, table_stride, n_table;
    int64_t heads, tokens; /* heads_first: rows are [.., heads, tokens]; else [.., tokens, heads] */
    int32_t heads_first, neox, back;
} qn_rope_sizes;

typedef struct qn_get_rows_sizes {
    int64_t m, n_rows, table_stride, id_stride; /* table [n_rows, m] */
    int32_t format;
} qn_get_rows_sizes;

typedef struct qn_set_rows_sizes {
    int64_t m, n, n_rows, dst_stride, x_stride, row_stride; /* x [n, m] into dst [n_rows, m] */
    int32_t format;
} qn_set_rows_sizes;

typedef struct qn_quantize_sizes {
    int64_t k, n_columns, x_stride;
} qn_quantize_sizes;

typedef struct qn_linear_sizes {
    int64_t k, m, n_columns, x_stride; /* x [n_columns, k] F32, or quantized columns; w [m, k] */
    int64_t w_bytes;                   /* from a row to the next */
    int32_t format, has_bias;
} qn_linear_sizes;

typedef struct qn_attention_sizes {
    int32_t n_query, n_head, n_kv, d, dv, n_lists, capacity, n_cells;
    int32_t q_query, q_head;                      /* strides of q [n_query, n_head, d] */
    int32_t k_head, v_head, list_row, list_entry; /* of one cell of k and v; of lists [n_lists, capacity] */
    int64_t k_cell, v_cell;
    int32_t span_row, span_entry; /* of spans [n_query, 3] */
    int32_t k_format, v_format, sink_stride;
    float scale;
} qn_attention_sizes;

#endif
