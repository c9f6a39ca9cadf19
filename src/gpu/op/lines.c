/* SPDX-License-Identifier: MIT */
/* src/gpu/op/lines.c -- what goes along lines of any stride: softmax, the best k, sums and extremes. */
#include "gpu/gpu.h"

enum { BLOCK = 2048, LONGEST = 8192 }; /* longer sums and lines need doubles; orders of elements are counted */

static bool real(qn_dtype dtype) { return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16; }

static bool want_kernel(const qn_node *n, bool there, qn_error *err)
{
    if (there) return true;
    QN_FAIL(err, unsupported, "%s: no kernel of %s with lines of this size", qn_node_op_name(n),
            qn_dtype_get(n->src[0]->dtype)->name);
    return false;
}

static int64_t length_of(const qn_node *x, int dim) { return x->layout.rank ? x->layout.dim[dim] : 1; }

/* Lines along `dim`, of x and of y. */
static void set_lines(qn_line_sizes *s, const qn_node *n, int dim)
{
    qn_layout x = n->src[0]->layout, y = n->layout;
    s->n = length_of(n->src[0], dim);
    s->x_step = x.rank ? x.stride[dim] : 1;
    s->y_step = y.rank ? y.stride[dim] : 1;
    if (x.rank) x.dim[dim] = y.dim[dim] = 1;
    const qn_layout *const layouts[] = {&x, &y};
    qn__gpu_walk(&s->lines, &x, layouts, 2);
    (void)qn__gpu_format(n->src[0]->dtype, &s->lines.format[0]);
    (void)qn__gpu_format(n->dtype, &s->lines.to);
}

/* ---- softmax ---- */

static bool softmax_accepts(const qn_node *n, qn_error *err)
{
    const int64_t length = length_of(n->src[0], ((const qn_along_attrs *)n->attrs)->dim);
    return want_kernel(n, real(n->src[0]->dtype) && real(n->dtype) && length <= LONGEST, err);
}

static void softmax_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_line_sizes s = {0};
    set_lines(&s, n, ((const qn_along_attrs *)n->attrs)->dim);
    QN_GPU_LAUNCH(b, QN_GPU_softmax, s.n > 0 ? s.lines.n : 0, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]));
}

const qn_gpu_op qn__gpu_op_softmax = {softmax_accepts, NULL, softmax_launch};

/* ---- orders ---- */

static bool topk_accepts(const qn_node *n, qn_error *err)
{
    const qn_dtype x = n->src[0]->dtype;
    const int64_t length = length_of(n->src[0], ((const qn_sort_attrs *)n->attrs)->dim);
    return want_kernel(n, qn_dtype_get(x)->block_elems == 1 && x != QN_DTYPE_F64 && length <= LONGEST, err);
}

static void topk_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_sort_attrs *a = n->attrs;
    qn_line_sizes s = {.descending = a->descending};
    set_lines(&s, n, a->dim);
    s.k = n->op == QN_OP_topk ? a->k : s.n;
    QN_GPU_LAUNCH(b, QN_GPU_topk, s.k > 0 ? s.lines.n : 0, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]));
}

const qn_gpu_op qn__gpu_op_topk = {topk_accepts, NULL, topk_launch};
const qn_gpu_op qn__gpu_op_argsort = {topk_accepts, NULL, topk_launch};

/* ---- reductions ---- */

/* Parts the dimensions; how many elements are reduced to one. */
static int64_t set_reduce(qn_reduce_sizes *s, const qn_node *n)
{
    const qn_reduce_attrs *a = n->attrs;
    const qn_layout *x = &n->src[0]->layout;
    qn_layout kept = {0}, reduced = {0};
    for (int i = 0; i < x->rank; i++) {
        qn_layout *l = a->dims >> i & 1 ? &reduced : &kept;
        l->dim[l->rank] = x->dim[i];
        l->stride[l->rank++] = x->stride[i];
    }
    qn__gpu_walk(&s->kept, &kept, (const qn_layout *const[]){&kept}, 1);
    qn__gpu_walk(&s->reduced, &reduced, (const qn_layout *const[]){&reduced}, 1);
    (void)qn__gpu_format(n->src[0]->dtype, &s->kept.format[0]);
    (void)qn__gpu_format(n->dtype, &s->kept.to);
    s->correction = (float)a->value;
    return s->reduced.n;
}

static bool reduce_accepts(const qn_node *n, int64_t longest, bool reals, bool integers, qn_error *err)
{
    const qn_dtype x = n->src[0]->dtype;
    qn_reduce_sizes s = {0};
    const int64_t length = set_reduce(&s, n);
    const bool good =
        real(x) ? reals && length <= longest : integers && qn_dtype_get(x)->block_elems == 1 && x != QN_DTYPE_F64;
    return want_kernel(n, good && length > 0 && n->dtype != QN_DTYPE_F64, err);
}

static void reduce_launch(qn_gpu_builder *b, const qn_node *n, qn_gpu_kernel kernel, qn_gpu_reduce what)
{
    qn_reduce_sizes s = {.what = what};
    set_reduce(&s, n);
    QN_GPU_LAUNCH(b, kernel, s.kept.n, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]));
}

/* ROW(op, longest line of floats, floats, integers, kernel of floats, of integers, what) */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sum,           BLOCK,     true,  true,  reduce_sum,   reduce_count, SUM) \
    ROW(mean,          BLOCK,     true,  false, reduce_sum,   reduce_sum,   MEAN) \
    ROW(amax,          INT64_MAX, true,  true,  reduce_best,  reduce_best,  GREATEST) \
    ROW(amin,          INT64_MAX, true,  true,  reduce_best,  reduce_best,  LEAST) \
    ROW(argmax,        INT64_MAX, true,  true,  reduce_best,  reduce_best,  GREATEST_PLACE) \
    ROW(argmin,        INT64_MAX, true,  true,  reduce_best,  reduce_best,  LEAST_PLACE) \
    ROW(any,           INT64_MAX, true,  true,  reduce_count, reduce_count, ANY) \
    ROW(all,           INT64_MAX, true,  true,  reduce_count, reduce_count, ALL) \
    ROW(count_nonzero, INT64_MAX, true,  true,  reduce_count, reduce_count, COUNT) \
    ROW(prod,          0,         false, true,  reduce_count, reduce_count, PRODUCT) \
    ROW(var,           BLOCK,     true,  false, reduce_var,   reduce_var,   VARIANCE) \
    ROW(std,           BLOCK,     true,  false, reduce_var,   reduce_var,   DEVIATION)
/* clang-format on */

#define ROW(op, longest, reals, integers, of_reals, of_integers, what) \
    static bool op##_accepts(const qn_node *n, qn_error *err) \
    { \
        return reduce_accepts(n, longest, reals, integers, err); \
    } \
    static void op##_launch(qn_gpu_builder *b, const qn_node *n) \
    { \
        reduce_launch(b, n, real(n->src[0]->dtype) ? QN_GPU_##of_reals : QN_GPU_##of_integers, QN_GPU_##what); \
    } \
    const qn_gpu_op qn__gpu_op_##op = {op##_accepts, NULL, op##_launch};
ROWS(ROW)
