/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/optim.c -- optimizers against PyTorch's trajectories, clipping, learning rates, saving and going on. */
#include "unit/array/rig.h"

#include <quern/optim.h>

#include <unistd.h>

enum { STEPS = 12, N_W = 12, N_B = 3, N = N_W + N_B };

typedef struct problem {
    qn_context *c;
    qn_tensor *x, *y, *p[2]; /* p: weights [4,3] and bias [3] */
    qn_optimizer *o;
} problem;

static qn_tensor *wave(qn_context *c, qn_shape shape, double first, double factor, qn_dtype dtype)
{
    double v[64];
    const int64_t n = qn_shape_numel(&shape);
    for (int64_t i = 0; i < n; i++) v[i] = factor * sin(first + (double)i);
    qn_tensor *t = qn_to(qn_from_data(c, v, shape, QN_DTYPE_F64), dtype);
    GOOD(c, t);
    return t;
}

static problem begin(qn_dtype dtype, int n_threads)
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

static void end(problem *p)
{
    qn_optimizer_destroy(p->o);
    context_end(p->c);
}

static void gradients(problem *p)
{
    OK(p->c, qn_scope_begin(p->c));
    qn_tensor *x = qn_to(p->x, qn_dtype_of(p->p[0]));
    qn_tensor *d = qn_sub(qn_add(qn_matmul(x, p->p[0]), p->p[1]), qn_to(p->y, qn_dtype_of(p->p[0])));
    qn_tensor *loss = qn_mean(qn_square(d), QN_ALL, false);
    GOOD(p->c, loss);
    OK(p->c, qn_backward(loss));
    (void)qn_scope_end(p->c, NULL);
}

static void params_of(const problem *p, double out[N])
{
    OK(p->c, qn_to_doubles(p->p[0], out, N_W));
    OK(p->c, qn_to_doubles(p->p[1], out + N_W, N_B));
}

