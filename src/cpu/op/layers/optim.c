/* SPDX-License-Identifier: MIT */
/* src/cpu/op/layers/optim.c -- the steps of SGD and Adam over dense parameters, element by element. They are bound
 * by memory: loops that the compiler vectorises for the baseline instruction set keep up, and give the same bits at
 * every level. */
#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

#include <math.h>

enum { RUN = 4096 }; /* elements at a time: 2 * 8 bytes of the tile each */

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels;
    (void)node;
    (void)err;
    return true; /* the shape rule has checked everything */
}

static int64_t of_result(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = 16384;
    return qn_layout_numel(&node->layout);
}

/* A state has several elements for each of the parameter. */
static int64_t of_gradient(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = 16384;
    return qn_layout_numel(&node->src[1]->layout);
}

/* What a run over elements sees; x is dense, p and the others start at the run. */
typedef struct run_args {
    const double *numbers;
    double factor; /* with the sign */
    int64_t n;
    int32_t mode;          /* of sgd_step */
    void *p, *m, *v, *top; /* written */
    const void *x, *from;  /* the gradient; the parameter or the buffer, NULL without */
} run_args;

#define RUNS(T, SQRT) \
    static void momentum_##T(const run_args *a) \
    { \
        T *restrict b = a->p; \
        const T *x = a->x, *p = a->from; \
        const T keep = (T)a->numbers[QN_SGD_momentum], share = (T)a->numbers[QN_SGD_share]; \
        const T factor = (T)a->factor, decay = (T)a->numbers[QN_OPTIM_decay]; \
        if (p == NULL) \
            for (int64_t i = 0; i < a->n; i++) b[i] = keep * b[i] + share * (factor * x[i]); \
        else \
            for (int64_t i = 0; i < a->n; i++) b[i] = keep * b[i] + share * (factor * x[i] + decay * p[i]); \
    } \
    static void sgd_##T(const run_args *a) \
    { \
        T *restrict p = a->p; \
        const T *x = a->x, *b = a->from; \
        const T keep = (T)a->numbers[QN_SGD_momentum], rate = (T)a->numbers[QN_SGD_rate]; \
        const T factor = (T)a->factor, decay = (T)a->numbers[QN_OPTIM_decay]; \
        if (a->mode == QN_SGD_buffered) \
            for (int64_t i = 0; i < a->n; i++) p[i] = p[i] - rate * x[i]; \
        else if (b == NULL) \
            for (int64_t i = 0; i < a->n; i++) p[i] = p[i] - rate * (factor * x[i] + decay * p[i]); \
        else \
            for (int64_t i = 0; i < a->n; i++) p[i] = p[i] - rate * (factor * x[i] + decay * p[i] + keep * b[i]); \
    } \
    static void moments_##T(const run_args *a) \
    { \
        T *restrict m = a->m, *restrict v = a->v, *restrict top = a->top; \
        const T *x = a->x, *p = a->from; \
        const T beta2 = (T)a->numbers[QN_ADAM_beta2]; \
        const T one_beta1 = (T)(1 - a->numbers[QN_ADAM_beta1]), one_beta2 = (T)(1 - a->numbers[QN_ADAM_beta2]); \
        const T factor = (T)a->factor, decay = (T)a->numbers[QN_OPTIM_decay]; \
        for (int64_t i = 0; i < a->n; i++) { \
            const T g = p != NULL ? factor * x[i] + decay * p[i] : factor * x[i]; \
            m[i] = m[i] + one_beta1 * (g - m[i]); \
            v[i] = beta2 * v[i] + one_beta2 * g * g; \
        } \
        if (top == NULL) return; \
        for (int64_t i = 0; i < a->n; i++) top[i] = top[i] >= v[i] || top[i] != top[i] ? top[i] : v[i]; \
    } \
    static void adam_##T(const run_args *a) \
    { \
        T *restrict p = a->p; \
        const T *m = a->x, *v = a->from; \
        const T keep = (T)a->numbers[QN_ADAM_keep], rate = (T)a->numbers[QN_ADAM_rate]; \
        const T root = (T)a->numbers[QN_ADAM_root], eps = (T)a->numbers[QN_ADAM_eps]; \
        for (int64_t i = 0; i < a->n; i++) p[i] = keep * p[i] - rate * m[i] / (SQRT(v[i]) / root + eps); \
    }
