/* SPDX-License-Identifier: MIT */
/* src/gpu/op/train.c -- what training computes beyond a model's steps: gradients of layers, steps of optimizers. */
#include "gpu/gpu.h"
#include "quant/quant.h"

#include <string.h>

static bool real(qn_dtype dtype) { return dtype == QN_DTYPE_F32 || dtype == QN_DTYPE_F16 || dtype == QN_DTYPE_BF16; }
static bool plain(qn_dtype dtype) { return qn_dtype_get(dtype)->block_elems == 1; }

static bool want(const qn_node *n, bool good, qn_error *err)
{
    if (!good)
        QN_FAIL(err, unsupported, "%s: no kernel of %s with these sources", qn_node_op_name(n),
                qn_dtype_get(n->dtype)->name);
    return good;
}

/* Of all sources from one on. */
static bool want_f32(const qn_node *n, int from, qn_error *err)
{
    bool good = n->dtype == QN_DTYPE_F32;
    for (int i = from; i < n->n_src; i++) good = good && n->src[i]->dtype == QN_DTYPE_F32;
    return want(n, good, err);
}

/* ---- rows ---- */

static int64_t last_dim(const qn_layout *l) { return l->rank > 0 ? l->dim[l->rank - 1] : 1; }

static bool rows_accept(const qn_node *n, qn_error *err)
{
    return want_f32(n, 0, err) && qn__gpu_want_rows(n, "dy", n->src[0], err) &&
           qn__gpu_want_rows(n, n->op == QN_OP_norm_back ? "x" : "y", n->src[1], err) &&
           (n->n_src < 3 || qn__gpu_want_dense(n, "the weight", n->src[2], err));
}

/* Of the second source, of which there are as many as of dy; false: there are none. */
static bool set_rows(qn_rows_back_sizes *s, const qn_node *n)
{
    const qn_layout *x = &n->src[1]->layout;
    s->n = last_dim(x);
    return qn_layout_numel(x) > 0 && qn__gpu_rows_at(&n->src[0]->layout, &s->dy, &s->n_rows) &&
           qn__gpu_rows_at(x, &s->x, &s->n_rows);
}

static void softmax_back_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_rows_back_sizes s = {.is_log = ((const qn_softmax_back_attrs *)n->attrs)->log};
    if (set_rows(&s, n))
        QN_GPU_LAUNCH(b, QN_GPU_softmax_back, s.n_rows, s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]), QN_GPU_OF(n->src[1]));
}

const qn_gpu_op qn__gpu_op_softmax_back = {rows_accept, NULL, softmax_back_launch};

/* Blocks of rows as the CPU takes them. */
enum { MIN_BLOCK = 16, MAX_BLOCKS = 256 };

static int64_t block_rows(int64_t rows)
{
    const int64_t least = (rows + MAX_BLOCKS - 1) / MAX_BLOCKS;
    return least < MIN_BLOCK ? MIN_BLOCK : least;
}

/* Mean and scale of each row. */
static uint64_t norm_back_scratch(const qn_node *n)
{
    const qn_layout *x = &n->src[1]->layout;
    return qn_layout_numel(x) > 0 ? (uint64_t)(qn_layout_numel(x) / last_dim(x)) * 2 * sizeof(float) : 0;
}

static bool norm_back_accepts(const qn_node *n, qn_error *err)
{
    return rows_accept(n, err) && want(n, qn_layout_numel(&n->src[1]->layout) > 0, err);
}

static void norm_back_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_norm_back_attrs *a = n->attrs;
    qn_rows_back_sizes s = {.eps = (float)a->eps,
                            .centred = a->centred,
                            .has_weight = n->n_src > 2,
                            .wants_x = (a->wanted & QN_NORM_x) != 0,
                            .wants_w = (a->wanted & QN_NORM_w) != 0,
                            .wants_b = (a->wanted & QN_NORM_b) != 0};
    const qn_node *dy = n->src[0], *x = n->src[1];
    if (!set_rows(&s, n)) return;
    s.block = block_rows(s.n_rows);
    QN_GPU_LAUNCH(b, QN_GPU_norm_back, s.n_rows, s, QN_GPU_OF(n), QN_GPU_OF(dy), QN_GPU_OF(x),
                  QN_GPU_OF(n->src[n->n_src - 1]), QN_GPU_SCRATCH(0));
    if (!s.wants_w && !s.wants_b) return;
    const int64_t first = s.wants_x ? qn_layout_numel(&x->layout) * (int64_t)sizeof(float) : 0;
    QN_GPU_LAUNCH(b, QN_GPU_norm_sums, qn__gpu_groups(QN_GPU_norm_sums, s.n), s, QN_GPU_AT(n, first), QN_GPU_OF(dy),
                  QN_GPU_OF(x), QN_GPU_SCRATCH(0));
}

const qn_gpu_op qn__gpu_op_norm_back = {norm_back_accepts, norm_back_scratch, norm_back_launch};

/* ---- gates ---- */

