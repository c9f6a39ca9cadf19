/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/optim_rig.h -- a small problem, and optimizers for it that the tests of optimizers name. */
#ifndef QN_TEST_NN_OPTIM_RIG_H
#define QN_TEST_NN_OPTIM_RIG_H

#include "unit/array/rig.h"

#include <quern/optim.h>

enum { N_W = 12, N_B = 3, N = N_W + N_B };

typedef struct problem {
    qn_context *c;
    qn_tensor *x, *y, *p[2]; /* p: weights [4,3] and bias [3] */
    qn_optimizer *o;
} problem;

static inline qn_tensor *wave(qn_context *c, qn_shape shape, double first, double factor, qn_dtype dtype)
{
    double v[64];
    const int64_t n = qn_shape_numel(&shape);
    for (int64_t i = 0; i < n; i++) v[i] = factor * sin(first + (double)i);
    qn_tensor *t = qn_to(qn_from_data(c, v, shape, QN_DTYPE_F64), dtype);
    GOOD(c, t);
    return t;
}

static inline problem begin(qn_dtype dtype, int n_threads)
{
    problem p = {0};
    qn_error err = {0};
    if (qn_context_create(&(qn_context_options){.n_threads = n_threads}, &p.c, &err) != QN_OK) fail_msg("%s", err.text);
    p.x = wave(p.c, qn_shape_of(8, 4), 0, 1, dtype);
    p.y = wave(p.c, qn_shape_of(8, 3), 100, 2, dtype);
    p.p[0] = qn_requires_grad_(wave(p.c, qn_shape_of(4, 3), 200, 1, dtype), true);
    p.p[1] = qn_requires_grad_(wave(p.c, qn_shape_of(3), 300, 1, dtype), true);
    return p;
}

static inline void end(problem *p)
{
    qn_optimizer_destroy(p->o);
    context_end(p->c);
}

static inline void gradients(problem *p)
{
    OK(p->c, qn_scope_begin(p->c));
    qn_tensor *x = qn_to(p->x, qn_dtype_of(p->p[0]));
    qn_tensor *d = qn_sub(qn_add(qn_matmul(x, p->p[0]), p->p[1]), qn_to(p->y, qn_dtype_of(p->p[0])));
    qn_tensor *loss = qn_mean(qn_square(d), QN_ALL, false);
    GOOD(p->c, loss);
    OK(p->c, qn_backward(loss));
    (void)qn_scope_end(p->c, NULL);
}

static inline void params_of(const problem *p, double out[N])
{
    OK(p->c, qn_to_doubles(p->p[0], out, N_W));
    OK(p->c, qn_to_doubles(p->p[1], out + N_W, N_B));
}

static inline void near(const char *what, const double *have, const double *want, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        if (!(fabs(have[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s: number %d is %.17g, %.17g expected", what, i, have[i], want[i]);
    }
}

typedef void (*make_fn)(problem *p);

static inline void sgd(problem *p, qn_sgd_options o)
{
    qn_error err = {0};
    if (qn_sgd_create(&o, p->p, 2, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
}
static inline void adam(problem *p, qn_adam_options o)
{
    qn_error err = {0};
    if (qn_adam_create(&o, p->p, 2, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
}
static inline void adamw(problem *p, qn_adam_options o)
{
    qn_error err = {0};
    if (qn_adamw_create(&o, p->p, 2, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
}
static inline void second_group(problem *p)
{
    int group = 0;
    OK(p->c, qn_optimizer_add_group(p->o, &p->p[1], 1, 0.03, 0.2, &group));
    assert_int_equal(group, 1);
}

static inline void make_sgd(problem *p) { sgd(p, (qn_sgd_options){.lr = 0.1}); }
static inline void make_sgd_decay(problem *p) { sgd(p, (qn_sgd_options){.lr = 0.1, .weight_decay = 0.1}); }
static inline void make_sgd_momentum(problem *p) { sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.9}); }
static inline void make_sgd_dampening(problem *p)
{
    sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.05});
}
static inline void make_sgd_nesterov(problem *p)
{
    sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}
static inline void make_sgd_maximize(problem *p)
{
    sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.5, .weight_decay = 0.1, .maximize = true});
}
static inline void make_adam(problem *p) { adam(p, (qn_adam_options){.lr = 0.05}); }
static inline void make_adam_decay(problem *p)
{
    adam(p, (qn_adam_options){.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.1});
}
static inline void make_adam_amsgrad(problem *p) { adam(p, (qn_adam_options){.lr = 0.3, .amsgrad = true}); }
static inline void make_adam_maximize(problem *p) { adam(p, (qn_adam_options){.lr = 0.05, .maximize = true}); }
static inline void make_adam_no_momentum(problem *p)
{
    adam(p, (qn_adam_options){.lr = 0.05, .beta1 = -1, .beta2 = 0.9});
}
static inline void make_adamw(problem *p) { adamw(p, (qn_adam_options){.lr = 0.05, .weight_decay = 0.1}); }
static inline void make_adamw_amsgrad(problem *p)
{
    adamw(p, (qn_adam_options){.lr = 0.3, .weight_decay = 0.01, .amsgrad = true});
}
static inline void make_adamw_groups(problem *p)
{
    qn_error err = {0};
    if (qn_adamw_create(&(qn_adam_options){.lr = 0.05, .weight_decay = 0.1}, p->p, 1, &p->o, &err) != QN_OK)
        fail_msg("%s", err.text);
    second_group(p);
}
static inline void make_sgd_groups(problem *p)
{
    qn_error err = {0};
    const qn_sgd_options o = {.lr = 0.05, .weight_decay = 0.1, .momentum = 0.9};
    if (qn_sgd_create(&o, p->p, 1, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
    second_group(p);
}

#endif
