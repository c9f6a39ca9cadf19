/* SPDX-License-Identifier: MIT */
/* quern/functions.h -- operations with options: reductions, products, indexing, joining, order, random numbers,
 * convolution.
 *
 * Included by quern/ops.h, whose rules hold. Names and semantics are PyTorch's; a trailing _ writes into the first
 * tensor and returns it.
 *
 * Lists of dimensions are two arguments, written by a macro:
 *     qn_sum(x, QN_DIMS(0, -1), true)     over the first and the last, which stay with size 1
 *     qn_mean(x, QN_ALL, false)           over all of them: a scalar
 * Indices are I64 or I32. Since nothing is computed when an operation is recorded, one that is out of range is found
 * when somebody looks: that call fails, and the context's error names the operation, the index and the size. What was
 * recorded before the operation was done, as it is written down; what came after was not, so tensors written in place
 * after it are what they were, and new ones have no value. Likewise an integer that is divided by 0 and a probability
 * outside 0 to 1 (qn_bernoulli, qn_binary_cross_entropy). Negative indices count from the end in qn_index and
 * qn_index_put only, as in PyTorch. */
#ifndef QUERN_FUNCTIONS_H
#define QUERN_FUNCTIONS_H

#include <quern/array.h>

#include <limits.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define QN_DIMS(...) (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
/* clang-format on */
#define QN_ALL NULL, 0

/* ---- reductions ---- */

/* QN_REDUCE(name, types, "what it gives"): qn_name(x, dims, n_dims, keepdim). Types: any = every dtype; real = real
 * ones only; convert = integers become F32. */
/* clang-format off */
#define QN_REDUCE_ROWS(QN_REDUCE) \
    QN_REDUCE(sum,           any,     "the sum; of integers and BOOL as I64") \
    QN_REDUCE(prod,          any,     "the product; of integers and BOOL as I64") \
    QN_REDUCE(mean,          real,    "the mean") \
    QN_REDUCE(amax,          any,     "the greatest, or NaN") \
    QN_REDUCE(amin,          any,     "the least, or NaN") \
    QN_REDUCE(logsumexp,     convert, "log of the sum of e^x") \
    QN_REDUCE(any,           any,     "is one not 0, as BOOL") \
    QN_REDUCE(all,           any,     "is none 0, as BOOL") \
    QN_REDUCE(count_nonzero, any,     "how many are not 0, as I64")
/* clang-format on */
#define QN_REDUCE_DECLARE(name, types, text) \
    QN_API qn_tensor *qn_##name(qn_tensor *x, const int *dims, int n_dims, bool keepdim); \
    QN_API qn_tensor *qn_##name##_out(qn_tensor *out, qn_tensor *x, const int *dims, int n_dims, bool keepdim);
QN_REDUCE_ROWS(QN_REDUCE_DECLARE)
#undef QN_REDUCE_DECLARE

/* Divided by n - correction: 1 for the sample's variance, 0 for the population's. */
QN_API qn_tensor *qn_var(qn_tensor *x, const int *dims, int n_dims, double correction, bool keepdim);
QN_API qn_tensor *qn_std(qn_tensor *x, const int *dims, int n_dims, double correction, bool keepdim);
/* (sum |x|^p)^(1/p); p may be infinite or 0. */
QN_API qn_tensor *qn_norm(qn_tensor *x, double p, const int *dims, int n_dims, bool keepdim);
/* Where along dim the first greatest (least) is, I64. With the dimension QN_FLAT: among all elements, row-major. */
#define QN_FLAT INT_MIN
QN_API qn_tensor *qn_argmax(qn_tensor *x, int dim, bool keepdim);
QN_API qn_tensor *qn_argmin(qn_tensor *x, int dim, bool keepdim);
/* The greatest (least) along dim; where it is goes to *indices unless NULL. The gradient goes to that one element. */
QN_API qn_tensor *qn_max(qn_tensor *x, int dim, bool keepdim, qn_tensor **indices);
QN_API qn_tensor *qn_min(qn_tensor *x, int dim, bool keepdim, qn_tensor **indices);

