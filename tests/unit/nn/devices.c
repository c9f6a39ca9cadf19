/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/devices.c -- modules whose parts lie on two devices: forward, training and decoding have the bits that
 * they have on one, and weights come from a file to where they are asked for. */
#include "../array/devices_rig.h"
#include "rig.h"

#include <quern/optim.h>

static char path[2][160];

enum { N_IN = 32, N_HIDDEN = 48, N_CLASSES = 5, N_ROWS = 12, N_PARAMS = 6 };

static qn_module *network(qn_context *c)
{
    qn_manual_seed(c, 11);
    return qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, N_IN, N_HIDDEN, true), qn_nn_tanh(c),
                                          qn_nn_layer_norm(c, qn_shape_of(N_HIDDEN), 0, true, true),
                                          qn_nn_linear(c, N_HIDDEN, N_CLASSES, true)));
}

static void put(qn_module *m, const char *part, const char *device)
{
    OK(qn_module_context(m), qn_module_to_device(*part != '\0' ? qn_module_find(m, part) : m, device));
}

/* Some steps; the losses, and the parameters at the end. */
static void train(qn_module *m, bool adam, float losses[4], qn_tensor *params[N_PARAMS])
{
    qn_context *c = qn_module_context(m);
    qn_error err = {0};
    int64_t targets[N_ROWS];
    qn_optimizer *o = NULL;
    for (int i = 0; i < N_ROWS; i++) targets[i] = (i * 7 + 3) % N_CLASSES;
    assert_int_equal(qn_module_parameters(m, params, N_PARAMS), N_PARAMS);
    const qn_status made =
        adam ? qn_adamw_create(&(qn_adam_options){.lr = 0.01, .weight_decay = 0.1, .amsgrad = true}, params, N_PARAMS,
                               &o, &err)
             : qn_sgd_create(&(qn_sgd_options){.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
                             params, N_PARAMS, &o, &err);
    if (made != QN_OK) fail_msg("%s", err.text);
    for (int step = 0; step < 4; step++) {
        OK(c, qn_scope_begin(c));
        qn_tensor *x = numbers(c, qn_shape_of(N_ROWS, N_IN), step);
        qn_tensor *y = qn_module_forward(m, x);
        GOOD(c, y);
        qn_tensor *of = qn_to_device(qn_from_data(c, targets, qn_shape_of(N_ROWS), QN_DTYPE_I64), qn_device_of(y));
        qn_tensor *loss = qn_cross_entropy(y, of, NULL);
        OK(c, qn_backward(loss));
        GOOD(c, qn_optimizer_clip(o, 0.5));
        OK(c, qn_optimizer_step(o));
        qn_optimizer_zero_grad(o);
        losses[step] = (float)qn_item(loss);
        (void)qn_scope_end(c, NULL);
        OK(c, qn_eval_all(c));
    }
    OK(c, qn_optimizer_save(o, path[1], &err) == QN_OK ? QN_OK : err.status);
    OK(c, qn_optimizer_load(o, path[1], &err) == QN_OK ? QN_OK : err.status);
    qn_optimizer_destroy(o);
}

static void training_has_the_same_bits(void **state)
{
    static const struct {
        const char *first, *second;
    } parts[] = {{"", ""}, {"0", "0"}, {"3", "2"}}; /* all, the first layer, the last two */
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        for (int k = 0; k < 3; k++) {
            const bool adam = k != 1;
            qn_context *c = context_over(sides[s].list);
            qn_module *here = network(c), *over = network(c);
            float want[4], have[4];
            qn_tensor *p[N_PARAMS], *q[N_PARAMS];
            put(over, parts[k].first, sides[s].device);
            put(over, parts[k].second, sides[s].device);
            EXPECT_DEVICE(qn_module_tensor(over, k == 2 ? "3.bias" : "0.weight"), sides[s].device);
            EXPECT_DEVICE(qn_module_tensor(over, "3.bias"), k == 1 ? qn_context_device(c, 0) : sides[s].device);
            train(here, adam, want, p);
            train(over, adam, have, q);
            assert_memory_equal(have, want, sizeof want);
            for (int i = 0; i < N_PARAMS; i++) EXPECT_SAME(q[i], p[i]);
            put(over, "", "cpu"); /* and back */
            for (int i = 0; i < N_PARAMS; i++) EXPECT_DEVICE(q[i], qn_context_device(c, 0));
            for (int i = 0; i < N_PARAMS; i++) EXPECT_SAME(q[i], p[i]);
            assert_int_equal(qn_module_to_device(over, "warp"), QN_STATUS_invalid);
            assert_non_null(strstr(qn_context_error(c)->text, "has no device \"warp\""));
            qn_context_clear(c);
            qn_module_destroy(here);
            qn_module_destroy(over);
            context_end(c);
        }
    }
}

