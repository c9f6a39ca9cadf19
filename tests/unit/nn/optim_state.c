/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/optim_state.c -- what an optimizer keeps from step to step: graphs and memory of repeated steps, saving
 * and going on, masters of 16-bit parameters, the scale of a loss. */
#include "unit/nn/optim_rig.h"

#include <unistd.h>

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

static void step(problem *p, int i)
{
    qn_optimizer_zero_grad(p->o);
    gradients(p);
    OK(p->c, qn_optimizer_set_lr(p->o, 0, 0.1 / (1 + i)));
    OK(p->c, qn_optimizer_step(p->o));
}

static void set_from(qn_tensor *dst, qn_tensor *src)
{
    char bytes[1024];
    const size_t n = (size_t)qn_numel(src) * qn_dtype_get(qn_dtype_of(src))->block_bytes;
    assert_true(n <= sizeof bytes && qn_dtype_of(dst) == qn_dtype_of(src));
    assert_int_equal(qn_to_host(src, bytes, n), QN_OK);
    assert_int_equal(qn_set_data(dst, bytes, n), QN_OK);
}

/* As from a file, but each tensor of the state is handed over. */
static void resumes_from_tensors(void **state)
{
    (void)state;
    static const struct {
        make_fn make;
        qn_dtype dtype;
    } cases[] = {{make_adamw_amsgrad, F32},
                 {make_sgd_nesterov, F32},
                 {make_adamw_groups, F32},
                 {make_adamw, QN_DTYPE_BF16},
                 {make_sgd_momentum, QN_DTYPE_F16}};
    for (size_t m = 0; m < sizeof cases / sizeof cases[0]; m++) {
        double straight[N], resumed[N];
        problem a = begin(cases[m].dtype, 1), b = begin(cases[m].dtype, 1);
        cases[m].make(&a);
        cases[m].make(&b);
        for (int i = 0; i < 5; i++) step(&a, i);
        const bool was = qn_set_grad_enabled(b.c, false);
        for (int k = 0; k < 2; k++) set_from(b.p[k], a.p[k]);
        qn_set_grad_enabled(b.c, was);
        const int n = qn_optimizer_n_state(a.o);
        assert_true(n > 2);
        assert_int_equal(qn_optimizer_n_state(b.o), n);
        for (int i = 0; i < n; i++) {
            const char *name;
            char of_a[64];
            qn_tensor *src = qn_optimizer_state(a.o, i, &name);
            GOOD(a.c, src);
            snprintf(of_a, sizeof of_a, "%s", name);
            qn_tensor *dst = qn_optimizer_state(b.o, i, &name);
            GOOD(b.c, dst);
            assert_string_equal(name, of_a);
            set_from(dst, src);
        }
        assert_int_equal(qn_optimizer_n_steps(b.o), 0);
        OK(b.c, qn_optimizer_state_set(b.o));
        assert_int_equal(qn_optimizer_n_steps(b.o), 5);
        assert_true(qn_optimizer_lr(b.o, 0) == 0.1 / 5);
        for (int i = 5; i < 8; i++) {
            step(&a, i);
            step(&b, i);
        }
        params_of(&a, straight);
        params_of(&b, resumed);
        assert_memory_equal(straight, resumed, sizeof straight);
        end(&a);
        end(&b);
    }
}

static qn_context_info info_of(const problem *p)
{
    qn_context_info info;
    OK(p->c, qn_eval_all(p->c));
    qn_context_get_info(p->c, &info);
    return info;
}