static bool swiglu_back_accepts(const qn_node *n, qn_error *err)
{
    return want(n, real(n->dtype) && real(n->src[0]->dtype) && real(n->src[1]->dtype) && real(n->src[2]->dtype), err);
}

static void swiglu_back_launch(qn_gpu_builder *b, const qn_node *n)
{
    qn_walk_sizes s = {0};
    const qn_layout *layouts[3];
    for (int i = 0; i < 3; i++) {
        layouts[i] = &n->src[i]->layout;
        (void)qn__gpu_format(n->src[i]->dtype, &s.format[i]);
    }
    (void)qn__gpu_format(n->dtype, &s.to);
    qn__gpu_walk(&s, layouts[0], layouts, 3);
    QN_GPU_LAUNCH(b, QN_GPU_swiglu_back, qn__gpu_groups(QN_GPU_swiglu_back, s.n), s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]),
                  QN_GPU_OF(n->src[1]), QN_GPU_OF(n->src[2]));
}

const qn_gpu_op qn__gpu_op_swiglu_back = {swiglu_back_accepts, NULL, swiglu_back_launch};

/* ---- parts, and what is around ---- */

static bool barrier_accepts(const qn_node *n, qn_error *err) { return want(n, plain(n->dtype), err); }
static void barrier_launch(qn_gpu_builder *b, const qn_node *n) { qn__gpu_move(b, n, &n->layout, n->src[0]); }
const qn_gpu_op qn__gpu_op_barrier = {barrier_accepts, NULL, barrier_launch};

static bool tri_accepts(const qn_node *n, qn_error *err)
{
    const qn_layout *l = &n->layout;
    return want(n, plain(n->dtype) && l->dim[l->rank - 1] < INT32_MAX && l->dim[l->rank - 2] < INT32_MAX, err);
}

static void tri_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_tri_attrs *a = n->attrs;
    const qn_layout *l = &n->layout;
    qn_walk_sizes s = {.what = qn_dtype_get(n->dtype)->block_bytes,
                       .choice = a->upper,
                       .w = a->diagonal,
                       .v = l->dim[l->rank - 2] << 31 | l->dim[l->rank - 1]};
    const qn_layout *const layouts[] = {&n->src[0]->layout};
    qn__gpu_walk(&s, l, layouts, 1);
    QN_GPU_LAUNCH(b, QN_GPU_tri, qn__gpu_groups(QN_GPU_tri, s.n), s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]));
}

const qn_gpu_op qn__gpu_op_tri = {tri_accepts, NULL, tri_launch};

static bool pad_accepts(const qn_node *n, qn_error *err)
{
    return want(n, plain(n->dtype) && (real(n->dtype) || ((const qn_pad_attrs *)n->attrs)->value == 0), err);
}

/* Of whole numbers there is one zero. */
static int64_t bits_of(qn_dtype dtype, double value)
{
    const float single = (float)value;
    uint32_t bits = 0;
    uint64_t wide = 0;
    memcpy(&bits, &single, sizeof(bits));
    memcpy(&wide, &value, sizeof(wide));
    return dtype == QN_DTYPE_F16    ? qn__f32_to_f16(single)
           : dtype == QN_DTYPE_BF16 ? qn__f32_to_bf16(single)
           : dtype == QN_DTYPE_F32  ? (int64_t)bits
           : dtype == QN_DTYPE_F64  ? (int64_t)wide
                                    : 0;
}

static void pad_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_pad_attrs *a = n->attrs;
    const qn_layout *y = &n->layout, *x = &n->src[0]->layout;
    qn_pad_sizes s = {.n = qn_layout_numel(y), .rank = y->rank, .bytes = qn_dtype_get(n->dtype)->block_bytes};
    s.value = bits_of(n->dtype, a->value);
    for (int i = 0; i < y->rank; i++) {
        s.dim[i] = y->dim[i];
        s.before[i] = a->before[i];
        s.size[i] = x->dim[i];
        s.stride[i] = x->stride[i];
    }
    QN_GPU_LAUNCH(b, QN_GPU_pad, qn__gpu_groups(QN_GPU_pad, s.n), s, QN_GPU_OF(n), QN_GPU_OF(n->src[0]));
}

const qn_gpu_op qn__gpu_op_pad = {pad_accepts, NULL, pad_launch};

/* ---- the sum of squares ---- */

enum { SQUARES = 4096 }; /* elements of a block */

static int carry_of(const qn_node *n) { return ((const qn_sum_squares_attrs *)n->attrs)->carry != 0; }
static int64_t blocks_of(const qn_node *x) { return (qn_layout_numel(&x->layout) + SQUARES - 1) / SQUARES; }

static int64_t all_blocks(const qn_node *n)
{
    int64_t blocks = 0;
    for (int i = carry_of(n); i < n->n_src; i++) blocks += blocks_of(n->src[i]);
    return blocks;
}

static bool squares_accepts(const qn_node *n, qn_error *err)
{
    bool good = true;
    for (int i = carry_of(n); i < n->n_src; i++) good = good && real(n->src[i]->dtype);
    return want(n, good, err);
}

