/* SPDX-License-Identifier: MIT */
/* tests/unit/array/train.c -- training by hand: the loss falls, and from the second step on nothing is allocated and
 * nothing is compiled. */
#include "rig.h"

enum { N = 64, STEPS = 50 };

/* mean of squares, by a product with a row of 1/n: what sums is not under test here */
static qn_tensor *mean_square(qn_tensor *d, qn_tensor *average)
{
    qn_tensor *flat = qn_reshape(qn_mul(d, d), qn_shape_of(1, qn_numel(d)));
    return qn_reshape(qn_linear(flat, average, NULL), QN_SCALAR);
}

static void linear_regression(void **state)
{
    (void)state;
    qn_context *c = context_new();
    float x[N * 3], y[N];
    uint32_t seed = 1;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525 + 1013904223;
            x[i * 3 + k] = (float)(seed >> 8) / (1 << 23) - 1;
        }
        y[i] = 2 * x[i * 3] - 3 * x[i * 3 + 1] + 0.5f * x[i * 3 + 2] + 0.25f;
    }
    qn_tensor *inputs = f32(c, qn_shape_of(N, 3), x), *targets = f32(c, qn_shape_of(N, 1), y);
    qn_tensor *average = qn_full(c, qn_shape_of(1, N), 1.0 / N, F32);
    qn_tensor *w = qn_requires_grad_(qn_zeros(c, qn_shape_of(1, 3), F32), true);
    qn_tensor *b = qn_requires_grad_(qn_zeros(c, qn_shape_of(1), F32), true);
    void *const w_at = qn_data(w);
    double first = 0, last = 0;
    qn_metrics before = {0}, after;
    for (int step = 0; step < STEPS; step++) {
        if (step == 1) qn_metrics_snapshot(&before);
        OK(c, qn_scope_begin(c));
        qn_tensor *d = qn_add(qn_linear(inputs, w, b), qn_mul_number(targets, -1));
        qn_tensor *loss = mean_square(d, average);
        GOOD(c, loss);
        OK(c, qn_backward(loss));
        const bool was = qn_set_grad_enabled(c, false);
        GOOD(c, qn_add_(w, qn_mul_number(qn_grad(w), -0.5 + 0.001 * step))); /* a rate that changes */
        GOOD(c, qn_add_(b, qn_mul_number(qn_grad(b), -0.5 + 0.001 * step)));
        qn_set_grad_enabled(c, was);
        qn_zero_grad(w);
        qn_zero_grad(b);
        loss = qn_scope_end(c, loss);
        last = qn_item(loss);
        if (step == 0) first = last;
        qn_release(loss);
    }
    qn_metrics_snapshot(&after);
    printf("loss %g -> %g\n", first, last);
    assert_true(first > 1 && last < 1e-4);
    assert_int_equal(after.allocs, before.allocs);
    assert_int_equal(after.plan_cache_misses, before.plan_cache_misses);
    assert_int_equal(after.plan_cache_hits - before.plan_cache_hits, STEPS - 1);
    assert_ptr_equal(qn_data(w), w_at);
    double got[3];
    OK(c, qn_to_doubles(w, got, 3));
    assert_true(fabs(got[0] - 2) < 0.02 && fabs(got[1] + 3) < 0.02 && fabs(got[2] - 0.5) < 0.02);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(linear_regression)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