/* ---- along one dimension ---- */
QN_API qn_tensor *qn_softmax(qn_tensor *x, int dim);
QN_API qn_tensor *qn_log_softmax(qn_tensor *x, int dim);
QN_API qn_tensor *qn_cumsum(qn_tensor *x, int dim);
QN_API qn_tensor *qn_cumprod(qn_tensor *x, int dim);

/* ---- products ---- */

/* Vectors are rows (a) or columns (b), leading dimensions broadcast. */
QN_API qn_tensor *qn_matmul(qn_tensor *a, qn_tensor *b);
QN_API qn_tensor *qn_mm(qn_tensor *a, qn_tensor *b);  /* [m,k] x [k,n] */
QN_API qn_tensor *qn_bmm(qn_tensor *a, qn_tensor *b); /* [b,m,k] x [b,k,n] */
/* beta c + alpha a b; c broadcasts to [m,n], and is not read when beta is 0. */
QN_API qn_tensor *qn_addmm(qn_tensor *c, qn_tensor *a, qn_tensor *b, double beta, double alpha);
/* x w^T + b over the last dimension: x [..,k], w [m,k] in any format, b [m] or NULL. */
QN_API qn_tensor *qn_linear(qn_tensor *x, qn_tensor *w, qn_tensor *b);

/* ---- element by element, with options ---- */

QN_API qn_tensor *qn_where(qn_tensor *cond, qn_tensor *a, qn_tensor *b); /* cond BOOL: a where true */
/* Infinite for no bound; NaN makes all NaN. For integers, a bound beyond the dtype's range counts as the end of that
 * range. */
QN_API qn_tensor *qn_clamp(qn_tensor *x, double min, double max);
QN_API qn_tensor *qn_clamp_(qn_tensor *x, double min, double max);
QN_API qn_tensor *qn_gelu(qn_tensor *x, bool tanh); /* tanh: the approximation; else exact */
QN_API qn_tensor *qn_elu(qn_tensor *x, double alpha);
QN_API qn_tensor *qn_leaky_relu(qn_tensor *x, double slope);
QN_API qn_tensor *qn_softplus(qn_tensor *x, double beta, double threshold);
QN_API qn_tensor *qn_lerp(qn_tensor *a, qn_tensor *b, qn_tensor *weight);
QN_API qn_tensor *qn_lerp_number(qn_tensor *a, qn_tensor *b, double weight);
QN_API qn_tensor *qn_addcmul(qn_tensor *x, qn_tensor *a, qn_tensor *b, double value); /* x + value a b */
QN_API qn_tensor *qn_addcdiv(qn_tensor *x, qn_tensor *a, qn_tensor *b, double value); /* x + value a / b */
QN_API qn_tensor *qn_masked_fill(qn_tensor *x, qn_tensor *mask, double value);        /* mask BOOL; both broadcast */
QN_API qn_tensor *qn_masked_fill_(qn_tensor *x, qn_tensor *mask, double value);

/* ---- joining and rearranging: new tensors ---- */

QN_API qn_tensor *qn_cat(qn_tensor *const *t, int n, int dim); /* brought to a common dtype */
QN_API qn_tensor *qn_stack(qn_tensor *const *t, int n, int dim);
QN_API qn_tensor *qn_repeat(qn_tensor *t, qn_shape times);
QN_API qn_tensor *qn_roll(qn_tensor *t, int64_t shift, int dim);
QN_API qn_tensor *qn_flip(qn_tensor *t, const int *dims, int n_dims);
QN_API qn_tensor *qn_tril(qn_tensor *t, int64_t diagonal);
QN_API qn_tensor *qn_triu(qn_tensor *t, int64_t diagonal);
QN_API qn_tensor *qn_diagonal(qn_tensor *t, int64_t offset, int dim0, int dim1); /* a view */
/* PyTorch's order: before and after of the last dimension, then of the one before it, ..; negative counts crop. mode:
 * "constant" (NULL), "reflect", "replicate", "circular". */
