/* SPDX-License-Identifier: MIT */
/* tests/unit/array/gradients.c -- the tape: where gradients go, add up and stop, and what is refused. */
#include "rig.h"

/* sum of weight * x, by a product: a scalar whose gradient with respect to x is the weight */
static qn_tensor *weighed(qn_tensor *x, qn_tensor *weight)
{
    const int64_t n = qn_numel(x);
    return qn_reshape(qn_linear(qn_reshape(x, qn_shape_of(1, n)), qn_reshape(weight, qn_shape_of(1, n)), NULL),
                      QN_SCALAR);
}

static qn_tensor *leaf(qn_context *c, qn_shape shape)
{
    qn_tensor *t = qn_view_as(qn_arange(c, 1, 1 + (double)qn_shape_numel(&shape), 1, F32), shape);
    GOOD(c, t);
    return qn_requires_grad_(t, true);
}

/* The gradient of sum((1, 2, 3 ..) * view) with respect to the leaf under the view. */
static qn_tensor *gradient_of_view(qn_context *c, qn_tensor *x, qn_tensor *view)
{
    GOOD(c, view);
    qn_tensor *loss = weighed(view, qn_arange(c, 1, 1 + (double)qn_numel(view), 1, F32));
    GOOD(c, loss);
    OK(c, qn_backward(loss));
    return qn_grad(x);
}

static void through_views(void **state)
{
    (void)state;
    qn_context *c = context_new();
#define FRESH() leaf(c, qn_shape_of(2, 3))
    qn_tensor *x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_view_as(x, qn_shape_of(6))), 1, 2, 3, 4, 5, 6);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_transpose(x, 0, 1)), 1, 3, 5, 2, 4, 6);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_reshape(qn_transpose(x, 0, 1), qn_shape_of(2, 3))), 1, 3, 5, 2, 4, 6);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_select(x, 1, 1)), 0, 1, 0, 0, 2, 0);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_slice(x, 1, 0, QN_END, 2)), 1, 0, 2, 3, 0, 4);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_narrow(qn_transpose(x, 0, 1), 0, 1, 2)), 0, 1, 3, 0, 2, 4);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_expand(qn_unsqueeze(x, 0), qn_shape_of(2, -1, -1))), 8, 10, 12, 14, 16, 18);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_expand(qn_narrow(x, 1, 2, 1), qn_shape_of(-1, 4))), 0, 0, 10, 0, 0, 26);
    x = FRESH();
    EXPECT(gradient_of_view(c, x, qn_squeeze_all(qn_clone(qn_narrow(x, 0, 1, 1)))), 0, 0, 0, 1, 2, 3);
    context_end(c);
}

static void through_a_view_of_a_strided_leaf(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x =
        qn_requires_grad_(qn_detach(qn_transpose(qn_view_as(qn_arange(c, 0, 6, 1, F32), qn_shape_of(2, 3)), 0, 1)),
                          true);
    SHAPE(x, 3, 2);
    qn_tensor *g = gradient_of_view(c, x, qn_narrow(x, 0, 1, 2));
    SHAPE(g, 3, 2);
    EXPECT(g, 0, 0, 1, 2, 3, 4);
    context_end(c);
}

static void sums_over_what_was_broadcast(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = leaf(c, qn_shape_of(2, 3)), *b = leaf(c, qn_shape_of(3)),
              *s = qn_requires_grad_(qn_scalar(c, 2, F32), true);
    qn_tensor *y = qn_mul(qn_add(a, b), s); /* (a + b) s */
    OK(c, qn_backward(weighed(y, qn_arange(c, 1, 7, 1, F32))));
    EXPECT(qn_grad(a), 2, 4, 6, 8, 10, 12);
    EXPECT(qn_grad(b), 10, 14, 18);
    EXPECT(qn_grad(s), 2 * 1 + 4 * 2 + 6 * 3 + 5 * 4 + 7 * 5 + 9 * 6);
    context_end(c);
}

/* A rotation's gradient is the rotation back: rotated again it is what came in, whatever the frequencies. */
static void rotations_turn_back(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (int neox = 0; neox < 2; neox++) {
        for (int factored = 0; factored < 2; factored++) {
            qn_tensor *factors = qn_from_data(c, (float[]){1, 2.5f, 40}, qn_shape_of(3), F32);
            const qn_rope_options o = {
                .base = 50, .n_rot = 6, .neox = neox, .factors = factored ? factors : NULL, .freq_scale = 0.5};
            qn_tensor *x = leaf(c, qn_shape_of(5, 2, 8)), *w = qn_arange(c, 1, 81, 1, F32);
            qn_tensor *y = qn_rope(x, NULL, &o);
            GOOD(c, y);
            OK(c, qn_backward(qn_sum(qn_mul(qn_view_as(y, qn_shape_of(80)), w), QN_ALL, false)));
            double back[80];
            OK(c, qn_to_doubles(qn_rope(qn_grad(x), NULL, &o), back, 80));
            for (int i = 0; i < 80; i++) assert_true(fabs(back[i] - (i + 1)) < 1e-4);
        }
    }
    context_end(c);
}

