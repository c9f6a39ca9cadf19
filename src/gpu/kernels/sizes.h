/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/sizes.h -- what a launch tells its kernel, read by both sides. Strides are in elements, where no name
 * says bytes. */
#ifndef QN_GPU_SIZES_H
#define QN_GPU_SIZES_H

/* clang-format off */
/* Formats that kernels know; F64 is only moved. */
#define QN_GPU_FORMAT_ROWS(ROW) \
    ROW(F32) ROW(F16) ROW(BF16) ROW(F64) ROW(I8) ROW(I16) ROW(I32) ROW(I64) ROW(U8) ROW(BOOL) \
    ROW(Q4_0) ROW(Q4_1) ROW(Q5_0) ROW(Q5_1) ROW(Q8_0) ROW(Q2_K) ROW(Q3_K) ROW(Q4_K) ROW(Q5_K) ROW(Q6_K) \
    ROW(IQ2_XXS) ROW(IQ2_XS) ROW(IQ3_XXS) ROW(IQ1_S) ROW(IQ4_NL) ROW(IQ3_S) ROW(IQ2_S) ROW(IQ4_XS) ROW(IQ1_M) \
    ROW(TQ1_0) ROW(TQ2_0) ROW(MXFP4) ROW(NVFP4)
/* clang-format on */
#define QN_GPU_FORMAT(name) QN_GPU_##name,
typedef enum qn_gpu_format { QN_GPU_FORMAT_ROWS(QN_GPU_FORMAT) QN_GPU_FORMAT_COUNT } qn_gpu_format;
#undef QN_GPU_FORMAT

typedef enum qn_gpu_choice { QN_GPU_WHERE, QN_GPU_MASKED, QN_GPU_FULL } qn_gpu_choice;
/* How an element that is written meets what is there. */
typedef enum qn_gpu_meeting { QN_GPU_SET, QN_GPU_PLUS, QN_GPU_TIMES, QN_GPU_HIGHER, QN_GPU_LOWER } qn_gpu_meeting;
typedef enum qn_gpu_reduce {
    QN_GPU_SUM,
    QN_GPU_MEAN,
    QN_GPU_GREATEST,
    QN_GPU_LEAST,
    QN_GPU_GREATEST_PLACE,
    QN_GPU_LEAST_PLACE,
    QN_GPU_COUNT,
    QN_GPU_ANY,
    QN_GPU_ALL,
    QN_GPU_PRODUCT,
    QN_GPU_VARIANCE,
    QN_GPU_DEVIATION
} qn_gpu_reduce;

/* Elements of one shape, and where they are in up to three values. */
typedef struct qn_walk_sizes {
    int64_t n, dim[8], stride[3][8];
    int64_t w, v;
    float p, q; /* numbers of the operation */
    int32_t rank, what, choice;
    int32_t format[3], to; /* qn_gpu_format: of the sources, of the result */
} qn_walk_sizes;

typedef struct qn_matmul_sizes {
    qn_walk_sizes at; /* where the row of a, the column of b and the element of c are; p, q: alpha, beta */
    int64_t k, a_step, b_step;
    int32_t has_c;
} qn_matmul_sizes;

/* Lines along the index: where each begins in y, in src and in the ids. */
typedef struct qn_scatter_sizes {
    qn_walk_sizes lines;
    int64_t n, size, y_step, src_step, id_step; /* size: of y along the index */
} qn_scatter_sizes;

/* Row r begins at r / inner * outer + r % inner * stride. */
typedef struct qn_rows {
    int64_t inner, stride, outer;
} qn_rows;

typedef struct qn_norm_sizes {
    int64_t n; /* elements of a row; y is dense */
    qn_rows x;
    float eps;
    int32_t has_weight, has_bias;
} qn_norm_sizes;

/* A launch may do up to three jobs of one kind: job 0 has the first groups[0] groups, and so on. */
enum { QN_GPU_MAX_JOBS = 3 };

/* Bytes of a block of 32 or 256 elements of a quantized column, and where in it the elements begin: 256 of them at a
 * multiple of 16. */
enum { QN_GPU_COLUMN_32 = 40, QN_GPU_COLUMN_256 = 304, QN_GPU_COLUMN_Q_32 = 8, QN_GPU_COLUMN_Q_256 = 48 };

typedef struct qn_rms_sizes {
    int64_t groups[QN_GPU_MAX_JOBS], n[QN_GPU_MAX_JOBS];
    qn_rows x[QN_GPU_MAX_JOBS];
    float eps[QN_GPU_MAX_JOBS];
    int32_t has_weight[QN_GPU_MAX_JOBS], n_jobs;
    int32_t block; /* of the only job, whose rows are columns of products too, in blocks of so many; 0: they are not */
} qn_rms_sizes;

/* y = norm(x), z = other + y, y1 = norm(z), the last of them as columns too. All but x are dense rows of n elements. */
typedef struct qn_norm_sum_sizes {
    int64_t n;
    qn_rows x;
    float eps[2];
    int32_t has_weight[2], has_next, block;
} qn_norm_sum_sizes;

/* y = f(a, b), z = y c; then as columns of products. Rows of k elements. */
typedef struct qn_gate_sizes {
    int64_t k;
    qn_rows a, b, c;
    int32_t what, has_c, block; /* what: as of qn_walk_sizes */
    float p;
} qn_gate_sizes;