static uint64_t squares_scratch(const qn_node *n) { return (uint64_t)(all_blocks(n) + 1) * sizeof(double); }

static void squares_launch(qn_gpu_builder *b, const qn_node *n)
{
    int64_t at = 0;
    for (int i = carry_of(n); i < n->n_src; i++) {
        const qn_node *x = n->src[i];
        qn_walk_sizes s = {0};
        (void)qn__gpu_format(x->dtype, &s.format[0]);
        qn__gpu_walk(&s, &x->layout, (const qn_layout *const[]){&x->layout}, 1);
        QN_GPU_LAUNCH(b, QN_GPU_squares, blocks_of(x), s, QN_GPU_SCRATCH(at * (int64_t)sizeof(double)), QN_GPU_OF(x));
        at += blocks_of(x);
    }
    const qn_walk_sizes s = {.n = at, .choice = carry_of(n)};
    QN_GPU_LAUNCH(b, QN_GPU_squares_sum, 1, s, QN_GPU_OF(n), QN_GPU_SCRATCH(0), QN_GPU_OF(n->src[0]));
}

const qn_gpu_op qn__gpu_op_sum_squares = {squares_accepts, squares_scratch, squares_launch};

/* ---- steps of optimizers ---- */

_Static_assert((int)QN_GPU_OPTIM_sign == (int)QN_OPTIM_sign && (int)QN_GPU_OPTIM_decay == (int)QN_OPTIM_decay &&
                   (int)QN_GPU_OPTIM_sgd_momentum == (int)QN_SGD_momentum &&
                   (int)QN_GPU_OPTIM_sgd_share == (int)QN_SGD_share && (int)QN_GPU_OPTIM_sgd_rate == (int)QN_SGD_rate &&
                   (int)QN_GPU_OPTIM_adam_beta1 == (int)QN_ADAM_beta1 &&
                   (int)QN_GPU_OPTIM_adam_beta2 == (int)QN_ADAM_beta2 &&
                   (int)QN_GPU_OPTIM_adam_rate == (int)QN_ADAM_rate &&
                   (int)QN_GPU_OPTIM_adam_root == (int)QN_ADAM_root && (int)QN_GPU_OPTIM_adam_eps == (int)QN_ADAM_eps &&
                   (int)QN_GPU_OPTIM_adam_keep == (int)QN_ADAM_keep,
               "kernels know the places of a step's numbers");
_Static_assert((int)QN_SGD_plain == 0 && (int)QN_SGD_buffered == 1 && (int)QN_SGD_nesterov == 2, "and the modes");

/* The gradient of any real type, what is stepped F32. */
static bool step_accepts(const qn_node *n, qn_error *err)
{
    return want(n, n->dtype == QN_DTYPE_F32 && real(n->src[1]->dtype), err);
}

static void step_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_node *x = n->src[1];
    const bool is_state = n->op != QN_OP_sgd_step;
    qn_optim_sizes s = {.rows = is_state && n->layout.rank > 0 ? (int32_t)n->layout.dim[0] : 1,
                        .has_from = n->n_src > 4,
                        .mode = is_state ? 0 : ((const qn_sgd_attrs *)n->attrs)->mode};
    (void)qn__gpu_format(x->dtype, &s.g.format[0]);
    qn__gpu_walk(&s.g, &x->layout, (const qn_layout *const[]){&x->layout}, 1);
    const qn_gpu_kernel kernel = n->op == QN_OP_adam_moments   ? QN_GPU_adam_moments
                                 : n->op == QN_OP_sgd_momentum ? QN_GPU_sgd_momentum
                                                               : QN_GPU_sgd_step;
    QN_GPU_LAUNCH(b, kernel, qn__gpu_groups(kernel, s.g.n), s, QN_GPU_OF(n->src[0]), QN_GPU_OF(x), QN_GPU_OF(n->src[2]),
                  QN_GPU_OF(n->src[3]), QN_GPU_OF(n->src[n->n_src - 1]));
}

const qn_gpu_op qn__gpu_op_sgd_momentum = {step_accepts, NULL, step_launch};
const qn_gpu_op qn__gpu_op_sgd_step = {step_accepts, NULL, step_launch};
const qn_gpu_op qn__gpu_op_adam_moments = {step_accepts, NULL, step_launch};

static void adam_step_launch(qn_gpu_builder *b, const qn_node *n)
{
    const qn_optim_sizes s = {.rows = (int32_t)n->src[1]->layout.dim[0], .g = {.n = qn_layout_numel(&n->layout)}};
    QN_GPU_LAUNCH(b, QN_GPU_adam_step, qn__gpu_groups(QN_GPU_adam_step, s.g.n), s, QN_GPU_OF(n->src[0]),
                  QN_GPU_OF(n->src[1]), QN_GPU_OF(n->src[2]));
}

const qn_gpu_op qn__gpu_op_adam_step = {step_accepts, NULL, adam_step_launch};
