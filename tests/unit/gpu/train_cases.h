/* SPDX-License-Identifier: MIT */
/* tests/unit/gpu/train_cases.h -- cases of what training computes: gradients of layers, steps of optimizers. */
#ifndef QN_TEST_GPU_TRAIN_CASES_H
#define QN_TEST_GPU_TRAIN_CASES_H

#include "rig.h"

/* Two values of one shape, the first with gaps between its rows. */
static void two_of_rows(rig *r, qn_node **a, qn_node **b)
{
    static const int64_t sizes[] = {1, 7, 16, 33, 64, 65, 300};
    const int64_t n = sizes[r->c->variant % 7];
    *a = viewed(r, input(r, QN_DTYPE_F32, SHAPE(3, 7, n + 3), PLAIN, 0), 'r');
    *b = input(r, QN_DTYPE_F32, SHAPE(3, 7, n), PLAIN, 0);
}

static qn_node *build_softmax_back(rig *r)
{
    qn_node *src[2];
    two_of_rows(r, &src[0], &src[1]);
    return qn__op(r->g, QN_OP_softmax_back, &(qn_softmax_back_attrs){.log = r->c->variant & 1}, src, 2);
}

static qn_node *build_norm_back(rig *r)
{
    qn_node *src[3];
    const int v = r->c->variant;
    const qn_norm_back_attrs a = {.eps = 1e-5, .centred = v & 1, .wanted = 1 + v % 7};
    two_of_rows(r, &src[0], &src[1]);
    src[2] = input(r, QN_DTYPE_F32, SHAPE(src[1]->layout.dim[2]), PLAIN, 0);
    return qn__op(r->g, QN_OP_norm_back, &a, src, v & 2 ? 3 : 2);
}

static qn_node *build_swiglu_back(rig *r)
{
    qn_node *src[3];
    for (int i = 0; i < 3; i++) src[i] = input(r, r->c->dtype, SHAPE(5, 70), WILD, 0);
    src[1] = viewed(r, src[1], 'f');
    return qn__op(r->g, QN_OP_swiglu_back, NULL, src, 3);
}

static qn_node *build_tri(rig *r)
{
    const int v = r->c->variant;
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(2, 9, 14), WILD, 0), r->c->view == 's' ? 'f' : r->c->view);
    return qn__tri(r->g, x, v % 9 - 4, v & 1);
}

static qn_node *build_pad(rig *r)
{
    const int v = r->c->variant;
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(3, 4, 14), WILD, 0), r->c->view);
    const int64_t before[] = {v & 1, 2, v & 2 ? -3 : 5}, after[] = {2, -1, v & 4 ? 0 : 7};
    return qn__pad(r->g, x, before, after, v & 16 ? -0.0 : r->c->dtype == QN_DTYPE_F32 ? -1.5 : 0);
}

static qn_node *build_barrier(rig *r)
{
    qn_node *x = viewed(r, input(r, r->c->dtype, SHAPE(5, 3, 70), WILD, 0), r->c->view);
    return qn__op(r->g, QN_OP_barrier, NULL, &x, 1);
}

static qn_node *build_linear_input(rig *r)
{
    const int64_t m = r->c->variant ? 300 : 20;
    qn_node *y = viewed(r, input(r, QN_DTYPE_F32, SHAPE(7, m + 3), PLAIN, 0), 'r');
    return qn__linear_input(r->g, y, param(r, r->c->dtype, SHAPE(m, 48), PLAIN, 0));
}

static qn_node *build_sum_squares(rig *r)
{
    const bool carry = r->c->variant & 1;
    qn_node *src[] = {carry ? input(r, QN_DTYPE_F64, (qn_shape){0}, PLAIN, 0)
                            : input(r, r->c->dtype, SHAPE(7, 3), PLAIN, 0),
                      viewed(r, input(r, r->c->dtype, SHAPE(3, 4001), PLAIN, 0), 't'),
                      input(r, QN_DTYPE_F32, SHAPE(4096), WILD, 0), input(r, r->c->dtype, SHAPE(0, 2), PLAIN, 0)};
    return qn__op(r->g, QN_OP_sum_squares, &(qn_sum_squares_attrs){carry}, src, r->c->variant & 2 ? 2 : 4);
}

