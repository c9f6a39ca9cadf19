/* SPDX-License-Identifier: MIT */
/* tests/fault/tensors.c -- a training step with an allocation missing: an error, nothing leaked, and every tensor as it was. */
#include "failing.h"

#include <quern/autograd.h>
#include <quern/ops.h>

typedef struct net {
    qn_context *ctx;
    qn_tensor *x, *w, *b;
} net;

static qn_status build(net *n, qn_error *err)
{
    *n = (net){0};
    qn_status status = qn_context_create(&(qn_context_options){.n_threads = 1}, &n->ctx, err);
    if (status != QN_OK) return status;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    n->x = qn_keep(qn_from_data(n->ctx, x, qn_shape_of(2, 3), QN_DTYPE_F32));
    n->w = qn_keep(qn_requires_grad_(qn_full(n->ctx, qn_shape_of(4, 3), 0.5, QN_DTYPE_F32), true));
    n->b = qn_keep(qn_requires_grad_(qn_zeros(n->ctx, qn_shape_of(4), QN_DTYPE_F32), true));
    if (n->x && n->w && n->b) return QN_OK;
    *err = *qn_context_error(n->ctx);
    return err->status;
}

/* Values of w before the step are w0; the step either happens or does not. */
static qn_status step(net *n, qn_error *err)
{
    qn_context *c = n->ctx;
    qn_context_clear(c);
    qn_status status = qn_scope_begin(c);
    if (status == QN_OK) {
        qn_tensor *y = qn_linear(n->x, n->w, n->b), *two = qn_mul(y, y);
        qn_tensor *flat = qn_reshape(two, qn_shape_of(1, 8)), *ones = qn_full(c, qn_shape_of(1, 8), 1, QN_DTYPE_F32);
        qn_tensor *loss = qn_linear(flat, ones, NULL);
        status = qn_backward(loss);
        const bool was = qn_set_grad_enabled(c, false);
        if (status == QN_OK && !qn_add_(n->w, qn_mul_number(qn_grad(n->w), 0.0))) status = QN_STATUS_nomem;
        qn_set_grad_enabled(c, was);
        if (status == QN_OK) status = qn_eval(n->w);
        if (status == QN_OK && qn_data(n->w) == NULL) status = QN_STATUS_nomem;
        (void)qn_scope_end(c, NULL);
        qn_zero_grad(n->w);
        qn_zero_grad(n->b);
    }
    if (status != QN_OK) {
        *err = *qn_context_error(c);
        return err->status != QN_OK ? err->status : QN_STATUS_internal;
    }
    return QN_OK;
}

static qn_status whole_life(void *ctx, qn_error *err)
{
    net n;
    (void)ctx;
    qn_status status = build(&n, err);
    if (status == QN_OK) status = step(&n, err);
    qn_context_destroy(n.ctx);
    return status;
}

static void life(void **state)
{
    (void)state;
    fault_sweep("a context and a step", whole_life, NULL, NULL);
}

/* In a context that lives on: after each failure weights are what they were, and a step works. */
static void survivors(void **state)
{
    (void)state;
    for (int all_after = 0; all_after < 2; all_after++) {
        for (long at = 0;; at++) {
            net n;
            qn_error err = {0};
            assert_int_equal(build(&n, &err), QN_OK);
            hook_arm(at, all_after);
            const qn_status status = step(&n, &err);
            const bool through = hook.n <= at;
            hook_arm(-1, false);
            if (status != QN_OK && (status != QN_STATUS_nomem || err.text[0] == '\0'))
                fail_msg("allocation %ld: %s \"%s\"", at, qn_status_name(status), err.text);
            double w[12];
            qn_context_clear(n.ctx);
            assert_int_equal(qn_to_doubles(n.w, w, 12), QN_OK);
            for (int i = 0; i < 12; i++) assert_true(w[i] == 0.5);
            if (step(&n, &err) != QN_OK) fail_msg("allocation %ld, the step after: %s", at, err.text);
            assert_null(qn_grad(n.w));
            qn_context_destroy(n.ctx);
            if (through) break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(life), cmocka_unit_test(survivors)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