static void near(const char *what, const double *have, const double *want, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        if (!(fabs(have[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s: number %d is %.17g, %.17g expected", what, i, have[i], want[i]);
    }
}

/* ---- trajectories ---- */

typedef void (*make_fn)(problem *p);
typedef void (*clip_fn)(problem *p);

static void sgd(problem *p, qn_sgd_options o)
{
    qn_error err = {0};
    if (qn_sgd_create(&o, p->p, 2, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
}
static void adam(problem *p, qn_adam_options o)
{
    qn_error err = {0};
    if (qn_adam_create(&o, p->p, 2, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
}
static void adamw(problem *p, qn_adam_options o)
{
    qn_error err = {0};
    if (qn_adamw_create(&o, p->p, 2, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
}
static void second_group(problem *p)
{
    int group = 0;
    OK(p->c, qn_optimizer_add_group(p->o, &p->p[1], 1, 0.03, 0.2, &group));
    assert_int_equal(group, 1);
}

static void by_step(problem *p) { GOOD(p->c, qn_optimizer_clip(p->o, 0.5)); }
static void in_place(problem *p) { GOOD(p->c, qn_clip_grad_norm_(p->p, 2, 0.7, 2)); }
static void by_value(problem *p) { OK(p->c, qn_clip_grad_value_(p->p, 2, 0.1)); }

static void make_sgd(problem *p) { sgd(p, (qn_sgd_options){.lr = 0.1}); }
static void make_sgd_decay(problem *p) { sgd(p, (qn_sgd_options){.lr = 0.1, .weight_decay = 0.1}); }
static void make_sgd_momentum(problem *p) { sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.9}); }
static void make_sgd_dampening(problem *p)
{
    sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.05});
}
static void make_sgd_nesterov(problem *p)
{
    sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
}
static void make_sgd_maximize(problem *p)
{
    sgd(p, (qn_sgd_options){.lr = 0.1, .momentum = 0.5, .weight_decay = 0.1, .maximize = true});
}
static void make_adam(problem *p) { adam(p, (qn_adam_options){.lr = 0.05}); }
static void make_adam_decay(problem *p)
{
    adam(p, (qn_adam_options){.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4, .weight_decay = 0.1});
}
static void make_adam_amsgrad(problem *p) { adam(p, (qn_adam_options){.lr = 0.3, .amsgrad = true}); }
static void make_adam_maximize(problem *p) { adam(p, (qn_adam_options){.lr = 0.05, .maximize = true}); }
static void make_adam_no_momentum(problem *p) { adam(p, (qn_adam_options){.lr = 0.05, .beta1 = -1, .beta2 = 0.9}); }
static void make_adamw(problem *p) { adamw(p, (qn_adam_options){.lr = 0.05, .weight_decay = 0.1}); }
static void make_adamw_amsgrad(problem *p)
{
    adamw(p, (qn_adam_options){.lr = 0.3, .weight_decay = 0.01, .amsgrad = true});
}
static void make_adamw_groups(problem *p)
{
    qn_error err = {0};
    if (qn_adamw_create(&(qn_adam_options){.lr = 0.05, .weight_decay = 0.1}, p->p, 1, &p->o, &err) != QN_OK)
        fail_msg("%s", err.text);
    second_group(p);
}
static void make_sgd_groups(problem *p)
{
    qn_error err = {0};
    const qn_sgd_options o = {.lr = 0.05, .weight_decay = 0.1, .momentum = 0.9};
    if (qn_sgd_create(&o, p->p, 1, &p->o, &err) != QN_OK) fail_msg("%s", err.text);
    second_group(p);
}
#define make_sgd_clipped       make_sgd_momentum
#define make_adamw_clipped     make_adamw
#define make_sgd_clipped_value make_sgd_momentum

static clip_fn clip_of(const char *name)
{
    if (strcmp(name, "sgd_clipped") == 0) return by_step;
    if (strcmp(name, "adamw_clipped") == 0) return in_place;
    return strcmp(name, "sgd_clipped_value") == 0 ? by_value : NULL;
}

static void steps(problem *p, clip_fn clip, double first[N])
{
    const double rate[2] = {qn_optimizer_lr(p->o, 0), qn_optimizer_lr(p->o, 1)};
    for (int t = 0; t < STEPS; t++) {
        for (int g = 0; g < qn_optimizer_n_groups(p->o); g++)
            OK(p->c, qn_optimizer_set_lr(p->o, g, rate[g] * (1 - t / 20.0)));
        qn_optimizer_zero_grad(p->o);
        gradients(p);
        if (clip != NULL) clip(p);
        OK(p->c, qn_optimizer_step(p->o));
        if (t == 0) params_of(p, first);
    }
}

static void trajectory(const char *name, make_fn make, const double *first, const double *last)
{
    static const struct {
        qn_dtype dtype;
        double tolerance;
        int n_threads;
    } runs[] = {{QN_DTYPE_F64, 1e-13, 1}, {QN_DTYPE_F32, 3e-6, 2}};
    for (size_t r = 0; r < 2; r++) {
        problem p = begin(runs[r].dtype, runs[r].n_threads);
        double have[N];
        make(&p);
        void *const at = qn_data(p.p[0]);
        steps(&p, clip_of(name), have);
        near(name, have, first, N, runs[r].tolerance);
        params_of(&p, have);
        near(name, have, last, N, runs[r].tolerance);
        assert_ptr_equal(qn_data(p.p[0]), at);
        assert_int_equal(qn_optimizer_n_steps(p.o), STEPS);
        end(&p);
    }
}

#define VALUES(...) ((const double[]){__VA_ARGS__})

static void trajectories(void **state)
{
    (void)state;
#define TRAJECTORY(name, first, last) trajectory(#name, make_##name, first, last);
#define NORM(p, norm, clipped)
#define RATES(schedule, n, want)
#include "optim_figures.inc"
#undef TRAJECTORY
#undef NORM
#undef RATES
}

/* ---- clipping ---- */

static void norm_case(double order, double norm, const double *clipped)
{
    problem p = begin(QN_DTYPE_F64, 2);
    qn_tensor *t[3] = {qn_requires_grad_(wave(p.c, qn_shape_of(5, 7), 1, 1, QN_DTYPE_F64), true),
                       /* the last has no gradient */
                       qn_requires_grad_(wave(p.c, qn_shape_of(3), 9, 1, QN_DTYPE_F64), true), p.p[0]};
    OK(p.c, qn_set_grad(t[0], wave(p.c, qn_shape_of(5, 7), 40, 3, QN_DTYPE_F64)));
    OK(p.c, qn_set_grad(t[1], wave(p.c, qn_shape_of(3), 50, 3, QN_DTYPE_F64)));
    qn_tensor *total = qn_clip_grad_norm_(t, 3, 1.5, order);
    GOOD(p.c, total);
    const double have_norm = qn_item(total);
    near("the norm", &have_norm, &norm, 1, 1e-14);
    double have[38];
    OK(p.c, qn_to_doubles(qn_grad(t[0]), have, 35));
    OK(p.c, qn_to_doubles(qn_grad(t[1]), have + 35, 3));
    near("clipped", have, clipped, 38, 1e-14);
    end(&p);
}

static void norms(void **state)
{
    (void)state;
#define TRAJECTORY(name, first, last)
#define NORM(p, norm, clipped) norm_case(p, norm, clipped);
#define RATES(schedule, n, want)
#include "optim_figures.inc"
#undef TRAJECTORY
#undef NORM
#undef RATES
}

/* More gradients than a node has room for, large ones among them: the same bits whatever the threads. */
static void norm_of_many(void **state)
{
    (void)state;
    double bits[3];
    for (int threads = 1; threads <= 3; threads++) {
        problem p = begin(F32, threads);
        qn_tensor *t[20];
        double exact = 0;
        for (int i = 0; i < 20; i++) {
            const int64_t n = i % 3 == 0 ? 9001 : 1 + i * 7;
            t[i] = qn_requires_grad_(qn_zeros(p.c, qn_shape_of(n), F32), true);
            OK(p.c, qn_set_grad(t[i], qn_full(p.c, qn_shape_of(n), 1.0 / (1 << i), F32)));
            exact += (double)n / ((double)(1 << i) * (1 << i));
        }
        qn_error err = {0};
        if (qn_sgd_create(NULL, t, 20, &p.o, &err) != QN_OK) fail_msg("%s", err.text);
        bits[threads - 1] = qn_item(qn_optimizer_clip(p.o, 1));
        assert_true(fabs(bits[threads - 1] - sqrt(exact)) < 1e-14 * sqrt(exact));
        assert_true(bits[threads - 1] == bits[0]);
        OK(p.c, qn_optimizer_step(p.o)); /* p = -lr * factor * g */
        double have[8];
        OK(p.c, qn_to_doubles(t[1], have, 8));
        assert_true(fabs(have[7] + 1e-3 * 0.5 / (sqrt(exact) + 1e-6)) < 1e-10);
        const double first = have[7];
        OK(p.c, qn_optimizer_step(p.o)); /* a clip holds for one step */
        OK(p.c, qn_to_doubles(t[1], have, 8));
        assert_true(fabs(have[7] - first + 1e-3 * 0.5) < 1e-10);
        end(&p);
    }
}

/* ---- learning rates ---- */

static void rate_case(const qn_lr_schedule *s, int n, const double *want)
{
    for (int i = 0; i < n; i++) {
        const double have = qn_lr_at(s, i);
        if (!(fabs(have - want[i]) <= 1e-13))
            fail_msg("kind %d, step %d: %.17g, %.17g expected", (int)s->kind, i, have, want[i]);
    }
}

static void rates(void **state)
{
    (void)state;
#define TRAJECTORY(name, first, last)
#define NORM(p, norm, clipped)
#define RATES(schedule, n, want) rate_case(&schedule, n, want);
#include "optim_figures.inc"
#undef TRAJECTORY
#undef NORM
#undef RATES
    const qn_lr_schedule s = {.kind = QN_LR_cosine, .lr = 1, .min_lr = 0.1, .total = 10, .warmup = 2};
    assert_true(qn_lr_at(&s, -5) == qn_lr_at(&s, 0));
    assert_true(fabs(qn_lr_at(&s, 1000) - 0.1) < 1e-15);
    assert_true(isnan(qn_lr_at(&(qn_lr_schedule){.kind = QN_LR_COUNT}, 0)));
    assert_true(qn_lr_at(&(qn_lr_schedule){.kind = QN_LR_exponential, .lr = 1, .min_lr = 0.25, .gamma = 0.5}, 9) ==
                0.25);
}

/* ---- steps that repeat themselves ---- */

typedef enum loop { PLAIN, CLIPPED, ACCUMULATED, TWICE_IN_ONE_GRAPH, CHECKPOINTED, SCALED, LOOKED } loop;

static qn_tensor *residual(void *arg, qn_tensor *const *inputs, int n)
{
    const problem *p = arg;
    (void)n;
    return qn_sub(qn_add(qn_matmul(inputs[0], p->p[0]), p->p[1]), p->y);
}

/* Forward and backward; the loss. */
static qn_tensor *backward(problem *p, loop how, qn_loss_scaler *s)
{
    qn_tensor *d = how == CHECKPOINTED ? qn_checkpoint(residual, p, &p->x, 1) : residual(p, &p->x, 1);
    qn_tensor *loss = qn_mean(qn_square(d), QN_ALL, false);
    GOOD(p->c, loss);
    if (how == LOOKED) assert_true(qn_item(loss) > 0);
    OK(p->c, qn_backward(how == SCALED ? qn_loss_scaler_scale(s, loss) : loss));
    return loss;
}

static void one_step(problem *p, loop how, int i, qn_loss_scaler *s)
{
    const qn_lr_schedule rates = {.kind = QN_LR_cosine, .lr = 0.1, .total = 50, .warmup = 5};
    OK(p->c, qn_scope_begin(p->c));
    qn_tensor *norm = NULL, *loss = NULL;
    if (how == LOOKED) qn_optimizer_zero_grad(p->o); /* the usual place: gradients outlive the step */
    for (int k = how == ACCUMULATED || how == TWICE_IN_ONE_GRAPH ? 2 : 1; k > 0; k--) {
        loss = backward(p, how, s);
        if (how == ACCUMULATED && k > 1) assert_true(qn_item(loss) > 0);
    }
    if (how == SCALED) OK(p->c, qn_loss_scaler_unscale(s, p->o));
    if (how == CLIPPED || how == SCALED) GOOD(p->c, norm = qn_optimizer_clip(p->o, 1));
    if (how == LOOKED) {
        GOOD(p->c, norm = qn_clip_grad_norm_(p->p, 2, 1, 2));
        assert_true(qn_item(norm) > 0); /* the step has nothing to wait for */
    }
    OK(p->c, qn_optimizer_set_lr(p->o, QN_EVERY_GROUP, qn_lr_at(&rates, i)));
    if (how == SCALED)
        OK(p->c, qn_loss_scaler_step(s, p->o, NULL));
    else
        OK(p->c, qn_optimizer_step(p->o));
    if (how != LOOKED) qn_optimizer_zero_grad(p->o);
    if (how != SCALED && how != LOOKED) assert_true(qn_item(loss) > 0 && (norm == NULL || qn_item(norm) > 0));
    (void)qn_scope_end(p->c, NULL);
}

/* Step 2 is step 1 again: its graphs are there, and so is all memory. */
static void nothing_new_case(const char *name, make_fn make, loop how, qn_dtype dtype)
{
    problem p = begin(dtype, 2);
    make(&p);
    qn_loss_scaler s = {.scale = 128, .interval = 7};
    qn_metrics before = {0}, after;
    uint64_t runs = 0;
    for (int i = 0; i < 20; i++) {
        one_step(&p, how, i, &s);
        if (i == 0) qn_metrics_snapshot(&before);
        if (i == 1) qn_metrics_snapshot(&after), runs = after.plan_cache_hits - before.plan_cache_hits;
    }
    qn_metrics_snapshot(&after);
    if (after.allocs != before.allocs || after.plan_cache_misses != before.plan_cache_misses || runs == 0 ||
        after.plan_cache_hits - before.plan_cache_hits != 19 * runs)
        fail_msg("%s, loop %d, %s: from step 2 on %d allocations, %d compilations, %d runs", name, (int)how,
                 qn_dtype_get(dtype)->name, (int)(after.allocs - before.allocs),
                 (int)(after.plan_cache_misses - before.plan_cache_misses),
                 (int)(after.plan_cache_hits - before.plan_cache_hits));
    end(&p);
}

static void nothing_new_from_step_2(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        make_fn make;
    } methods[] = {
        {"sgd", make_sgd},
        {"momentum", make_sgd_momentum},
        {"nesterov", make_sgd_nesterov},
        {"adam", make_adam_decay},
        {"amsgrad", make_adam_amsgrad},
        {"adamw", make_adamw},
        {"groups", make_adamw_groups},
    };
    static const qn_dtype dtypes[] = {QN_DTYPE_F32, QN_DTYPE_F64, QN_DTYPE_BF16, QN_DTYPE_F16};
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        for (size_t d = 0; d < 4; d++) {
            for (loop how = PLAIN; how <= LOOKED; how++)
                nothing_new_case(methods[m].name, methods[m].make, how, dtypes[d]);
        }
    }
}

/* Many elements, so that threads share them; all bits alike. */
static void threads_do_not_show(void **state)
{
    (void)state;
    enum { M = 70001 };
    float *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        problem p = begin(F32, threads);
        qn_tensor *t = qn_requires_grad_(qn_sin(qn_arange(p.c, 0, M, 1, F32)), true);
        t = qn_requires_grad_(qn_detach(t), true);
        adam(&p, (qn_adam_options){.amsgrad = true, .weight_decay = 0.1});
        OK(p.c, qn_optimizer_add_group(p.o, &t, 1, 0.01, 0.1, NULL));
        for (int i = 0; i < 3; i++) {
            OK(p.c, qn_set_grad(t, qn_cos(qn_arange(p.c, i, M + i, 1, F32))));
            GOOD(p.c, qn_optimizer_clip(p.o, 1));
            OK(p.c, qn_optimizer_step(p.o));
        }
        const float *have = qn_data(t);
        if (first == NULL) first = memcpy(malloc(M * sizeof *first), have, M * sizeof *first);
        assert_memory_equal(first, have, M * sizeof *first);
        end(&p);
    }
    free(first);
}

/* ---- going on from a file ---- */

static void resume_case(make_fn make, qn_dtype dtype)
{
    char path[] = QN_BUILD_DIR "/t_nn_optim_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    qn_error err = {0};
    double straight[N], resumed[N], middle[N];
    problem a = begin(dtype, 1), b = begin(dtype, 2);
    make(&a);
    for (int i = 0; i < 10; i++) {
        if (i == 5) {
            if (qn_optimizer_save(a.o, path, &err) != QN_OK) fail_msg("%s", err.text);
            params_of(&a, middle);
        }
        qn_optimizer_zero_grad(a.o);
        gradients(&a);
        OK(a.c, qn_optimizer_set_lr(a.o, 0, 0.1 / (1 + i)));
        OK(a.c, qn_optimizer_step(a.o));
    }
    params_of(&a, straight);
    make(&b);
    const bool was = qn_set_grad_enabled(b.c, false);
    GOOD(b.c, qn_copy_(b.p[0], qn_from_data(b.c, middle, qn_shape_of(4, 3), QN_DTYPE_F64)));
    GOOD(b.c, qn_copy_(b.p[1], qn_from_data(b.c, middle + N_W, qn_shape_of(3), QN_DTYPE_F64)));
    qn_set_grad_enabled(b.c, was);
    if (qn_optimizer_load(b.o, path, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_optimizer_n_steps(b.o), 5);
    assert_true(qn_optimizer_lr(b.o, 0) == 0.1 / 5);
    for (int i = 5; i < 10; i++) {
        qn_optimizer_zero_grad(b.o);
        gradients(&b);
        OK(b.c, qn_optimizer_set_lr(b.o, 0, 0.1 / (1 + i)));
        OK(b.c, qn_optimizer_step(b.o));
    }
    params_of(&b, resumed);
    assert_memory_equal(straight, resumed, sizeof straight);
    end(&a);
    end(&b);
    unlink(path);
}

static void resumes_to_the_bit(void **state)
{
    (void)state;
    resume_case(make_adamw_amsgrad, F32);
    resume_case(make_sgd_nesterov, F32);
    resume_case(make_sgd, F32);
    resume_case(make_adamw_groups, QN_DTYPE_F64);
    resume_case(make_adamw, QN_DTYPE_BF16);
}

static void wrong_files(void **state)
{
    (void)state;
    char path[] = QN_BUILD_DIR "/t_nn_optim_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    qn_error err = {0};
    problem a = begin(F32, 1), b = begin(F32, 1);
    make_adam(&a);
    if (qn_optimizer_save(a.o, path, &err) != QN_OK) fail_msg("%s", err.text);
    make_adamw(&b);
    assert_int_equal(qn_optimizer_load(b.o, path, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "adamw expected"));
    qn_optimizer_destroy(b.o);
    make_adam_amsgrad(&b);
    assert_int_equal(qn_optimizer_load(b.o, path, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "6 tensors, 8 expected"));
    qn_optimizer_destroy(b.o);
    qn_tensor *turned[2] = {b.p[1], b.p[0]};
    if (qn_adam_create(NULL, turned, 2, &b.o, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_optimizer_load(b.o, path, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "0.exp_avg is F32 [4,3], F32 [3] expected"));
    assert_int_equal(qn_optimizer_load(b.o, "/nonexistent/file", &err), QN_STATUS_io);
    end(&a);
    end(&b);
    unlink(path);
}

/* ---- 16 bits ---- */

/* Steps too small for 16 bits are not lost: the master has them. */
static void small_steps_add_up(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        problem p = begin(which ? QN_DTYPE_F16 : QN_DTYPE_BF16, 1);
        qn_tensor *t = qn_requires_grad_(qn_ones(p.c, qn_shape_of(3), which ? QN_DTYPE_F16 : QN_DTYPE_BF16), true);
        qn_error err = {0};
        if (qn_sgd_create(&(qn_sgd_options){.lr = 1e-5}, &t, 1, &p.o, &err) != QN_OK) fail_msg("%s", err.text);
        OK(p.c, qn_set_grad(t, qn_ones(p.c, qn_shape_of(3), qn_dtype_of(t))));
        for (int i = 0; i < 1000; i++) OK(p.c, qn_optimizer_step(p.o));
        double have[3];
        OK(p.c, qn_to_doubles(t, have, 3));
        assert_true(fabs(have[2] - 0.99) < (which ? 0.0005 : 0.004));
        end(&p);
    }
}

static qn_tensor *state_named(problem *p, const char *wanted)
{
    for (int i = 0; i < qn_optimizer_n_state(p->o); i++) {
        const char *name;
        qn_tensor *t = qn_optimizer_state(p->o, i, &name);
        if (strcmp(name, wanted) == 0) return t;
    }
    fail_msg("there is no state %s", wanted);
    return NULL;
}

/* A loss whose gradients are below what F16 holds: only scaled ones come through. */
static void loss_scaling(void **state)
{
    (void)state;
    enum { SCALE = 65536 };
    const double size = 1e-8, lr = 1e6;
    problem p = begin(QN_DTYPE_F16, 1);
    sgd(&p, (qn_sgd_options){.lr = lr});
    qn_loss_scaler s = {.interval = 3};
    bool stepped;
    double start[N], have[N];
    OK(p.c, qn_to_doubles(state_named(&p, "0.master"), start, N_W));
    for (int i = 0; i < 4; i++) {
        qn_optimizer_zero_grad(p.o);
        OK(p.c, qn_backward(qn_loss_scaler_scale(&s, qn_mul_number(qn_sum(qn_to(p.p[0], F32), QN_ALL, false), size))));
        OK(p.c, qn_loss_scaler_unscale(&s, p.o));
        const double norm = qn_item(qn_optimizer_clip(p.o, 1));
        assert_true(fabs(norm - size * sqrt(12)) < 1e-3 * size * sqrt(12));
        OK(p.c, qn_loss_scaler_step(&s, p.o, &stepped));
        assert_true(stepped);
    }
    assert_true(s.scale == 2 * SCALE); /* grew once */
    OK(p.c, qn_to_doubles(state_named(&p, "0.master"), have, N_W));
    for (int i = 0; i < N_W; i++) assert_true(fabs(have[i] - start[i] + 4 * lr * size) < 1e-3 * 4 * lr * size);
    /* too large for F16: left out, and the scale falls */
    params_of(&p, start);
    qn_optimizer_zero_grad(p.o);
    OK(p.c, qn_backward(qn_loss_scaler_scale(&s, qn_sum(qn_to(p.p[0], F32), QN_ALL, false))));
    OK(p.c, qn_loss_scaler_step(&s, p.o, &stepped));
    assert_false(stepped);
    assert_true(s.scale == SCALE);
    params_of(&p, have);
    assert_memory_equal(have, start, sizeof start);
    assert_int_equal(qn_optimizer_n_steps(p.o), 4);
    /* without a scale nothing is left of the gradient */
    qn_optimizer_zero_grad(p.o);
    OK(p.c, qn_backward(qn_mul_number(qn_sum(qn_to(p.p[0], F32), QN_ALL, false), size)));
    assert_true(qn_item(qn_optimizer_clip(p.o, 1)) == 0);
    end(&p);
}

/* ---- what is refused ---- */

static void refusals(void **state)
{
    (void)state;
    problem p = begin(F32, 1);
    qn_optimizer *o = NULL;
    qn_error err = {0};
#define NO(call, words) \
    do { \
        assert_int_not_equal(call, QN_OK); \
        assert_null(o); \
        if (strstr(err.text, words) == NULL) fail_msg("%s: \"%s\"", #call, err.text); \
    } while (0)
    NO(qn_sgd_create(NULL, p.p, 0, &o, &err), "no parameters");
    NO(qn_sgd_create(NULL, (qn_tensor *[]){p.x}, 1, &o, &err), "no leaf");
    NO(qn_sgd_create(NULL, (qn_tensor *[]){p.p[0], p.p[0]}, 2, &o, &err), "there already");
    NO(qn_sgd_create(&(qn_sgd_options){.lr = -1}, p.p, 2, &o, &err), "-1");
    NO(qn_sgd_create(&(qn_sgd_options){.nesterov = true}, p.p, 2, &o, &err), "Nesterov");
    NO(qn_adamw_create(&(qn_adam_options){.beta1 = 1}, p.p, 2, &o, &err), "betas");
    NO(qn_adamw_create(&(qn_adam_options){.weight_decay = NAN}, p.p, 2, &o, &err), "decay");
    qn_tensor *turned = qn_requires_grad_(qn_detach(qn_transpose(p.x, 0, 1)), true);
    NO(qn_adamw_create(NULL, &turned, 1, &o, &err), "contiguous");
    make_adamw(&p);
    assert_int_equal(qn_optimizer_set_lr(p.o, 1, 1), QN_STATUS_invalid);
    assert_int_equal(qn_optimizer_set_lr(p.o, 0, NAN), QN_STATUS_invalid);
    assert_true(qn_optimizer_lr(p.o, 0) == 0.05 && isnan(qn_optimizer_lr(p.o, 7)));
    assert_null(qn_optimizer_clip(p.o, -1));
    qn_context_clear(p.c);
    double before[N], after[N];
    params_of(&p, before);
    OK(p.c, qn_optimizer_step(p.o)); /* no gradients: nothing happens */
    params_of(&p, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(qn_optimizer_n_steps(p.o), 0);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trajectories),
        cmocka_unit_test(norms),
        cmocka_unit_test(norm_of_many),
        cmocka_unit_test(rates),
        cmocka_unit_test(nothing_new_from_step_2),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(resumes_to_the_bit),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(small_steps_add_up),
        cmocka_unit_test(loss_scaling),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