/* Steps of a parameter of that dtype: its values at the end. */
static qn_tensor *stepped(qn_context *c, const char *device, qn_dtype dtype, bool adam)
{
    qn_error err = {0};
    qn_optimizer *o = NULL;
    qn_tensor *x = qn_to_device(qn_to(numbers(c, qn_shape_of(4, 8), 1), dtype), device);
    qn_tensor *p = qn_requires_grad_(qn_to_device(qn_to(numbers(c, qn_shape_of(4, 8), 2), dtype), device), true);
    const qn_status made =
        adam ? qn_adam_create(&(qn_adam_options){.lr = 0.01, .weight_decay = 0.1}, &p, 1, &o, &err)
             : qn_sgd_create(&(qn_sgd_options){.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, &p, 1, &o, &err);
    if (made != QN_OK) fail_msg("%s", err.text);
    for (int step = 0; step < 3; step++) {
        OK(c, qn_backward(qn_mean(qn_square(qn_sub(p, x)), QN_ALL, false)));
        OK(c, qn_optimizer_step(o));
        qn_optimizer_zero_grad(o);
    }
    qn_optimizer_destroy(o);
    return qn_detach(p);
}

/* Queries are projected elsewhere than the input and the mask lie. */
static void a_mask_goes_with_the_queries(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        const qn_mha_options options = {.embd = 16, .heads = 2, .bias = true};
        qn_module *here, *over;
        qn_manual_seed(c, 3);
        here = qn_nn_mha(c, &options);
        qn_manual_seed(c, 3);
        over = qn_nn_mha(c, &options);
        put(over, "", sides[s].device);
        qn_tensor *x = numbers(c, qn_shape_of(2, 5, 16), 1), *at = qn_arange(c, 0, 5, 1, QN_DTYPE_I64);
        qn_tensor *in[4] = {x, NULL, NULL, qn_ge(qn_unsqueeze(at, 1), at)};
        qn_tensor *y = qn_module_forward_n(over, in, 4);
        GOOD(c, y);
        EXPECT_DEVICE(y, sides[s].device);
        EXPECT_SAME(y, qn_module_forward_n(here, in, 4));
        qn_module_destroy(here);
        qn_module_destroy(over);
        context_end(c);
    }
}