QN_API qn_tensor *qn_pad(qn_tensor *t, const int64_t *pads, int n_pads, const char *mode, double value);

/* ---- indexing ---- */

QN_API qn_tensor *qn_gather(qn_tensor *x, int dim, qn_tensor *index);
QN_API qn_tensor *qn_scatter(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src);
QN_API qn_tensor *qn_scatter_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src);
QN_API qn_tensor *qn_scatter_add(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src);
QN_API qn_tensor *qn_scatter_add_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src);
QN_API qn_tensor *qn_index_select(qn_tensor *x, int dim, qn_tensor *index);
QN_API qn_tensor *qn_index_add(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src, double alpha);
QN_API qn_tensor *qn_index_add_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src, double alpha);
QN_API qn_tensor *qn_index_copy(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src);
QN_API qn_tensor *qn_index_copy_(qn_tensor *x, int dim, qn_tensor *index, qn_tensor *src);
/* t[.., start : start + n, ..] = src along dim, or += src, where n is src's size there: PyTorch's t.narrow(dim, start,
 * n).copy_(src), and .add_(src), as one node that touches nothing else. F32 is converted to t's dtype on the way; t may
 * be of a block format, in whole blocks. Returns t. */
QN_API qn_tensor *qn_slice_update_(qn_tensor *t, int dim, int64_t start, qn_tensor *src, bool accumulate);
/* x[indices[0], indices[1], ..]: n of them, which broadcast together, for the first n dimensions. */
QN_API qn_tensor *qn_index(qn_tensor *x, qn_tensor *const *indices, int n);
/* The same places written; values broadcast. accumulate adds. */
QN_API qn_tensor *qn_index_put(qn_tensor *x, qn_tensor *const *indices, int n, qn_tensor *values, bool accumulate);
QN_API qn_tensor *qn_index_put_(qn_tensor *x, qn_tensor *const *indices, int n, qn_tensor *values, bool accumulate);
/* Rows of table [n,m] for indices of any shape -> [..,m]. */
QN_API qn_tensor *qn_embedding(qn_tensor *table, qn_tensor *indices);

typedef struct qn_embedding_bag_options {
    const char *mode; /* "mean" (NULL), "sum" or "max" */
    /* where each bag begins among indices [k]; NULL with indices [bags, n], whose rows are the bags */
    qn_tensor *offsets;
    qn_tensor *weights;       /* of each index, like indices, in the table's dtype; "sum" only; NULL: 1 */
    bool include_last_offset; /* the last offset is where the last bag ends */
    bool has_padding_idx;
    int64_t padding_idx; /* this index counts for nothing; negative: from the table's end */
} qn_embedding_bag_options;
/* Rows of table [n,m] added up, or their mean or maximum, by bags -> [bags,m]; an empty bag gives 0. options may be
 * NULL. */
QN_API qn_tensor *qn_embedding_bag(qn_tensor *table, qn_tensor *indices, const qn_embedding_bag_options *options);

/* ---- order: NaN is the greatest, equal elements stay in order ---- */

QN_API qn_tensor *qn_argsort(qn_tensor *x, int dim, bool descending);
/* Values; where they were goes to *indices unless NULL. */
QN_API qn_tensor *qn_sort(qn_tensor *x, int dim, bool descending, qn_tensor **indices);
QN_API qn_tensor *qn_topk(qn_tensor *x, int64_t k, int dim, bool largest, qn_tensor **indices); /* best first */

/* ---- random numbers: of a seed, the same whatever the threads ---- */

