/* SPDX-License-Identifier: MIT */
/* tests/unit/array/faults.c -- what a program does wrong: found, said, and of no consequence to anything else. */
#include "rig.h"

/* ---- handles that have ended ---- */

static void a_handle_that_was_released_names_nothing(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *old = qn_full(c, qn_shape_of(2), 1, F32);
    qn_release(old);
    for (int i = 0; i < 5000; i++) { /* its slot is used again each time */
        qn_tensor *t = qn_full(c, qn_shape_of(2), i, F32);
        assert_ptr_not_equal(t, old);
        REFUSED(c, qn_add(old, t), "add: this tensor is over");
        REFUSED(c, qn_data(old), "data: this tensor is over");
        EXPECT(t, i, i);
        qn_release(t);
    }
    assert_int_equal(qn_rank(old), -1);
    assert_int_equal(qn_dtype_of(old), QN_DTYPE_COUNT);
    qn_context_clear(c);
    context_end(c);
}

static void a_second_release_is_said_and_hurts_nobody(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_full(c, qn_shape_of(2), 1, F32);
    qn_release(a);
    qn_tensor *b = qn_full(c, qn_shape_of(2), 2, F32);
    qn_release(a);
    assert_int_equal(qn_context_error(c)->status, QN_STATUS_state);
    assert_string_equal(qn_context_error(c)->text,
                        "release: this tensor is over: its handle was released, or the scope "
                        "that it was made in has ended");
    qn_context_clear(c);
    EXPECT(b, 2, 2);
    qn_context_clear(c);
    assert_null(qn_keep(a));
    assert_null(qn_retain(a));
    qn_context_clear(c);
    context_end(c);
}

static void a_scope_that_ended_took_its_handles(void **state)
{
    (void)state;
    qn_context *c = context_new();
    OK(c, qn_scope_begin(c));
    qn_tensor *inside = qn_full(c, qn_shape_of(2), 3, F32);
    assert_null(qn_scope_end(c, NULL));
    qn_tensor *other = qn_full(c, qn_shape_of(3), 4, F32);
    REFUSED(c, qn_mul_number_(inside, 2), "mul: this tensor is over");
    EXPECT(other, 4, 4, 4);
    context_end(c);
}

/* ---- gradients and writes in place ---- */

static qn_tensor *leaf_of(qn_context *c, qn_tensor *t)
{
    GOOD(c, t);
    return qn_requires_grad_(t, true);
}

static void a_view_of_a_leaf_is_not_written(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *w = leaf_of(c, qn_ones(c, qn_shape_of(2, 3), F32)), *x = leaf_of(c, qn_ones(c, qn_shape_of(6), F32));
    qn_tensor *flat = qn_view_as(w, qn_shape_of(6)), *again = qn_view_as(flat, qn_shape_of(2, 3));
    REFUSED(c, qn_mul_number_(w, 2), "mul: a leaf that requires a gradient cannot be written in place");
    REFUSED(c, qn_add_(flat, x), "add: a view of a leaf that requires a gradient cannot be written in place");
    REFUSED(c, qn_mul_number_(again, 2), "a view of a leaf");
    REFUSED(c, qn_mul_number_(qn_transpose(w, 0, 1), 2), "a view of a leaf");
    REFUSED(c, qn_mul_number_(qn_select(w, 0, 1), 2), "a view of a leaf");
    GOOD(c, qn_mul_number_(qn_detach(flat), 2)); /* whoever detaches knows */
    (void)qn_set_grad_enabled(c, false);
    GOOD(c, qn_mul_number_(flat, 2));
    (void)qn_set_grad_enabled(c, true);
    EXPECT(w, 4, 4, 4, 4, 4, 4);
    OK(c, qn_backward(qn_sum(qn_mul(w, w), QN_ALL, false)));
    EXPECT(qn_grad(w), 8, 8, 8, 8, 8, 8);
    context_end(c);
}

/* PyTorch: l = F.cross_entropy(x, y); l /= 2; l.backward() */
static void a_loss_is_scaled_in_place(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *ids = qn_from_data(c, (int64_t[]){0, 1}, qn_shape_of(2), QN_DTYPE_I64), *grad[2];
    for (int i = 0; i < 2; i++) {
        qn_tensor *x = leaf_of(c, qn_from_data(c, (float[]){1, 2, 3, 4, 0, 1}, qn_shape_of(2, 3), F32));
        qn_tensor *loss = qn_cross_entropy(x, ids, NULL);
        if (i == 0) (void)qn_eval(loss); /* its value lies in memory */
        GOOD(c, qn_div_number_(loss, 2));
        GOOD(c, qn_add_(loss, loss));
        OK(c, qn_backward(loss));
        grad[i] = qn_grad(x);
    }
    const double want[] = {-0.4549847, 0.12236424, 0.33262047, 0.46811977, -0.49142608, 0.02330631};
    for (int i = 0; i < 2; i++) {
        double have[6];
        OK(c, qn_to_doubles(grad[i], have, 6));
        for (int k = 0; k < 6; k++) assert_true(fabs(have[k] - want[k]) < 1e-6);
    }
    context_end(c);
}