/* The kernels of devices step F32 alone. */
static void a_step_without_a_kernel_is_computed_elsewhere(void **state)
{
    (void)state;
    for (int s = 1; s < N_SIDES; s++) {
        if (!there[s]) continue;
        for (int adam = 0; adam < 2; adam++) {
            qn_context *c = context_over(sides[s].list), *strict = NULL;
            qn_tensor *want = stepped(c, qn_context_device(c, 0), QN_DTYPE_F64, adam);
            assert_int_equal(fallbacks(c), 0);
            qn_tensor *have = stepped(c, sides[s].device, QN_DTYPE_F64, adam);
            EXPECT_DEVICE(have, sides[s].device);
            EXPECT_SAME(have, want);
            assert_true(fallbacks(c) > 0);
            EXPECT_SAME(stepped(c, sides[s].device, F32, adam), stepped(c, qn_context_device(c, 0), F32, adam));
            context_end(c);
            qn_error err = {0};
            const qn_context_options options = {.backend = sides[s].list, .n_threads = 1, .strict = true};
            if (qn_context_create(&options, &strict, &err) != QN_OK) fail_msg("%s", err.text);
            qn_optimizer *o = NULL;
            qn_tensor *p = qn_zeros(strict, qn_shape_of(3), QN_DTYPE_F64);
            p = qn_requires_grad_(qn_to_device(p, sides[s].device), true);
            if (qn_adam_create(NULL, &p, 1, &o, &err) != QN_OK) fail_msg("%s", err.text);
            OK(strict, qn_set_grad(p, qn_to_device(qn_ones(strict, qn_shape_of(3), QN_DTYPE_F64), sides[s].device)));
            assert_int_equal(qn_optimizer_step(o), QN_STATUS_unsupported);
            assert_non_null(strstr(qn_context_error(strict)->text, "a strict context computes nowhere else"));
            qn_context_clear(strict);
            EXPECT(p, 0, 0, 0);
            qn_optimizer_destroy(o);
            context_end(strict);
        }
    }
}

/* Tensors of the second layer lie on the device that arg names. */
static const char *place(void *arg, const char *name, const qn_tensor_info *info)
{
    (void)info;
    return name[0] == '3' ? arg : NULL;
}

static void weights_are_loaded_to_where_they_are_asked_for(void **state)
{
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_module *a = network(c), *b = network(c);
        qn_error err = {0};
        GOOD(c, qn_init_constant_(qn_module_tensor(a, "3.bias"), 0.25));
        put(a, "0", sides[s].device); /* what lies on a device is saved like all else */
        if (qn_module_save(a, path[0], NULL, &err) != QN_OK) fail_msg("%s", err.text);
        const qn_load_options options = {.place = place, .arg = (void *)(uintptr_t)sides[s].device};
        if (qn_module_load(b, path[0], &options, &err) != QN_OK) fail_msg("%s", err.text);
        EXPECT_DEVICE(qn_module_tensor(b, "3.weight"), sides[s].device);
        EXPECT_DEVICE(qn_module_tensor(b, "3.bias"), sides[s].device);
        EXPECT_DEVICE(qn_module_tensor(b, "0.weight"), qn_context_device(c, 0));
        qn_tensor *x = numbers(c, qn_shape_of(3, N_IN), 1), *y = qn_module_forward(b, x);
        EXPECT_DEVICE(y, sides[s].device);
        EXPECT_SAME(y, qn_module_forward(a, x));
        const qn_load_options nowhere = {.place = place, .arg = (void *)(uintptr_t) "cuda:9"};
        assert_int_equal(qn_module_load(b, path[0], &nowhere, &err), QN_STATUS_invalid);
        assert_non_null(strstr(err.text, "tensor 3.weight: place: this context has no device \"cuda:9\""));
        if (qn_module_load_from(a, b, false, &err) != QN_OK) fail_msg("%s", err.text); /* each stays where it is */
        EXPECT_DEVICE(qn_module_tensor(a, "0.weight"), sides[s].device);
        EXPECT_DEVICE(qn_module_tensor(a, "3.weight"), qn_context_device(c, 0));
        EXPECT_SAME(qn_module_tensor(a, "3.bias"), qn_module_tensor(b, "3.bias"));
        qn_module_destroy(a);
        qn_module_destroy(b);
        context_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(training_has_the_same_bits),
                                       cmocka_unit_test(a_step_without_a_kernel_is_computed_elsewhere),
                                       cmocka_unit_test(a_mask_goes_with_the_queries),
                                       cmocka_unit_test(weights_are_loaded_to_where_they_are_asked_for)};
    snprintf(path[0], sizeof path[0], QN_BUILD_DIR "/t_nn_devices_%d.gguf", (int)getpid());
    snprintf(path[1], sizeof path[1], QN_BUILD_DIR "/t_nn_devices_%d.safetensors", (int)getpid());
    find_sides();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 2; i++) (void)remove(path[i]);
    return failed;
}
