/* SPDX-License-Identifier: MIT */
/* quern/tensor.h -- data types, shapes, views, and packing to and from block formats.
 *
 * A `qn_layout` says where the elements of a tensor lie relative to a start: rank 0 to 8, dimensions outermost first,
 * strides in elements. Views are layouts over the same memory; no function here touches data unless its name says
 * pack or unpack. Dimension arguments may be negative and then count from the end, as in PyTorch. */
#ifndef QUERN_TENSOR_H
#define QUERN_TENSOR_H

#include <quern/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_MAX_RANK 8

/* ---- data types ------------------------------------------------------------------------------ */

/* QN_DTYPE(name, id in a GGUF file or -1, elements a block, bytes a block, class); row order is enum order, append
 * only. Classes: real = IEEE-like scalars, integer, boolean, block = a packed group of elements along the last
 * dimension. Sizes and ids: the GGUF specification and the ggml type table. */
/* clang-format off */
#define QN_DTYPE_ROWS(QN_DTYPE) \
    QN_DTYPE(F32,      0,   1,   4, real) \
    QN_DTYPE(F16,      1,   1,   2, real) \
    QN_DTYPE(BF16,    30,   1,   2, real) \
    QN_DTYPE(F64,     28,   1,   8, real) \
    QN_DTYPE(I8,      24,   1,   1, integer) \
    QN_DTYPE(I16,     25,   1,   2, integer) \
    QN_DTYPE(I32,     26,   1,   4, integer) \
    QN_DTYPE(I64,     27,   1,   8, integer) \
    QN_DTYPE(U8,      -1,   1,   1, integer) \
    QN_DTYPE(BOOL,    -1,   1,   1, boolean) \
    QN_DTYPE(Q4_0,     2,  32,  18, block) \
    QN_DTYPE(Q4_1,     3,  32,  20, block) \
    QN_DTYPE(Q5_0,     6,  32,  22, block) \
    QN_DTYPE(Q5_1,     7,  32,  24, block) \
    QN_DTYPE(Q8_0,     8,  32,  34, block) \
    QN_DTYPE(Q2_K,    10, 256,  84, block) \
    QN_DTYPE(Q3_K,    11, 256, 110, block) \
    QN_DTYPE(Q4_K,    12, 256, 144, block) \
    QN_DTYPE(Q5_K,    13, 256, 176, block) \
    QN_DTYPE(Q6_K,    14, 256, 210, block) \
    QN_DTYPE(IQ2_XXS, 16, 256,  66, block) \
    QN_DTYPE(IQ2_XS,  17, 256,  74, block) \
    QN_DTYPE(IQ3_XXS, 18, 256,  98, block) \
    QN_DTYPE(IQ1_S,   19, 256,  50, block) \
    QN_DTYPE(IQ4_NL,  20,  32,  18, block) \
    QN_DTYPE(IQ3_S,   21, 256, 110, block) \
    QN_DTYPE(IQ2_S,   22, 256,  82, block) \
    QN_DTYPE(IQ4_XS,  23, 256, 136, block) \
    QN_DTYPE(IQ1_M,   29, 256,  56, block) \
    QN_DTYPE(TQ1_0,   34, 256,  54, block) \
    QN_DTYPE(TQ2_0,   35, 256,  66, block) \
    QN_DTYPE(MXFP4,   39,  32,  17, block) \
    QN_DTYPE(NVFP4,   40,  64,  36, block)
/* clang-format on */

typedef enum qn_dtype {
/* clang-format off */
#define QN_DTYPE_ENUM(name, id, block, bytes, class) QN_DTYPE_##name,
    QN_DTYPE_ROWS(QN_DTYPE_ENUM)
#undef QN_DTYPE_ENUM
    QN_DTYPE_COUNT
    /* clang-format on */
} qn_dtype;

typedef enum qn_dtype_class { QN_CLASS_real, QN_CLASS_integer, QN_CLASS_boolean, QN_CLASS_block } qn_dtype_class;

typedef struct qn_dtype_info {
    const char *name; /* "Q4_K" */
    int gguf_id;      /* -1: cannot be stored in a GGUF file */
    int block_elems;  /* elements a block along the last dimension; 1 for scalars */
    int block_bytes;
    qn_dtype_class class_;
} qn_dtype_info;

/* Never NULL: an out-of-range dtype gives a row named "?" with block_elems 1 and block_bytes 0. */
QN_API const qn_dtype_info *qn_dtype_get(qn_dtype dtype);
/* By name, case-insensitive ("q4_k"); or by the id that a GGUF file stores. False when there is no such row. */
QN_API bool qn_dtype_find(const char *name, qn_dtype *out);
QN_API bool qn_dtype_from_gguf(uint32_t gguf_id, qn_dtype *out);
/* Bytes of one row of `n` elements; 0 when n is negative, not a multiple of the block, or the size overflows int64. */
QN_API int64_t qn_dtype_row_bytes(qn_dtype dtype, int64_t n);