static void a_quotient_is_changed_in_place(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = leaf_of(c, qn_from_data(c, (float[]){1, 2, 3}, qn_shape_of(3), F32)),
              *b = leaf_of(c, qn_from_data(c, (float[]){2, 4, 8}, qn_shape_of(3), F32));
    qn_tensor *y = qn_div(a, b);
    GOOD(c, qn_add_(y, qn_ones(c, qn_shape_of(3), F32)));
    GOOD(c, qn_mul_number_(y, 8));
    OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
    EXPECT(y, 12, 12, 11);
    EXPECT(qn_grad(a), 4, 2, 1);
    EXPECT(qn_grad(b), -2, -1, -0.375);
    qn_tensor *z = qn_mul_number(a, 1);
    qn_zero_grad(b);
    GOOD(c, qn_div_(z, b));
    GOOD(c, qn_mul_number_(z, 8));
    OK(c, qn_backward(qn_sum(z, QN_ALL, false)));
    EXPECT(qn_grad(b), -2, -1, -0.375);
    context_end(c);
}

/* What comes out is the same as with a new tensor for every step. */
static void an_attention_is_changed_in_place(void **state)
{
    (void)state;
    qn_context *c = context_new();
    double grad[3][24], value[3][24];
    for (int i = 0; i < 3; i++) {
        qn_manual_seed(c, 5);
        qn_tensor *q = leaf_of(c, qn_randn(c, qn_shape_of(1, 2, 3, 4), F32)),
                  *more = leaf_of(c, qn_randn(c, qn_shape_of(1, 2, 3, 4), F32));
        qn_tensor *y = qn_scaled_dot_product_attention(q, q, q, NULL);
        if (i == 1) (void)qn_eval(y);
        if (i == 0) {
            y = qn_mul_number(qn_add(y, more), 3);
            y = qn_square(y);
        } else {
            GOOD(c, qn_add_(y, more));
            GOOD(c, qn_mul_number_(y, 3));
            GOOD(c, qn_square_(y));
        }
        OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
        OK(c, qn_to_doubles(qn_grad(q), grad[i], 24));
        OK(c, qn_to_doubles(y, value[i], 24));
    }
    assert_memory_equal(grad[0], grad[1], sizeof grad[0]);
    assert_memory_equal(grad[0], grad[2], sizeof grad[0]);
    assert_memory_equal(value[0], value[1], sizeof value[0]);
    assert_memory_equal(value[0], value[2], sizeof value[0]);
    context_end(c);
}

static void a_result_is_converted_in_place(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = leaf_of(c, qn_from_data(c, (float[]){1, 2, 3}, qn_shape_of(3), F32)),
              *b = leaf_of(c, qn_from_data(c, (float[]){2, 4, 8}, qn_shape_of(3), F32));
    qn_tensor *y = qn_to(a, QN_DTYPE_F16);
    GOOD(c, qn_mul_(y, b));
    assert_int_equal(qn_dtype_of(y), QN_DTYPE_F16);
    GOOD(c, qn_add_(y, b));
    OK(c, qn_backward(qn_sum(y, QN_ALL, false)));
    EXPECT(y, 4, 12, 32);
    assert_int_equal(qn_dtype_of(qn_grad(b)), F32);
    EXPECT(qn_grad(a), 2, 4, 8);
    EXPECT(qn_grad(b), 2, 3, 4);
    /* what the operation keeps is its result as it was before the conversion */
    qn_tensor *z = qn_to(b, QN_DTYPE_BF16);
    qn_zero_grad(b);
    GOOD(c, qn_copy_(z, qn_exp(qn_mul_number(b, 0))));
    OK(c, qn_backward(qn_sum(z, QN_ALL, false)));
    EXPECT(qn_grad(b), 0, 0, 0);
    /* into a part */
    qn_tensor *w = qn_zeros(c, qn_shape_of(2, 3), QN_DTYPE_F16);
    qn_zero_grad(b);
    GOOD(c, qn_add_(qn_select(w, 0, 1), qn_square(b)));
    OK(c, qn_backward(qn_sum(w, QN_ALL, false)));
    EXPECT(w, 0, 0, 0, 4, 16, 64);
    EXPECT(qn_grad(b), 4, 8, 16);
    context_end(c);
}