static void adds_up_until_zeroed(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *w = qn_arange(c, 1, 3, 1, F32);
    assert_null(qn_grad(x));
    OK(c, qn_backward(weighed(x, w)));
    void *const at = qn_data(qn_grad(x));
    OK(c, qn_backward(weighed(qn_mul(x, x), w))); /* 2 x w */
    EXPECT(qn_grad(x), 1 + 2, 2 + 8);
    assert_ptr_equal(qn_data(qn_grad(x)), at);
    OK(c, qn_backward(weighed(x, w))); /* twice before anything is computed */
    OK(c, qn_backward(weighed(x, w)));
    EXPECT(qn_grad(x), 5, 14);
    qn_zero_grad(x);
    assert_null(qn_grad(x));
    OK(c, qn_backward_with(x, w, false));
    EXPECT(qn_grad(x), 1, 2);
    OK(c, qn_set_grad(x, qn_select(qn_view_as(qn_arange(c, 0, 4, 1, F32), qn_shape_of(2, 2)), 1, 1)));
    OK(c, qn_backward_with(x, w, false));
    EXPECT(qn_grad(x), 2, 5);
    context_end(c);
}

static void one_value_two_uses(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *y = leaf(c, qn_shape_of(2));
    qn_tensor *sum = qn_add(x, y); /* both gradients are the same node */
    OK(c, qn_backward(weighed(sum, qn_ones(c, qn_shape_of(2), F32))));
    GOOD(c, qn_mul_number_(qn_grad(x), 3));
    EXPECT(qn_grad(x), 3, 3);
    EXPECT(qn_grad(y), 1, 1);
    context_end(c);
}

static void stops_where_told(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *w = qn_ones(c, qn_shape_of(2), F32);
    const bool was = qn_set_grad_enabled(c, false);
    assert_true(was);
    assert_false(qn_requires_grad(qn_mul(x, x)));
    qn_set_grad_enabled(c, was);
    qn_tensor *y = qn_mul(x, qn_detach(x));
    assert_true(qn_requires_grad(y));
    assert_true(qn_is_leaf(x) && !qn_is_leaf(y));
    qn_retain_grad(y);
    OK(c, qn_backward(weighed(y, w)));
    EXPECT(qn_grad(x), 1, 2);
    EXPECT(qn_grad(y), 1, 1);
    context_end(c);
}

static void values_in_between_may_be_looked_at(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *y = qn_mul(x, x), *z = qn_mul(qn_mul_number(y, 2), x); /* 2 x^3 */
    EXPECT(z, 2, 16);
    qn_tensor *loss = weighed(z, qn_ones(c, qn_shape_of(2), F32));
    assert_true(qn_item(loss) == 18);
    OK(c, qn_backward(loss));
    EXPECT(qn_grad(x), 6, 24);
    context_end(c);
}

static void in_place(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *w = qn_arange(c, 1, 3, 1, F32);
    qn_tensor *y = qn_mul_number(x, 3);
    GOOD(c, qn_add_(y, x)); /* 4 x */
    GOOD(c, qn_mul_number_(y, 2));
    OK(c, qn_backward(weighed(y, w)));
    EXPECT(y, 8, 16);
    EXPECT(qn_grad(x), 8, 16);
    REFUSED(c, qn_add_(x, w), "leaf that requires a gradient");

    qn_zero_grad(x);
    qn_tensor *square = qn_mul(x, x), *cube = qn_mul(square, x);
    GOOD(c, qn_add_number_(square, 1)); /* cube's gradient needs it */
    assert_int_equal(qn_backward(weighed(cube, w)), QN_STATUS_state);
    assert_non_null(strstr(qn_context_error(c)->text, "gradient of mul"));
    assert_null(qn_grad(x));
    qn_context_clear(c);
    OK(c, qn_backward(weighed(square, w))); /* as if nothing had been */
    EXPECT(qn_grad(x), 2, 8);

    qn_tensor *flat = qn_mul(x, x), *other = qn_view_as(flat, qn_shape_of(1, 2));
    GOOD(c, qn_mul_number_(flat, 2));
    qn_zero_grad(x);
    OK(c, qn_backward(weighed(qn_mul(other, other), w))); /* it knows: 4 x^4 */
    EXPECT(qn_grad(x), 16, 2 * 16 * 8);
    context_end(c);
}

static void twice_only_when_retained(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *loss = weighed(qn_mul(x, x), qn_ones(c, qn_shape_of(2), F32));
    OK(c, qn_backward_with(loss, NULL, true));
    OK(c, qn_backward(loss));
    EXPECT(qn_grad(x), 4, 8);
    assert_int_equal(qn_backward(loss), QN_STATUS_state);
    assert_non_null(strstr(qn_context_error(c)->text, "retain_graph"));
    qn_context_clear(c);
    assert_int_equal(qn_backward(qn_detach(loss)), QN_STATUS_state);
    qn_context_clear(c);
    assert_int_equal(qn_backward(qn_mul(x, x)), QN_STATUS_invalid);
    qn_context_clear(c);
    REFUSED(c, qn_requires_grad_(qn_zeros(c, qn_shape_of(2), QN_DTYPE_I32), true), "I32");
    context_end(c);
}