/* A step of 5 x 67 parameters; the gradient is a transposed view. */
static qn_node *build_step(rig *r)
{
    const int v = r->c->variant;
    const qn_op op = r->c->op;
    const bool adam = op == QN_OP_adam_moments || op == QN_OP_adam_step,
               is_state = op == QN_OP_adam_moments || op == QN_OP_sgd_momentum;
    const int64_t n = 335, rows = adam ? 2 + (v & 1) : 1;
    qn_node *numbers = input(r, QN_DTYPE_F64, SHAPE(QN_OPTIM_NUMBERS), PLAIN, 0);
    qn_node *factor = input(r, QN_DTYPE_F64, (qn_shape){0}, PLAIN, 0);
    qn_node *g = viewed(r, input(r, r->c->dtype, SHAPE(67, 5), PLAIN, 0), 't');
    qn_node *dst = param(r, QN_DTYPE_F32, is_state ? SHAPE(rows, n) : SHAPE(5, 67), PLAIN, QN_NODE_mutable);
    qn_node *other = input(r, QN_DTYPE_F32, op == QN_OP_adam_step ? SHAPE(rows, n) : SHAPE(5, 67), PLAIN, 0);
    const qn_sgd_attrs mode = {v % 3};
    if (op == QN_OP_adam_step) return qn__op(r->g, op, NULL, (qn_node *[]){dst, other, numbers}, 3);
    qn_node *src[] = {dst, op == QN_OP_sgd_step && mode.mode == QN_SGD_buffered ? other : g, numbers, factor, other};
    const bool more = op == QN_OP_sgd_step ? mode.mode == QN_SGD_nesterov : (v & 2) != 0;
    return qn__op(r->g, op, op == QN_OP_sgd_step ? &mode : NULL, src, more ? 5 : 4);
}

static void training(void **state)
{
    static const struct {
        qn_op op;
        qn_node *(*build)(rig *r);
        int n;          /* variants in F32; of other dtypes one */
        bool all, real; /* dtypes */
    } rows[] = {{QN_OP_softmax_back, build_softmax_back, 14, false, false},
                {QN_OP_norm_back, build_norm_back, 28, false, false},
                {QN_OP_swiglu_back, build_swiglu_back, 1, false, true},
                {QN_OP_tri, build_tri, 18, true, true},
                {QN_OP_pad, build_pad, 8, true, true},
                {QN_OP_barrier, build_barrier, 4, true, true},
                {QN_OP_linear_input, build_linear_input, 2, false, true},
                {QN_OP_sum_squares, build_sum_squares, 4, false, true},
                {QN_OP_sgd_momentum, build_step, 4, false, true},
                {QN_OP_sgd_step, build_step, 3, false, true},
                {QN_OP_adam_moments, build_step, 4, false, true},
                {QN_OP_adam_step, build_step, 2, false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int d = 0; d < (rows[i].all ? N_PLAIN : rows[i].real ? 3 : 1); d++)
            for (int v = 0; v < (d == 0 ? rows[i].n : 1); v++)
                try(&(one_case){.what = qn__op_info(rows[i].op)->name,
                                .build = rows[i].build,
                                .op = rows[i].op,
                                .dtype = plain[d],
                                .view = "ctsf"[(v + d) % 4],
                                .variant = v + d});
    for (int d = 0; d <= N_PLAIN; d++) /* around: a zero with a sign */
        try(&(one_case){"pad", build_pad, QN_OP_pad, d < N_PLAIN ? plain[d] : QN_DTYPE_F64, 0, 'c', 16, false});
    assert_int_equal(n_wrong, 0);
}

#endif
