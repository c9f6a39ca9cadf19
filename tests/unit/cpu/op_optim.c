/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/op_optim.c -- the steps of optimizers (sgd_momentum, sgd_step, adam_moments, adam_step) and
 * sum_squares against formulas in double: parameters in F32 and F64, gradients of any dtype and layout, any number of
 * threads. */
#include "rig.h"

enum { ROWS = 57, COLS = 613, N = ROWS * COLS };

static tensor doubles_of(const tensor *t) /* the same values in F64 */
{
    tensor d = tensor_new(QN_DTYPE_F64, t->shape);
    for (int64_t i = 0; i < t->numel; i++) ((double *)d.data)[i] = t->value[i];
    d.value = memcpy(malloc((size_t)t->numel * 4 + 4), t->value, (size_t)t->numel * 4);
    return d;
}

static tensor random_as(qn_dtype dtype, qn_shape shape)
{
    if (dtype != QN_DTYPE_F64) return tensor_random(dtype, shape);
    tensor t = tensor_random(QN_DTYPE_F32, shape), d = doubles_of(&t);
    tensor_free(&t);
    return d;
}

static tensor numbers_of(const double *v, qn_shape shape)
{
    tensor t = tensor_new(QN_DTYPE_F64, shape);
    memcpy(t.data, v, t.bytes);
    return t;
}

/* ---- sum_squares ----------------------------------------------------------------------------- */

typedef struct sums {
    tensor x[4], carry;
    bool transposed;
} sums;

static qn_node *build_sums(rig *r, void *ctx)
{
    sums *s = ctx;
    qn_node *src[QN_MAX_SRC] = {rig_input(r, &s->carry)};
    for (int i = 0; i < 4; i++) src[i + 1] = rig_input(r, &s->x[i]);
    if (s->transposed) src[1] = qn__permute(r->g, src[1], (int[]){1, 0}, 2);
    return qn__op(r->g, QN_OP_sum_squares, &(qn_sum_squares_attrs){1}, src, 5);
}

static void check_sums(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const sums *s = ctx;
    double want = -3;
    (void)r;
    assert_int_equal(bytes, 8);
    for (int k = 0; k < 4; k++)
        for (int64_t i = 0; i < s->x[k].numel; i++) want += (double)s->x[k].value[i] * s->x[k].value[i];
    close_to(*(const double *)result, want, 1e-13 * want, "sum", 0);
}