/* However often the state was saved, loaded or asked for, nothing of it stays when the optimizer has ended. */
static void asking_keeps_nothing(void **state)
{
    (void)state;
    static const qn_dtype dtypes[] = {F32, QN_DTYPE_BF16};
    for (int d = 0; d < 2; d++) {
        char path[] = QN_BUILD_DIR "/t_nn_optim_XXXXXX";
        const int fd = mkstemp(path);
        assert_true(fd >= 0);
        close(fd);
        problem p = begin(dtypes[d], 1);
        gradients(&p);
        const qn_context_info before = info_of(&p);
        make_adamw(&p);
        OK(p.c, qn_optimizer_step(p.o));
        qn_context_info first = {0}, now;
        for (int i = 0; i < 3; i++) {
            const char *name;
            qn_error err = {0};
            if (qn_optimizer_save(p.o, path, &err) != QN_OK) fail_msg("%s", err.text);
            if (qn_optimizer_load(p.o, path, &err) != QN_OK) fail_msg("%s", err.text);
            for (int k = 0; k < qn_optimizer_n_state(p.o); k++) GOOD(p.c, qn_optimizer_state(p.o, k, &name));
            now = info_of(&p);
            if (i == 0) first = now;
            assert_int_equal(now.n_tensors, first.n_tensors);
            assert_int_equal(now.n_storages, first.n_storages);
        }
        qn_optimizer_destroy(p.o);
        p.o = NULL;
        now = info_of(&p);
        assert_int_equal(now.n_tensors, before.n_tensors);
        assert_int_equal(now.n_storages, before.n_storages);
        assert_int_equal(now.live_bytes, before.live_bytes);
        end(&p);
        unlink(path);
    }
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

/* What somebody writes into a 16-bit parameter is what the next step starts from, whichever way it came there; a step
 * for another part of the same storage is nobody's. */
static void values_given_later_stay(void **state)
{
    (void)state;
    enum { COPY, FILL, BECOME, N_WAYS };
    for (int which = 0; which < 2 * N_WAYS; which++) {
        const qn_dtype dtype = which % 2 ? QN_DTYPE_F16 : QN_DTYPE_BF16;
        problem p = begin(dtype, 1);
        qn_tensor *whole = qn_ones(p.c, qn_shape_of(6), dtype);
        qn_tensor *t[2] = {qn_requires_grad_(qn_narrow(whole, 0, 0, 3), true),
                           qn_requires_grad_(qn_narrow(whole, 0, 3, 3), true)};
        qn_error err = {0};
        if (qn_sgd_create(&(qn_sgd_options){.lr = 1e-5}, t, 2, &p.o, &err) != QN_OK) fail_msg("%s", err.text);
        for (int k = 0; k < 2; k++) OK(p.c, qn_set_grad(t[k], qn_ones(p.c, qn_shape_of(3), dtype)));
        for (int i = 0; i < 100; i++) OK(p.c, qn_optimizer_step(p.o));
        const bool was = qn_set_grad_enabled(p.c, false);
        qn_tensor *fives = qn_full(p.c, qn_shape_of(3), 5, dtype);
        if (which / 2 == COPY) GOOD(p.c, qn_copy_(t[0], fives));
        if (which / 2 == FILL) GOOD(p.c, qn_fill_(t[0], 5));
        if (which / 2 == BECOME) GOOD(p.c, qn_become(t[0], qn_requires_grad_(fives, true)));
        qn_set_grad_enabled(p.c, was);
        for (int k = 0; k < 2; k++) OK(p.c, qn_set_grad(t[k], qn_ones(p.c, qn_shape_of(3), dtype)));
        for (int i = 0; i < 100; i++) OK(p.c, qn_optimizer_step(p.o));
        double have[3];
        OK(p.c, qn_to_doubles(t[0], have, 3));
        for (int i = 0; i < 3; i++) assert_true(fabs(have[i] - 4.999) < 0.02);
        /* the other's master lost nothing: 200 steps of 1e-5, none of which 16 bits would show */
        OK(p.c, qn_to_doubles(state_named(&p, "1.master"), have, 3));
        for (int i = 0; i < 3; i++) assert_true(fabs(have[i] - 0.998) < 1e-5);
        OK(p.c, qn_to_doubles(state_named(&p, "0.master"), have, 3));
        for (int i = 0; i < 3; i++) assert_true(fabs(have[i] - 4.999) < 1e-4);
        end(&p);
    }
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

/* Two optimizers in one round: each leaves out its own step only, divides by the scale that the loss had, and the scale
 * adapts once. */
static void one_scale_for_two(void **state)
{
    (void)state;
    problem p = begin(F32, 1);
    qn_tensor *a = qn_requires_grad_(qn_ones(p.c, QN_SCALAR, F32), true);
    qn_tensor *b = qn_requires_grad_(qn_ones(p.c, QN_SCALAR, F32), true);
    qn_optimizer *o[2];
    qn_error err = {0};
    qn_tensor *params[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        if (qn_sgd_create(&(qn_sgd_options){.lr = 1}, &params[k], 1, &o[k], &err) != QN_OK) fail_msg("%s", err.text);
    }
    static const struct {
        double a, b; /* gradients */
        bool steps[2];
        double scale; /* after them */
        int64_t good;
    } rounds[] = {
        {INFINITY, 1, {false, true}, 4, 0}, {1, NAN, {true, false}, 2, 0},      {INFINITY, NAN, {false, false}, 1, 0},
        {1, 1, {true, true}, 1, 1},         {1, 2, {true, true}, 2, 0}, /* an interval is over */
        {1, 1, {true, true}, 2, 1},         {1, INFINITY, {true, false}, 1, 0},
    };
    qn_loss_scaler s = {.scale = 8, .interval = 2};
    double want[2] = {1, 1};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        for (int apart = 0; apart < 2; apart++) { /* a loss of both, or one each */
            qn_loss_scaler own = s;
            const double factor[2] = {rounds[i].a, rounds[i].b};
            qn_tensor *part[2];
            for (int k = 0; k < 2; k++) {
                qn_optimizer_zero_grad(o[k]);
                part[k] = qn_mul_number(params[k], factor[k]);
                if (apart) OK(p.c, qn_backward(qn_loss_scaler_scale(&own, part[k])));
            }
            if (!apart) OK(p.c, qn_backward(qn_loss_scaler_scale(&own, qn_add(part[0], part[1]))));
            for (int k = 0; k < 2; k++) OK(p.c, qn_loss_scaler_unscale(&own, o[k]));
            assert_int_equal(qn_loss_scaler_unscale(&own, o[1]), QN_STATUS_state);
            qn_context_clear(p.c);
            for (int k = 0; k < 2; k++) {
                bool stepped;
                OK(p.c, qn_loss_scaler_step(&own, o[k], &stepped));
                assert_int_equal(stepped, rounds[i].steps[k]);
                if (stepped) want[k] -= factor[k];
                assert_true(qn_item(params[k]) == want[k]);
            }
            assert_true(own.scale == rounds[i].scale);
            assert_int_equal(own.good, rounds[i].good);
            if (apart) s = own;
        }
    }
    for (int k = 0; k < 2; k++) qn_optimizer_destroy(o[k]);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_new_from_step_2),
        cmocka_unit_test(resumes_to_the_bit),
        cmocka_unit_test(wrong_files),
        cmocka_unit_test(small_steps_add_up),
        cmocka_unit_test(values_given_later_stay),
        cmocka_unit_test(loss_scaling),
        cmocka_unit_test(one_scale_for_two),
        cmocka_unit_test(resumes_from_tensors),
        cmocka_unit_test(asking_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