QN_API void qn_manual_seed(qn_context *ctx, uint64_t seed);                  /* a new context has seed 0 */
QN_API qn_tensor *qn_rand(qn_context *ctx, qn_shape shape, qn_dtype dtype);  /* [0, 1) */
QN_API qn_tensor *qn_randn(qn_context *ctx, qn_shape shape, qn_dtype dtype); /* mean 0, deviation 1 */
QN_API qn_tensor *qn_uniform(qn_context *ctx, qn_shape shape, double from, double to, qn_dtype dtype);
QN_API qn_tensor *qn_normal(qn_context *ctx, qn_shape shape, double mean, double deviation, qn_dtype dtype);
/* low .. high - 1 */
QN_API qn_tensor *qn_randint(qn_context *ctx, int64_t low, int64_t high, qn_shape shape, qn_dtype dtype);
QN_API qn_tensor *qn_randperm(qn_context *ctx, int64_t n); /* 0 .. n - 1 in some order, I64 */
/* 1 with that probability, else 0; of its dtype */
QN_API qn_tensor *qn_bernoulli(qn_tensor *probability);
/* 0 with probability p, the others / (1 - p) */
QN_API qn_tensor *qn_dropout(qn_tensor *x, double p, bool training);

/* ---- convolution, pooling, resizing: x [batch, channels, spatial ..], or without the batch ---- */

/* Zero is the default: stride and dilation 1, groups 1. Entries count spatial dimensions. */
typedef struct qn_conv_options {
    int64_t stride[3], padding[3], dilation[3];
    int64_t output_padding[3]; /* conv_transpose only */
    int groups;
} qn_conv_options;
/* b, options may be NULL */
QN_API qn_tensor *qn_conv1d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
QN_API qn_tensor *qn_conv2d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
QN_API qn_tensor *qn_conv3d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
QN_API qn_tensor *qn_conv_transpose1d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
QN_API qn_tensor *qn_conv_transpose2d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);
QN_API qn_tensor *qn_conv_transpose3d(qn_tensor *x, qn_tensor *w, qn_tensor *b, const qn_conv_options *options);

typedef struct qn_pool_options {
    /* stride 0: the kernel's size; dilation 0: 1, for max only */
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t divisor;             /* avg: divides by this instead; 0: by the window */
    bool ceil_mode, exclude_pad; /* avg: padding does not count */
} qn_pool_options;
QN_API qn_tensor *qn_max_pool1d(qn_tensor *x, const qn_pool_options *options);
QN_API qn_tensor *qn_max_pool2d(qn_tensor *x, const qn_pool_options *options);
QN_API qn_tensor *qn_max_pool3d(qn_tensor *x, const qn_pool_options *options);
QN_API qn_tensor *qn_avg_pool1d(qn_tensor *x, const qn_pool_options *options);
QN_API qn_tensor *qn_avg_pool2d(qn_tensor *x, const qn_pool_options *options);
QN_API qn_tensor *qn_avg_pool3d(qn_tensor *x, const qn_pool_options *options);
/* size: of the result, one number a spatial dimension. */
QN_API qn_tensor *qn_adaptive_avg_pool(qn_tensor *x, qn_shape size);
QN_API qn_tensor *qn_adaptive_max_pool(qn_tensor *x, qn_shape size);
/* mode "nearest" (NULL), or "linear", "bilinear", "trilinear" for 1, 2, 3 spatial dimensions; x with its batch. */
QN_API qn_tensor *qn_interpolate(qn_tensor *x, qn_shape size, const char *mode, bool align_corners);

/* ---- into memory that is there: PyTorch's out= ---- */

/* qn_name_out(out, ..) gives out the value of qn_name(..), in out's memory, whose address stays, and returns it, so
 * that calls chain; recorded again, it allocates nothing. out has the result's shape, and a dtype that the result may
 * be converted to, as in place; else the error names both and nothing has changed. It may be a source, or share memory
 * with one. The reductions above, and quern/ops.h, have the same form. QN_OUT(name, (parameters), (arguments)). */