static void test_sum_squares(void **state)
{
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        sums s = {.carry = numbers_of(&(double){-3}, (qn_shape){0}), .transposed = transposed};
        s.x[0] = random_as(QN_DTYPE_F32, qn_shape_of(ROWS, COLS));
        s.x[1] = random_as(QN_DTYPE_BF16, qn_shape_of(4097));
        s.x[2] = random_as(QN_DTYPE_F64, qn_shape_of(3, 5));
        s.x[3] = random_as(QN_DTYPE_F16, (qn_shape){0});
        for_levels(build_sums, &s, check_sums);
        for (int i = 0; i < 4; i++) tensor_free(&s.x[i]);
        tensor_free(&s.carry);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct step {
    qn_op op;
    int rows, mode; /* of the state, 0: the parameter is stepped; of sgd_step */
    bool with_p, transposed;
    qn_dtype dtype, grad;
    tensor dst, p, g, other, numbers, factor;
} step;

static const double numbers[QN_OPTIM_NUMBERS] = {-1, 0.125, 0.75, 0.5, 0.0625, 0.875, 0.25, 0.96875};
static const double factor = 0.375;

static qn_node *build_step(rig *r, void *ctx)
{
    step *s = ctx;
    const bool adam_step = s->op == QN_OP_adam_step;
    qn_node *src[QN_MAX_SRC], *g = rig_input(r, &s->g);
    int n = 0;
    if (s->transposed) g = qn__permute(r->g, g, (int[]){1, 0}, 2);
    src[n++] = rig_param(r, &s->dst, QN_NODE_mutable);
    src[n++] = adam_step ? rig_input(r, &s->other) : g;
    src[n++] = rig_input(r, &s->numbers);
    if (!adam_step) src[n++] = rig_input(r, &s->factor);
    if (s->with_p) src[n++] = rig_input(r, &s->p);
    if (s->mode == QN_SGD_nesterov) src[n++] = rig_input(r, &s->other);
    return qn__op(r->g, s->op, s->op == QN_OP_sgd_step ? (const void *)&(qn_sgd_attrs){s->mode} : NULL, src, n);
}

static double g_at(const step *s, int64_t i) /* transposed: stored [COLS, ROWS] */
{
    return s->g.value[s->transposed ? i % COLS * ROWS + i / COLS : i];
}

static void expected(const step *s, int64_t i, double want[3])
{
    const double decay = s->with_p ? numbers[QN_OPTIM_decay] * s->p.value[i] : 0,
                 x = factor * numbers[QN_OPTIM_sign] * g_at(s, i) + decay;
    const double old = s->dst.value[i], other = s->other.value[i];
    if (s->op == QN_OP_sgd_momentum) want[0] = numbers[QN_SGD_momentum] * old + numbers[QN_SGD_share] * x;
    if (s->op == QN_OP_sgd_step) {
        const double coupled = factor * numbers[QN_OPTIM_sign] * g_at(s, i) + numbers[QN_OPTIM_decay] * old;
        const double by = s->mode == QN_SGD_buffered ? g_at(s, i)
                          : s->mode == QN_SGD_plain  ? coupled
                                                     : coupled + numbers[QN_SGD_momentum] * other;
        want[0] = old - numbers[QN_SGD_rate] * by;
    }
    if (s->op == QN_OP_adam_moments) {
        want[0] = numbers[QN_ADAM_beta1] * old + (1 - numbers[QN_ADAM_beta1]) * x;
        want[1] = numbers[QN_ADAM_beta2] * s->dst.value[N + i] + (1 - numbers[QN_ADAM_beta2]) * x * x;
        want[2] = fmax(want[1], s->dst.value[s->dst.numel - N + i]);
    }
    if (s->op == QN_OP_adam_step) {
        const double v = s->other.value[s->other.numel - N + i];
        want[0] = numbers[QN_ADAM_keep] * old -
                  numbers[QN_ADAM_rate] * other / (sqrt(v) / numbers[QN_ADAM_root] + numbers[QN_ADAM_eps]);
    }
}

static void check_step(const rig *r, const void *result, size_t bytes, void *ctx)
{
    const step *s = ctx;
    const int n = s->rows > 0 ? s->rows : 1;
    const bool wide = s->dtype == QN_DTYPE_F64;
    (void)r;
    assert_int_equal(bytes, s->dst.bytes);
    for (int64_t i = 0; i < N; i++) {
        double want[3];
        expected(s, i, want);
        for (int k = 0; k < n; k++) {
            const double have = wide ? ((const double *)result)[k * N + i] : ((const float *)result)[k * N + i];
            close_to(have, want[k], (wide ? 1e-14 : 1e-6) * (4 + fabs(want[k])), qn__op_info(s->op)->name, k * N + i);
        }
    }
}

/* The last row of what Adam divides by is a square: not negative. */
static void make_positive(tensor *t, int rows)
{
    for (int64_t i = N; rows > 1 && i < t->numel; i++) {
        t->value[i] = fabsf(t->value[i]);
        if (t->dtype == QN_DTYPE_F64)
            ((double *)t->data)[i] = t->value[i];
        else
            ((float *)t->data)[i] = t->value[i];
    }
}

static void test_steps(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { qn_op op; int rows, mode; bool with_p; } ops[] = {
        {QN_OP_sgd_momentum, 1, 0, false},     {QN_OP_sgd_momentum, 1, 0, true},
        {QN_OP_sgd_step, 0, QN_SGD_plain, false}, {QN_OP_sgd_step, 0, QN_SGD_buffered, false},
        {QN_OP_sgd_step, 0, QN_SGD_nesterov, false},
        {QN_OP_adam_moments, 2, 0, false},     {QN_OP_adam_moments, 3, 0, true},
        {QN_OP_adam_step, 0, 2, false},        {QN_OP_adam_step, 0, 3, false},
    };
    /* clang-format on */
    static const struct {
        qn_dtype dtype, grad;
        bool transposed;
    } kinds[] = {{QN_DTYPE_F32, QN_DTYPE_F32, false},
                 {QN_DTYPE_F32, QN_DTYPE_BF16, true},
                 {QN_DTYPE_F64, QN_DTYPE_F64, true}};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const bool adam_step = ops[o].op == QN_OP_adam_step;
            step s = {.op = ops[o].op,
                      .rows = ops[o].rows,
                      .mode = adam_step ? 0 : ops[o].mode,
                      .with_p = ops[o].with_p,
                      .transposed = kinds[k].transposed,
                      .dtype = kinds[k].dtype,
                      .grad = kinds[k].grad};
            const qn_shape shape = qn_shape_of(ROWS, COLS);
            s.dst = random_as(s.dtype, s.rows > 0 ? qn_shape_of(s.rows, N) : shape);
            s.p = random_as(s.dtype, shape);
            s.g = random_as(s.grad, s.transposed ? qn_shape_of(COLS, ROWS) : shape);
            s.other = random_as(s.dtype, adam_step ? qn_shape_of(ops[o].mode, N) : shape);
            make_positive(&s.dst, s.rows);
            if (adam_step) make_positive(&s.other, ops[o].mode);
            s.numbers = numbers_of(numbers, qn_shape_of(QN_OPTIM_NUMBERS));
            s.factor = numbers_of(&factor, (qn_shape){0});
            for_levels(build_step, &s, check_step);
            tensor *all[] = {&s.dst, &s.p, &s.g, &s.other, &s.numbers, &s.factor};
            for (int i = 0; i < 6; i++) tensor_free(all[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum_squares), cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