typedef struct qn_rope_sizes {
    int64_t groups[QN_GPU_MAX_JOBS];
    int64_t d, n_rot, n_table;
    qn_rows x[QN_GPU_MAX_JOBS], table;
    /* heads_first: rows are [.., heads, tokens]; else [.., tokens, heads] */
    int64_t heads[QN_GPU_MAX_JOBS], tokens;
    int32_t n_jobs, heads_first, neox, back;
} qn_rope_sizes;

typedef struct qn_get_rows_sizes {
    int64_t m, n_rows, table_bytes; /* table [n_rows, m], bytes from a row to the next */
    qn_rows ids;
    int32_t format, id_format;
} qn_get_rows_sizes;

typedef struct qn_set_rows_sizes {
    int64_t groups[QN_GPU_MAX_JOBS];
    /* x [n, m] into dst [n_rows, m] */
    int64_t m[QN_GPU_MAX_JOBS], n[QN_GPU_MAX_JOBS], n_rows[QN_GPU_MAX_JOBS], dst_bytes[QN_GPU_MAX_JOBS];
    qn_rows x[QN_GPU_MAX_JOBS], ids[QN_GPU_MAX_JOBS];
    int32_t format[QN_GPU_MAX_JOBS], id_format[QN_GPU_MAX_JOBS], block_bytes[QN_GPU_MAX_JOBS]; /* 0: a real format */
    int32_t n_jobs;
} qn_set_rows_sizes;

/* Queries are rotated (job 0), keys are and go to their cache (job 1 of `turn`, job 0 of `write`), values go to theirs.
 */
typedef struct qn_turn_write_sizes {
    qn_rope_sizes turn;
    qn_set_rows_sizes write;
} qn_turn_write_sizes;

typedef struct qn_line_sizes {
    qn_walk_sizes lines; /* where each begins in x and y */
    int64_t n, x_step, y_step, k;
    int32_t descending;
} qn_line_sizes;

typedef struct qn_reduce_sizes {
    qn_walk_sizes kept, reduced; /* the dimensions of x, parted */
    float correction;
    int32_t what; /* qn_gpu_reduce */
} qn_reduce_sizes;

/* Gradients of what goes along rows: dy and x, of n elements a row. */
typedef struct qn_rows_back_sizes {
    int64_t n, n_rows, block; /* block: rows that are added up together */
    qn_rows dy, x;
    float eps;
    int32_t is_log, centred, has_weight, wants_x, wants_w, wants_b;
} qn_rows_back_sizes;

typedef struct qn_pad_sizes {
    int64_t n, dim[8], before[8], size[8], stride[8]; /* dim: of y; size and stride: of x */
    int64_t value;                                    /* the bytes of an element */
    int32_t rank, bytes;
} qn_pad_sizes;

/* Places in the numbers of a step: graph/ops/optim.h's. */
enum {
    QN_GPU_OPTIM_sign,
    QN_GPU_OPTIM_decay,
    QN_GPU_OPTIM_sgd_momentum,
    QN_GPU_OPTIM_sgd_share,
    QN_GPU_OPTIM_sgd_rate,
    QN_GPU_OPTIM_adam_beta1 = 2,
    QN_GPU_OPTIM_adam_beta2,
    QN_GPU_OPTIM_adam_rate,
    QN_GPU_OPTIM_adam_root,
    QN_GPU_OPTIM_adam_eps,
    QN_GPU_OPTIM_adam_keep
};

typedef struct qn_optim_sizes {
    qn_walk_sizes g; /* the gradient; the parameter and its state are dense */
    int32_t rows, has_from, mode;
} qn_optim_sizes;

typedef struct qn_quantize_sizes {
    int64_t k, n_columns;
    qn_rows x;
} qn_quantize_sizes;

typedef struct qn_linear_sizes {
    int64_t groups[QN_GPU_MAX_JOBS];
    int64_t k, n_columns; /* x [n_columns, k] F32, or quantized columns, which all jobs read */
    qn_rows x;
    int64_t m[QN_GPU_MAX_JOBS], w_bytes[QN_GPU_MAX_JOBS]; /* w [m, k]; from a row to the next */
    int64_t expert_bytes[QN_GPU_MAX_JOBS], bias_row[QN_GPU_MAX_JOBS];
    int64_t id_row, id_step; /* experts: ids [n_columns / u, u] */
    int32_t has_bias[QN_GPU_MAX_JOBS], n_jobs, format;
    int32_t has_sum;                           /* job 0's y is added to `other` as well, which has its shape */
    int32_t u, shared_x, n_experts, id_format; /* u: places of a token, which share its x or not; 0: no experts */
} qn_linear_sizes;

enum { QN_GPU_MAX_SLOPES = 128 };

typedef struct qn_attention_sizes {
    int32_t n_query, n_head, n_kv, d, dv, n_lists, capacity, n_cells;
    int32_t q_query, q_head;      /* strides of q [n_query, n_head, d] */
    int32_t k_head, v_head;       /* bytes: of one cell of k and v */
    int32_t list_row, list_entry; /* of lists [n_lists, capacity] */
    int64_t k_cell, v_cell;       /* bytes */
    int32_t span_row, span_entry; /* of spans [n_query, 3] */
    int32_t k_format, v_format, sink_stride;
    float scale, softcap;
    int32_t has_slopes;
    float slope[QN_GPU_MAX_SLOPES]; /* ALiBi's, by head */
} qn_attention_sizes;

#endif