/* ---- shapes ---------------------------------------------------------------------------------- */

typedef struct qn_shape {
    int rank;
    int64_t dim[QN_MAX_RANK]; /* outermost first; entries past rank are 0 */
} qn_shape;

/* qn_shape_of(2, 3, 4) is [2,3,4]; no argument list for rank 0: use (qn_shape){0}. */
#define qn_shape_of(...) ((qn_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})

/* Product of the dimensions, 1 for rank 0; -1 when a dimension is negative, the rank is out of range or it overflows.
 */
QN_API int64_t qn_shape_numel(const qn_shape *shape);
QN_API bool qn_shape_equal(const qn_shape *a, const qn_shape *b);
/* NumPy broadcasting of two shapes; invalid when they don't fit (the message names both). */
QN_API qn_status qn_shape_broadcast(const qn_shape *a, const qn_shape *b, qn_shape *out, qn_error *err);
/* "[2,3,4]", always terminated; returns buf. 128 bytes hold every valid shape without empty dimensions, 192 any. */
QN_API const char *qn_shape_print(const qn_shape *shape, char *buf, size_t size);

typedef struct qn_layout {
    int rank;
    int64_t dim[QN_MAX_RANK];
    int64_t stride[QN_MAX_RANK]; /* in elements; 0 where a dimension is broadcast, negative after flip */
    int64_t offset;              /* of the first element, in elements */
} qn_layout;

/* Row-major and dense, offset 0. invalid when the shape is (negative dimension, rank above 8, more than 2^62 elements).
 */
QN_API qn_status qn_layout_contiguous(const qn_shape *shape, qn_layout *out, qn_error *err);
QN_API bool qn_layout_is_contiguous(const qn_layout *layout);
QN_API int64_t qn_layout_numel(const qn_layout *layout);
QN_API qn_shape qn_layout_shape(const qn_layout *layout);
/* Lowest and one past the highest element touched, relative to the storage; both 0 for an empty layout. */
QN_API void qn_layout_range(const qn_layout *layout, int64_t *begin, int64_t *end);

/* Views. `in` and `out` may be the same object. Semantics are PyTorch's: view fails when strides don't allow it and
 * infers one -1; permute is out[i] = in[dims[i]]; squeeze leaves a dimension that is not 1 alone; expand gives stride 0
 * and accepts -1 for "keep"; narrow and select clamp nothing and fail out of range, a negative start or index counts
 * from the end; slice takes Python's start:stop:step with step > 0 and clamps as Python does (INT64_MAX for "to the
 * end"). */
QN_API qn_status qn_layout_view(const qn_layout *in, const qn_shape *shape, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_permute(const qn_layout *in, const int *dims, int n_dims, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_transpose(const qn_layout *in, int dim0, int dim1, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_squeeze(const qn_layout *in, int dim, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_unsqueeze(const qn_layout *in, int dim, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_expand(const qn_layout *in, const qn_shape *shape, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_narrow(const qn_layout *in, int dim, int64_t start, int64_t length, qn_layout *out,
                                  qn_error *err);
QN_API qn_status qn_layout_select(const qn_layout *in, int dim, int64_t index, qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_slice(const qn_layout *in, int dim, int64_t start, int64_t stop, int64_t step,
                                 qn_layout *out, qn_error *err);
QN_API qn_status qn_layout_flip(const qn_layout *in, int dim, qn_layout *out, qn_error *err);

/* ---- packing --------------------------------------------------------------------------------- */

/* Unpacks `n` elements (a multiple of the block) of one row to float32: exactly the value that the block stands for.
 * Every real and block dtype unpacks. `src` needs no alignment. */
QN_API qn_status qn_unpack(qn_dtype dtype, const void *src, float *dst, int64_t n, qn_error *err);

/* Packs n_rows rows of n elements each, round to nearest or the format's own search; `importance` (n weights, one a
 * column, all >= 0) steers the search of formats that take one and may be NULL. unsupported when the format only
 * unpacks. NaN and infinities are refused with invalid and the row named. `dst` holds n_rows *
 * qn_dtype_row_bytes(dtype, n). */
QN_API qn_status qn_pack(qn_dtype dtype, const float *src, void *dst, int64_t n_rows, int64_t n,
                         const float *importance, qn_error *err);
QN_API bool qn_dtype_can_pack(qn_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