RUNS(float, sqrtf)
RUNS(double, sqrt)

typedef struct typed_fns {
    void (*momentum)(const run_args *), (*sgd)(const run_args *), (*moments)(const run_args *),
        (*adam)(const run_args *);
} typed_fns;
static const typed_fns of_float = {momentum_float, sgd_float, moments_float, adam_float};
static const typed_fns of_double = {momentum_double, sgd_double, moments_double, adam_double};

static const typed_fns *fns_of(const qn_task *t) { return t->dst.dtype == QN_DTYPE_F64 ? &of_double : &of_float; }
static void *elem(const qn_view *v, int64_t i) { return qn__elem_at(v, i); }

static run_args args_of(const qn_task *t, int numbers, int factor)
{
    run_args a = {.numbers = (const double *)(const void *)t->src[numbers].data, .factor = 1};
    if (factor > 0) a.factor = a.numbers[QN_OPTIM_sign] * *(const double *)(const void *)t->src[factor].data;
    return a;
}

/* ---- drivers --------------------------------------------------------------------------------- */

static void run_momentum(const qn_task *t)
{
    const qn_walk g = qn__walk_of(&t->src[1]);
    run_args a = args_of(t, 2, 3);
    for (int64_t at = t->begin; at < t->end; at += a.n) {
        a.n = t->end - at < RUN ? t->end - at : RUN;
        a.p = elem(&t->dst, at);
        a.x = qn__walk_load(t->kernels, &g, at, a.n, t->tile);
        a.from = t->n_src > 4 ? elem(&t->src[4], at) : NULL;
        fns_of(t)->momentum(&a);
    }
}

static void run_sgd(const qn_task *t)
{
    const qn_walk g = qn__walk_of(&t->src[1]);
    run_args a = args_of(t, 2, 3);
    a.mode = ((const qn_sgd_attrs *)t->attrs)->mode;
    for (int64_t at = t->begin; at < t->end; at += a.n) {
        a.n = t->end - at < RUN ? t->end - at : RUN;
        a.p = elem(&t->dst, at);
        a.x = qn__walk_load(t->kernels, &g, at, a.n, t->tile);
        a.from = t->n_src > 4 ? elem(&t->src[4], at) : NULL;
        fns_of(t)->sgd(&a);
    }
}

static void run_moments(const qn_task *t)
{
    const qn_walk g = qn__walk_of(&t->src[1]);
    const int64_t count = t->dst.layout.dim[1], rows = t->dst.layout.dim[0];
    run_args a = args_of(t, 2, 3);
    for (int64_t at = t->begin; at < t->end; at += a.n) {
        a.n = t->end - at < RUN ? t->end - at : RUN;
        a.m = elem(&t->dst, at);
        a.v = elem(&t->dst, count + at);
        a.top = rows == QN_ADAM_ROWS ? elem(&t->dst, 2 * count + at) : NULL;
        a.x = qn__walk_load(t->kernels, &g, at, a.n, t->tile);
        a.from = t->n_src > 4 ? elem(&t->src[4], at) : NULL;
        fns_of(t)->moments(&a);
    }
}

static void run_adam(const qn_task *t)
{
    const int64_t count = t->src[1].layout.dim[1], rows = t->src[1].layout.dim[0];
    run_args a = args_of(t, 2, 0);
    a.n = t->end - t->begin;
    a.p = elem(&t->dst, t->begin);
    a.x = elem(&t->src[1], t->begin);
    a.from = elem(&t->src[1], (rows - 1) * count + t->begin);
    fns_of(t)->adam(&a);
}

const qn_cpu_op qn__cpu_op_sgd_momentum = {QN_OP_sgd_momentum, accepts, NULL, 1, of_gradient, run_momentum};
const qn_cpu_op qn__cpu_op_sgd_step = {QN_OP_sgd_step, accepts, NULL, 1, of_result, run_sgd};
const qn_cpu_op qn__cpu_op_adam_moments = {QN_OP_adam_moments, accepts, NULL, 1, of_gradient, run_moments};
const qn_cpu_op qn__cpu_op_adam_step = {QN_OP_adam_step, accepts, NULL, 1, of_result, run_adam};
