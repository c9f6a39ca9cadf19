/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/optim.c -- optimizers against PyTorch's trajectories, clipping, learning rates, and what is refused. */
#include "unit/nn/optim_rig.h"

/* ---- trajectories ---- */

enum { STEPS = 12 };

typedef void (*clip_fn)(problem *p);

static void by_step(problem *p) { GOOD(p->c, qn_optimizer_clip(p->o, 0.5)); }
static void in_place(problem *p) { GOOD(p->c, qn_clip_grad_norm_(p->p, 2, 0.7, 2)); }
static void by_value(problem *p) { OK(p->c, qn_clip_grad_value_(p->p, 2, 0.1)); }

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

/* Rates and decays belong to groups, parameters come in order of adding. */
static void groups(void **state)
{
    (void)state;
    problem p = begin(F32, 1);
    make_sgd_groups(&p);
    assert_int_equal(qn_optimizer_n_groups(p.o), 2);
    assert_int_equal(qn_optimizer_n_params(p.o), 2);
    for (int i = 0; i < 2; i++) assert_ptr_equal(qn_optimizer_param(p.o, i), p.p[i]);
    assert_null(qn_optimizer_param(p.o, 2));
    assert_null(qn_optimizer_param(p.o, -1));
    assert_true(qn_optimizer_weight_decay(p.o, 0) == 0.1 && qn_optimizer_weight_decay(p.o, 1) == 0.2);
    OK(p.c, qn_optimizer_set_weight_decay(p.o, 1, 0.5));
    assert_true(qn_optimizer_weight_decay(p.o, 0) == 0.1 && qn_optimizer_weight_decay(p.o, 1) == 0.5);
    OK(p.c, qn_optimizer_set_weight_decay(p.o, QN_EVERY_GROUP, 2));
    assert_true(qn_optimizer_weight_decay(p.o, 0) == 2 && qn_optimizer_weight_decay(p.o, 1) == 2);
    assert_true(isnan(qn_optimizer_weight_decay(p.o, 2)) && isnan(qn_optimizer_lr(p.o, -2)));
    assert_int_equal(qn_optimizer_set_weight_decay(p.o, 2, 0), QN_STATUS_invalid);
    qn_context_clear(p.c);
    /* without gradients of its loss a parameter shrinks by rate times decay */
    double before[N], after[N];
    params_of(&p, before);
    OK(p.c, qn_set_grad(p.p[1], qn_zeros(p.c, qn_shape_of(3), F32)));
    OK(p.c, qn_optimizer_step(p.o));
    params_of(&p, after);
    for (int i = 0; i < N_B; i++) before[N_W + i] *= 1 - 0.03 * 2;
    near("decayed", after, before, N, 1e-7);
    end(&p);
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

static void clipping_refuses(void **state)
{
    (void)state;
    problem p = begin(QN_DTYPE_F64, 2);
    REFUSED(p.c, qn_clip_grad_norm_(p.p, 2, -1, 2), "clip_grad_norm_: ");
    REFUSED(p.c, qn_clip_grad_norm_(p.p, 2, NAN, 2), "clip_grad_norm_: ");
    assert_int_equal(qn_clip_grad_value_(p.p, 2, -1), QN_STATUS_invalid);
    qn_context_clear(p.c);
    end(&p);
}

/* Orders that count, or take the least; what is no tensor any more, and no tensor at all. */
static void odd_clips(void **state)
{
    (void)state;
    problem p = begin(QN_DTYPE_F64, 1);
    static const double g[3][2] = {{3, -4}, {0, 0}, {0, -0.5}};
    qn_tensor *t[4];
    for (int order = 0; order < 2; order++) {
        for (int i = 0; i < 3; i++) {
            t[i] = qn_requires_grad_(qn_ones(p.c, qn_shape_of(2), QN_DTYPE_F64), true);
            OK(p.c, qn_set_grad(t[i], qn_from_data(p.c, g[i], qn_shape_of(2), QN_DTYPE_F64)));
        }
        qn_tensor *norm = qn_clip_grad_norm_(t, 3, 1, order ? -INFINITY : 0);
        GOOD(p.c, norm);
        const double want = order ? 0 : 2, factor = order ? 1 : 1 / (2 + 1e-6); /* as torch.nn.utils' */
        assert_true(qn_item(norm) == want);
        for (int i = 0; i < 3; i++) {
            double have[2], clipped[2] = {g[i][0] * factor, g[i][1] * factor};
            OK(p.c, qn_to_doubles(qn_grad(t[i]), have, 2));
            near("clipped", have, clipped, 2, 1e-14);
        }
    }
    REFUSED(p.c, qn_clip_grad_norm_(t, 3, 1, NAN), "the order of the norm is NaN");
    t[3] = qn_requires_grad_(qn_ones(p.c, qn_shape_of(2), QN_DTYPE_F64), true);
    qn_release(t[3]);
    REFUSED(p.c, qn_clip_grad_norm_(t, 4, 1, 2), "clip_grad_norm_: this tensor is over");
    REFUSED(p.c, qn_clip_grad_norm_(t + 3, 1, 1, 2), "clip_grad_norm_: this tensor is over");
    assert_int_equal(qn_clip_grad_value_(t, 4, 1), QN_STATUS_invalid);
    assert_non_null(strstr(qn_context_error(p.c)->text, "clip_grad_value_: this tensor is over"));
    qn_context_clear(p.c);
    OK(p.c, qn_clip_grad_value_(NULL, 0, 1));
    assert_null(qn_clip_grad_norm_(NULL, 0, 1, 2));
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
    /* from `total` on */
    qn_lr_schedule end = {.kind = QN_LR_linear, .lr = 1, .min_lr = 0.1, .total = 10};
    assert_true(qn_lr_at(&end, 9) > 0.1 + 1e-3 && qn_lr_at(&end, 10) == 0.1 && qn_lr_at(&end, 1000) == 0.1);
    end.kind = QN_LR_cosine;
    assert_true(qn_lr_at(&end, 9) > 0.1 + 1e-3 && qn_lr_at(&end, 10) == 0.1 && qn_lr_at(&end, 1000) == 0.1);
    end.kind = QN_LR_one_cycle;
    assert_true(qn_lr_at(&end, 10) == qn_lr_at(&end, 9) && qn_lr_at(&end, 1000) == qn_lr_at(&end, 9));
    end = (qn_lr_schedule){.kind = QN_LR_exponential, .lr = 1, .total = 10, .gamma = 0.9};
    assert_true(fabs(qn_lr_at(&end, 100) - pow(0.9, 100)) < 1e-15);
    end = (qn_lr_schedule){.kind = QN_LR_step, .lr = 1, .total = 10, .gamma = 0.5, .every = 10};
    assert_true(qn_lr_at(&end, 9) == 1 && qn_lr_at(&end, 10) == 0.5 && qn_lr_at(&end, 20) == 0.25);
    assert_true(isnan(qn_lr_at(&(qn_lr_schedule){.kind = QN_LR_COUNT}, 0)));
    assert_true(qn_lr_at(&(qn_lr_schedule){.kind = QN_LR_exponential, .lr = 1, .min_lr = 0.25, .gamma = 0.5}, 9) ==
                0.25);
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
        cmocka_unit_test(trajectories), cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(norms),        cmocka_unit_test(norm_of_many),
        cmocka_unit_test(rates),        cmocka_unit_test(groups),
        cmocka_unit_test(refusals),     cmocka_unit_test(clipping_refuses),
        cmocka_unit_test(odd_clips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