/* clang-format off */
#define QN_OUT_ROWS(QN_OUT) \
    QN_OUT(matmul,       (qn_tensor *a, qn_tensor *b), (a, b)) \
    QN_OUT(mm,           (qn_tensor *a, qn_tensor *b), (a, b)) \
    QN_OUT(bmm,          (qn_tensor *a, qn_tensor *b), (a, b)) \
    QN_OUT(addmm,        (qn_tensor *c, qn_tensor *a, qn_tensor *b, double beta, double alpha), \
                         (c, a, b, beta, alpha)) \
    QN_OUT(linear,       (qn_tensor *x, qn_tensor *w, qn_tensor *b), (x, w, b)) \
    QN_OUT(var,          (qn_tensor *x, const int *dims, int n_dims, double correction, bool keepdim), \
                         (x, dims, n_dims, correction, keepdim)) \
    QN_OUT(std,          (qn_tensor *x, const int *dims, int n_dims, double correction, bool keepdim), \
                         (x, dims, n_dims, correction, keepdim)) \
    QN_OUT(norm,         (qn_tensor *x, double p, const int *dims, int n_dims, bool keepdim), \
                         (x, p, dims, n_dims, keepdim)) \
    QN_OUT(argmax,       (qn_tensor *x, int dim, bool keepdim), (x, dim, keepdim)) \
    QN_OUT(argmin,       (qn_tensor *x, int dim, bool keepdim), (x, dim, keepdim)) \
    QN_OUT(argsort,      (qn_tensor *x, int dim, bool descending), (x, dim, descending)) \
    QN_OUT(softmax,      (qn_tensor *x, int dim), (x, dim)) \
    QN_OUT(log_softmax,  (qn_tensor *x, int dim), (x, dim)) \
    QN_OUT(cumsum,       (qn_tensor *x, int dim), (x, dim)) \
    QN_OUT(cumprod,      (qn_tensor *x, int dim), (x, dim)) \
    QN_OUT(cat,          (qn_tensor *const *t, int n, int dim), (t, n, dim)) \
    QN_OUT(stack,        (qn_tensor *const *t, int n, int dim), (t, n, dim)) \
    QN_OUT(where,        (qn_tensor *cond, qn_tensor *a, qn_tensor *b), (cond, a, b)) \
    QN_OUT(clamp,        (qn_tensor *x, double min, double max), (x, min, max)) \
    QN_OUT(lerp,         (qn_tensor *a, qn_tensor *b, qn_tensor *weight), (a, b, weight)) \
    QN_OUT(addcmul,      (qn_tensor *x, qn_tensor *a, qn_tensor *b, double value), (x, a, b, value)) \
    QN_OUT(addcdiv,      (qn_tensor *x, qn_tensor *a, qn_tensor *b, double value), (x, a, b, value)) \
    QN_OUT(tril,         (qn_tensor *t, int64_t diagonal), (t, diagonal)) \
    QN_OUT(triu,         (qn_tensor *t, int64_t diagonal), (t, diagonal)) \
    QN_OUT(gather,       (qn_tensor *x, int dim, qn_tensor *index), (x, dim, index)) \
    QN_OUT(index_select, (qn_tensor *x, int dim, qn_tensor *index), (x, dim, index))
/* clang-format on */
#define QN_PARAMETERS(...) __VA_ARGS__
#define QN_OUT_DECLARE(name, parameters, arguments) \
    QN_API qn_tensor *qn_##name##_out(qn_tensor *out, QN_PARAMETERS parameters);
QN_OUT_ROWS(QN_OUT_DECLARE)
#undef QN_OUT_DECLARE
/* Two results: values into out, their places into indices, I64, both of one shape; NULL when one of them fits not, and
 * neither is written. */
QN_API qn_tensor *qn_max_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int dim, bool keepdim);
QN_API qn_tensor *qn_min_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int dim, bool keepdim);
QN_API qn_tensor *qn_sort_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int dim, bool descending);
QN_API qn_tensor *qn_topk_out(qn_tensor *out, qn_tensor *indices, qn_tensor *x, int64_t k, int dim, bool largest);

#ifdef __cplusplus
}
#endif
#endif