/* PyTorch masks where both are 0 */
static void the_angle_of_nothing_has_no_slope(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = leaf_of(c, qn_from_data(c, (float[]){0, 0, 1, 0}, qn_shape_of(4), F32)),
              *b = leaf_of(c, qn_from_data(c, (float[]){0, 1, 0, -1}, qn_shape_of(4), F32));
    OK(c, qn_backward(qn_sum(qn_atan2(a, b), QN_ALL, false)));
    EXPECT(qn_grad(a), 0, 1, 0, -1);
    EXPECT(qn_grad(b), 0, 0, -1, 0);
    context_end(c);
}

/* ---- in place is in place ---- */

static uint64_t tasks_of(qn_context *c)
{
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    OK(c, qn_eval_all(c));
    qn_metrics_snapshot(&after);
    return after.kernel_tasks - before.kernel_tasks;
}

static void in_place_is_one_task_and_no_second_buffer(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    qn_context *c = context_new();
    qn_tensor *x = qn_zeros(c, qn_shape_of(N), F32), *y = qn_ones(c, qn_shape_of(N), F32);
    OK(c, qn_eval_all(c));
    qn_metrics m;
    qn_metrics_reset();
    qn_metrics_snapshot(&m);
    const uint64_t there = m.live_bytes;
    GOOD(c, qn_add_(x, y));
    assert_int_equal(tasks_of(c), 1);
    GOOD(c, qn_mul_number_(qn_add_(x, y), 3));
    GOOD(c, qn_neg_(qn_narrow(x, 0, 5, N / 2)));
    GOOD(c, qn_mul_out(y, x, x));
    assert_int_equal(tasks_of(c), 4);
    qn_metrics_snapshot(&m);
    assert_true(m.peak_bytes < there + N); /* a second buffer would take 4 N */
    const float *v = qn_data(x), *w = qn_data(y);
    for (int i = 0; i < N; i++) assert_true(v[i] == (i < 5 || i >= 5 + N / 2 ? 6 : -6) && w[i] == 36);
    context_end(c);
}

/* Where what is written is read in another order, the old value is there until the new one is. */
static void in_place_over_itself(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_arange(c, 0, 6, 1, F32), *m = qn_view_as(x, qn_shape_of(2, 3));
    GOOD(c, qn_add_(qn_narrow(x, 0, 1, 5), qn_narrow(x, 0, 0, 5)));
    EXPECT(x, 0, 1, 3, 5, 7, 9);
    GOOD(c, qn_add_(x, x));
    EXPECT(x, 0, 2, 6, 10, 14, 18);
    GOOD(c, qn_add_(m, qn_select(m, 0, 1))); /* its own row, broadcast */
    EXPECT(m, 10, 16, 24, 20, 28, 36);
    qn_tensor *square = qn_view_as(qn_arange(c, 0, 4, 1, F32), qn_shape_of(2, 2));
    GOOD(c, qn_copy_(square, qn_transpose(square, 0, 1)));
    EXPECT(square, 0, 2, 1, 3);
    GOOD(c, qn_add_(square, qn_transpose(square, 0, 1)));
    EXPECT(square, 0, 3, 3, 6);
    qn_tensor *before = qn_mul_number(square, 1);
    GOOD(c, qn_mul_number_(square, 2));
    EXPECT(before, 0, 3, 3, 6);
    EXPECT(square, 0, 6, 6, 12);
    GOOD(c, qn_cumsum(square, 0));
    GOOD(c, qn_copy_(square, qn_matmul(square, square)));
    EXPECT(square, 36, 72, 72, 180);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_that_was_released_names_nothing),
        cmocka_unit_test(a_second_release_is_said_and_hurts_nobody),
        cmocka_unit_test(a_scope_that_ended_took_its_handles),
        cmocka_unit_test(a_view_of_a_leaf_is_not_written),
        cmocka_unit_test(a_loss_is_scaled_in_place),
        cmocka_unit_test(a_quotient_is_changed_in_place),
        cmocka_unit_test(an_attention_is_changed_in_place),
        cmocka_unit_test(a_result_is_converted_in_place),
        cmocka_unit_test(the_angle_of_nothing_has_no_slope),
        cmocka_unit_test(in_place_is_one_task_and_no_second_buffer),
        cmocka_unit_test(in_place_over_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