/* As in PyTorch: a leaf that is frozen for a while keeps the gradient that it has. */
static void frozen_for_a_while(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *ones = qn_ones(c, qn_shape_of(2), F32);
    OK(c, qn_backward(weighed(x, ones)));
    for (int i = 0; i < 2; i++) { /* twice: nothing is left over */
        GOOD(c, qn_requires_grad_(x, false));
        assert_false(qn_requires_grad(x));
        assert_true(qn_is_leaf(x));
        GOOD(c, qn_grad(x));
        EXPECT(qn_grad(x), 1 + i, 1 + i);
        assert_false(qn_requires_grad(qn_mul(x, x)));
        assert_int_equal(qn_set_grad(x, ones), QN_STATUS_invalid);
        qn_context_clear(c);
        GOOD(c, qn_mul_(x, ones)); /* no leaf that learns */
        GOOD(c, qn_requires_grad_(x, true));
        OK(c, qn_backward(weighed(x, ones)));
        EXPECT(qn_grad(x), 2 + i, 2 + i);
    }
    GOOD(c, qn_requires_grad_(x, false));
    qn_zero_grad(x);
    assert_null(qn_grad(x));
    GOOD(c, qn_requires_grad_(x, true));
    assert_null(qn_grad(x));
    OK(c, qn_backward(weighed(x, ones)));
    EXPECT(qn_grad(x), 1, 1);
    /* what it becomes has a gradient of its own */
    GOOD(c, qn_requires_grad_(x, false));
    GOOD(c, qn_become(x, qn_zeros(c, qn_shape_of(3), F32)));
    assert_null(qn_grad(x));
    qn_release(x);
    context_end(c);
}

static void a_long_chain_ends_without_recursion(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = leaf(c, qn_shape_of(2)), *y = qn_mul_number(x, 1);
    for (int i = 0; i < 100000; i++) {
        qn_tensor *next = qn_add_number(y, 1);
        GOOD(c, next);
        qn_release(y);
        y = next;
    }
    EXPECT(y, 100001, 100002);
    qn_release(y);
    context_end(c);
}

/* 70000 is infinite in F16. Gradients of reductions over as many elements are not 0, and 1 % right. */
static void counts_beyond_16_bits(void **state)
{
    (void)state;
    enum { N = 70000, MEAN = 0, VAR, STD, AMAX, AMIN, N_KINDS };
    static const qn_dtype dtypes[] = {QN_DTYPE_F16, QN_DTYPE_BF16};
    /* of a 1 and of a -1 among as many of each */
    static const double want[N_KINDS][2] = {{1.0 / N, 1.0 / N},
                                            {2.0 / (N - 1), -2.0 / (N - 1)},
                                            {1.0 / (N - 1), -1.0 / (N - 1)},
                                            {2.0 / N, 0},
                                            {0, 2.0 / N}};
    float *v = malloc(N * sizeof *v);
    double *have = malloc(N * sizeof *have);
    for (int i = 0; i < N; i++) v[i] = i % 2 ? -1 : 1; /* mean 0, variance 1 */
    for (int d = 0; d < 2; d++) {
        for (int kind = 0; kind < N_KINDS; kind++) {
            qn_context *c = context_new();
            qn_tensor *x = qn_requires_grad_(qn_to(f32(c, qn_shape_of(N), v), dtypes[d]), true), *y;
            if (kind == MEAN)
                y = qn_mean(x, QN_ALL, false);
            else if (kind == VAR)
                y = qn_var(x, QN_ALL, 1, false);
            else if (kind == STD)
                y = qn_std(x, QN_ALL, 1, false);
            else
                y = kind == AMAX ? qn_amax(x, QN_ALL, false) : qn_amin(x, QN_ALL, false);
            GOOD(c, y);
            OK(c, qn_backward(y));
            assert_int_equal(qn_dtype_of(qn_grad(x)), dtypes[d]);
            OK(c, qn_to_doubles(qn_grad(x), have, N));
            for (int k = 0; k < 2; k++) {
                if (!(fabs(have[N - 2 + k] - want[kind][k]) <= 0.01 * fabs(want[kind][k])))
                    fail_msg("%s, kind %d: gradient %d is %g, %g expected", qn_dtype_get(dtypes[d])->name, kind, k,
                             have[N - 2 + k], want[kind][k]);
            }
            context_end(c);
        }
    }
    free(v);
    free(have);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(through_views),
        cmocka_unit_test(through_a_view_of_a_strided_leaf),
        cmocka_unit_test(sums_over_what_was_broadcast),
        cmocka_unit_test(rotations_turn_back),
        cmocka_unit_test(adds_up_until_zeroed),
        cmocka_unit_test(one_value_two_uses),
        cmocka_unit_test(stops_where_told),
        cmocka_unit_test(values_in_between_may_be_looked_at),
        cmocka_unit_test(in_place),
        cmocka_unit_test(twice_only_when_retained),
        cmocka_unit_test(frozen_for_a_while),
        cmocka_unit_test(a_long_chain_ends_without_recursion),
        cmocka_unit_test(counts_beyond_16_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
