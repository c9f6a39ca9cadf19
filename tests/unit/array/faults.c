/* SPDX-License-Identifier: MIT */
/* tests/unit/array/faults.c -- what a program does wrong: found, said, and of no consequence to anything else. */
#include "rig.h"
#include "unit/base/failing.h"

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

/* ---- where PyTorch raises ---- */

/* Recorded without a word, found when it is computed; the program goes on. */
#define FOUND(c, made, words) \
    do { \
        qn_tensor *y_ = (made); \
        GOOD(c, y_); \
        assert_int_equal(qn_eval(y_), QN_STATUS_invalid); \
        assert_string_equal(qn_context_error(c)->text, words); \
        qn_context_clear(c); \
    } while (0)

static void integers_are_not_divided_by_zero(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_I8, QN_DTYPE_U8, QN_DTYPE_I32, QN_DTYPE_I64};
    qn_context *c = context_new();
    for (int i = 0; i < 4; i++) {
        qn_tensor *a = qn_full(c, qn_shape_of(3000), 7, types[i]), *b = qn_full(c, qn_shape_of(3000), 2, types[i]);
        GOOD(c, qn_fill_(qn_select(b, 0, 2777), 0));
        FOUND(c, qn_floor_divide(a, b), "floor_divide: an integer is divided by 0");
        FOUND(c, qn_trunc_divide(a, b), "trunc_divide: an integer is divided by 0");
        FOUND(c, qn_remainder(a, b), "remainder: an integer is divided by 0");
        FOUND(c, qn_fmod(a, b), "fmod: an integer is divided by 0");
        FOUND(c, qn_fmod(a, qn_zeros(c, QN_SCALAR, types[i])), "fmod: an integer is divided by 0");
        GOOD(c, qn_remainder_(a, b)); /* what cannot be computed leaves what was there */
        assert_int_equal(qn_eval_all(c), QN_STATUS_invalid);
        qn_context_clear(c);
        assert_int_equal(qn_item_int(qn_select(a, 0, 2999)), 7);
        REFUSED(c, qn_floor_divide_number(a, 0), "floor_divide: an integer is divided by 0");
        REFUSED(c, qn_remainder_number_(a, 0), "remainder: an integer is divided by 0");
        GOOD(c, qn_floor_divide_number(qn_zeros(c, qn_shape_of(0), types[i]), 0)); /* of nothing */
        assert_true(qn_item(qn_select(qn_div_number(a, 0), 0, 0)) == INFINITY);    /* computed in F32 */
    }
    REFUSED(c, qn_floor_divide_number(qn_ones(c, QN_SCALAR, QN_DTYPE_I8), 256), "divided by 0"); /* 256 is 0 there */
    qn_tensor *x = qn_full(c, qn_shape_of(2), 7, F32);
    EXPECT(qn_floor_divide_number(x, 0), INFINITY, INFINITY);
    context_end(c);
}

static void integers_have_no_negative_powers(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_from_data(c, (int32_t[]){1, 2, -1}, qn_shape_of(3), QN_DTYPE_I32);
    REFUSED(c, qn_pow_number(a, -1), "pow: integers to the negative power -1");
    REFUSED(c, qn_pow_number_(a, -2), "pow: integers to the negative power -2");
    REFUSED(c, qn_pow_number(qn_ones(c, qn_shape_of(0), QN_DTYPE_BOOL), -1), "negative power");
    REFUSED(c, qn_pow_number(qn_to(a, QN_DTYPE_I8), 300), "pow: the number 300 cannot be stored in I8");
    EXPECT(qn_pow(a, qn_neg(qn_ones_like(a))), 1, 0, -1); /* as in PyTorch, of tensors */
    EXPECT(qn_pow_number(qn_to(a, F32), -1), 1, 0.5, -1);
    context_end(c);
}

static void numbers_fit_their_dtype(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        double least, below, most, above;
    } rows[] = {
        {QN_DTYPE_U8, -255, -256, 255, 256},
        {QN_DTYPE_I8, -128, -129, 127, 128},
        {QN_DTYPE_I16, -32768, -32769, 32767, 32768},
        {QN_DTYPE_I32, -0x1p31, -0x1p31 - 1, 0x1p31 - 1, 0x1p31},
        {QN_DTYPE_I64, -0x1p63, -0x1.1p63, 0x1.fffffp62, 0x1p63},
        {QN_DTYPE_F16, -65504, -70000, 65504, 70000},
        {QN_DTYPE_BF16, -0x1.fep127, -0x1p128, 0x1.fep127, 0x1p128},
        {QN_DTYPE_F32, -3.4e38, -1e39, 3.4e38, 1e39},
    };
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const qn_dtype d = rows[i].dtype;
        qn_tensor *t = qn_zeros(c, qn_shape_of(2), d), *mask = qn_ones(c, qn_shape_of(2), QN_DTYPE_BOOL);
        for (int k = 0; k < 2; k++) {
            const double good = k ? rows[i].least : rows[i].most, bad = k ? rows[i].below : rows[i].above;
            GOOD(c, qn_full(c, qn_shape_of(2), good, d));
            GOOD(c, qn_fill_(t, good));
            GOOD(c, qn_masked_fill(t, mask, good));
            REFUSED(c, qn_full(c, qn_shape_of(0), bad, d), "cannot be stored in");
            REFUSED(c, qn_full_like(t, bad), "full: the number");
            REFUSED(c, qn_scalar(c, bad, d), "scalar: the number");
            REFUSED(c, qn_fill_(t, bad), "fill_: the number");
            REFUSED(c, qn_masked_fill_(t, mask, bad), "masked_fill: the number");
            REFUSED(c, qn_linspace(c, 0, bad, 3, d), "linspace: the number");
            REFUSED(c, qn_pad(t, (int64_t[]){1, 1}, 2, "constant", bad), "pad: the number");
        }
        if (qn_dtype_get(d)->class_ == QN_CLASS_integer)
            REFUSED(c, qn_full(c, qn_shape_of(2), NAN, d), "cannot be stored");
        else
            assert_true(isnan(qn_item(qn_select(qn_full(c, qn_shape_of(2), NAN, d), 0, 1))));
    }
    EXPECT(qn_add_number(qn_zeros(c, qn_shape_of(1), QN_DTYPE_U8), 300), 44); /* arithmetic wraps, as in PyTorch */
    EXPECT(qn_full(c, qn_shape_of(1), -1, QN_DTYPE_U8), 255);
    context_end(c);
}

static void random_integers_fit_their_dtype(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        int64_t low, high;
        bool good;
    } rows[] = {{QN_DTYPE_U8, 0, 256, true},
                {QN_DTYPE_U8, 0, 257, false},
                {QN_DTYPE_U8, -1, 5, false},
                {QN_DTYPE_I8, -128, 128, true},
                {QN_DTYPE_I8, 0, 129, false},
                {QN_DTYPE_I8, -129, 4, false},
                {QN_DTYPE_I32, 0, INT64_C(1) << 31, true},
                {QN_DTYPE_I32, 0, (INT64_C(1) << 31) + 1, false}};
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].good)
            GOOD(c, qn_randint(c, rows[i].low, rows[i].high, qn_shape_of(2), rows[i].dtype));
        else
            REFUSED(c, qn_randint(c, rows[i].low, rows[i].high, qn_shape_of(2), rows[i].dtype), "do not fit");
    }
    context_end(c);
}

static void probabilities_are_from_0_to_1(void **state)
{
    (void)state;
    static const float bad[] = {1.5f, -0.1f, NAN, INFINITY};
    qn_context *c = context_new();
    for (int i = 0; i < 4; i++) {
        for (int wide = 0; wide < 2; wide++) {
            qn_tensor *p = qn_to(qn_from_data(c, (float[]){0.5f, bad[i], 0}, qn_shape_of(3), F32),
                                 wide ? QN_DTYPE_F64 : F32),
                      *y = qn_full_like(p, 0.25);
            FOUND(c, qn_bernoulli(p), "bernoulli: a value is outside its range");
            FOUND(c, qn_binary_cross_entropy(p, y, NULL, QN_REDUCTION_SUM),
                  "binary_cross_entropy: a probability is outside 0 to 1");
            FOUND(c, qn_binary_cross_entropy(y, p, NULL, QN_REDUCTION_SUM),
                  "binary_cross_entropy: a target is outside 0 to 1");
        }
    }
    EXPECT(qn_bernoulli(qn_from_data(c, (float[]){0, 1}, qn_shape_of(2), F32)), 0, 1);
    REFUSED(c, qn_bernoulli(qn_ones(c, qn_shape_of(2), QN_DTYPE_I64)), "bernoulli: probabilities are I64");
    context_end(c);
}

/* PyTorch: F.binary_cross_entropy(p, y, reduction="sum").backward(), F64 */
static void a_saturated_wrong_answer_has_a_gradient(void **state)
{
    (void)state;
    static const double p[] = {0, 0, 1, 1, 0.5, 1e-20, 1 - 1e-7}, y[] = {1, 0, 0, 1, 0.25, 1, 0};
    static const double dp[] = {-1e12, 0, 1e12, 0, 1, -1e12, 10000000.005263558},
                        dy[] = {INFINITY, INFINITY, -INFINITY, -INFINITY, 0, 46.051701859880914, -16.11809555148467};
    double have[7];
    qn_context *c = context_new();
    qn_tensor *a = leaf_of(c, qn_from_data(c, p, qn_shape_of(7), QN_DTYPE_F64)),
              *b = leaf_of(c, qn_from_data(c, y, qn_shape_of(7), QN_DTYPE_F64));
    qn_tensor *loss = qn_binary_cross_entropy(a, b, NULL, QN_REDUCTION_NONE);
    OK(c, qn_backward(qn_sum(loss, QN_ALL, false)));
    OK(c, qn_to_doubles(qn_grad(a), have, 7));
    for (int i = 0; i < 7; i++) assert_true(have[i] == dp[i] || fabs(have[i] - dp[i]) <= 1e-8 * fabs(dp[i]));
    OK(c, qn_to_doubles(qn_grad(b), have, 7));
    for (int i = 0; i < 7; i++) assert_true(have[i] == dy[i] || fabs(have[i] - dy[i]) <= 1e-8 * fabs(dy[i]));
    OK(c, qn_to_doubles(loss, have, 7));
    assert_true(have[0] == 100 && have[1] == 0 && have[2] == 100 && have[3] == 0);
    context_end(c);
}

/* ---- what cannot run ---- */

#define HUGE_DIM (INT64_C(1) << 48)
#define NO_ROOM  "add [281474976710656]: out of memory"

static void FAILS_ALONE(qn_context *c, qn_tensor *t, const char *words)
{
    assert_int_equal(qn_eval(t), QN_STATUS_nomem);
    if (strstr(qn_context_error(c)->text, words) == NULL) fail_msg("%s", qn_context_error(c)->text);
    qn_context_clear(c);
}

static void only_what_depends_on_it_fails(void **state)
{
    (void)state;
    qn_context *c = NULL;
    OK(c, qn_context_create(&(qn_context_options){.max_pending = 64, .n_threads = 2}, &c, NULL));
    qn_tensor *s = qn_ones(c, QN_SCALAR, F32), *x = qn_full(c, qn_shape_of(3), 2, F32), *early = qn_mul_number(x, 5);
    qn_tensor *wide = qn_expand(s, qn_shape_of(HUGE_DIM)), *huge = qn_add_number(wide, 1);
    OK(c, qn_scope_begin(c));
    qn_tensor *sum = qn_scope_end(c, qn_sum(qn_mul(huge, huge), QN_ALL, false)), *late = qn_add(x, early);
    EXPECT(late, 12, 12, 12);
    EXPECT(early, 10, 10, 10);
    FAILS_ALONE(c, huge, NO_ROOM);
    FAILS_ALONE(c, sum, "[281474976710656]: activations of cpu");
    GOOD(c, qn_add_(x, early)); /* and the program goes on */
    EXPECT(x, 12, 12, 12);
    qn_tensor *twice = qn_mul_number(late, 2);
    assert_int_equal(qn_eval_all(c), QN_STATUS_nomem); /* all of it cannot be */
    if (strstr(qn_context_error(c)->text, NO_ROOM) == NULL) fail_msg("%s", qn_context_error(c)->text);
    qn_context_clear(c);
    EXPECT(twice, 24, 24, 24);
    for (int i = 0; i < 300; i++) { /* more than may be pending */
        OK(c, qn_scope_begin(c));
        qn_tensor *y = qn_add_number(qn_mul_number(x, 0.5), 6);
        GOOD(c, qn_copy_(x, y));
        (void)qn_scope_end(c, NULL);
    }
    EXPECT(x, 12, 12, 12);
    FAILS_ALONE(c, huge, NO_ROOM);
    qn_release(huge);
    qn_release(sum);
    OK(c, qn_eval_all(c));
    qn_context_info info;
    qn_context_get_info(c, &info);
    assert_int_equal(info.n_pending, 0);
    context_end(c);
}

/* What waits reads what it would have read, and is over when that is not there any more. */
static void what_waits_keeps_its_sources(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_ones(c, QN_SCALAR, F32), *y = qn_ones(c, QN_SCALAR, F32), *a = qn_mul_number(x, 3);
    qn_tensor *of_a = qn_add_number(qn_expand(a, qn_shape_of(HUGE_DIM)), 1),
              *of_y = qn_add_number(qn_expand(y, qn_shape_of(HUGE_DIM)), 1);
    qn_tensor *part = qn_narrow(of_a, 0, 5, 2); /* a view of what cannot be */
    GOOD(c, qn_mul_number_(y, 7));
    EXPECT(a, 3);
    EXPECT(y, 7);
    FAILS_ALONE(c, of_a, NO_ROOM); /* it would still see 3 */
    FAILS_ALONE(c, part, NO_ROOM);
    assert_int_equal(qn_eval(of_y), QN_STATUS_state); /* the 1 that it was to read is overwritten */
    qn_context_clear(c);
    /* a write that cannot be made waits, and what it would have written over is as it was */
    qn_tensor *z = qn_zeros(c, QN_SCALAR, F32);
    assert_int_equal(qn_eval_all(c), QN_STATUS_nomem);
    qn_context_clear(c);
    OK(c, qn_scope_begin(c));
    GOOD(c, qn_copy_(z, qn_sum(of_a, QN_ALL, false)));
    (void)qn_scope_end(c, NULL);
    EXPECT(qn_add_number(a, 1), 4);
    FAILS_ALONE(c, z, "add [281474976710656]: activations of cpu");
    qn_release(of_a);
    FAILS_ALONE(c, z, "add [281474976710656]: activations of cpu");
    qn_release(part);
    qn_release(z);
    OK(c, qn_eval_all(c));
    EXPECT(a, 3);
    context_end(c);
}

/* What is lost stays so, also where its memory is needed for something else, until all of it is written anew. */
static void what_is_lost_is_written_anew(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_ones(c, QN_SCALAR, F32), *y = qn_ones(c, QN_SCALAR, F32), *w = qn_ones(c, QN_SCALAR, F32);
    OK(c, qn_eval_all(c));
    OK(c, qn_scope_begin(c));
    qn_tensor *of_x = qn_sum(qn_add_number(qn_expand(x, qn_shape_of(HUGE_DIM)), 1), QN_ALL, false),
              *of_y = qn_sum(qn_add_number(qn_expand(y, qn_shape_of(HUGE_DIM)), 1), QN_ALL, false);
    qn_tensor *waits = qn_keep(qn_add(w, of_x)), *z = qn_keep(qn_add(y, of_y)); /* waits reads w as it is now */
    GOOD(c, qn_add_(w, of_y));
    (void)qn_scope_end(c, NULL);
    GOOD(c, qn_mul_number_(y, 7)); /* over what z and w were to read */
    EXPECT(y, 7);
    REFUSED(c, qn_add_number(w, 1), "was lost");
    REFUSED(c, qn_add_number(z, 1), "was lost");
    FAILS_ALONE(c, waits, "add [281474976710656]: activations of cpu");
    GOOD(c, qn_copy_(z, x));
    EXPECT(z, 1);
    EXPECT(qn_add_number(z, 1), 2);
    context_end(c);
}

/* A write that waits for memory happens as soon as something that runs reads it, and no second time. */
static void a_write_that_waited_happens_once(void **state)
{
    (void)state;
    enum { N = 1 << 22 };
    books_open(-1);
    qn_context *c = context_new();
    qn_tensor *p = qn_ones(c, qn_shape_of(4), F32), *q = qn_ones(c, qn_shape_of(4), F32);
    const void *at = qn_data(p);
    OK(c, qn_scope_begin(c));
    qn_tensor *wide = qn_expand(qn_zeros(c, qn_shape_of(1), F32), qn_shape_of(N));
    GOOD(c, qn_add_(p, qn_sum(qn_exp(wide), QN_ALL, false)));
    (void)qn_scope_end(c, NULL);
    qn_tensor *of_p = qn_mul_number(p, 1);
    books.limit = books.bytes + 2 * N;
    assert_int_equal(qn_eval(of_p), QN_STATUS_nomem);
    qn_context_clear(c);
    EXPECT(qn_add_number(q, 1), 2, 2, 2, 2);
    books.limit = 0;
    EXPECT(of_p, N + 1, N + 1, N + 1, N + 1);
    EXPECT(p, N + 1, N + 1, N + 1, N + 1);
    assert_ptr_equal(qn_data(p), at);
    GOOD(c, qn_add_(p, q));
    EXPECT(p, N + 2, N + 2, N + 2, N + 2);
    assert_ptr_equal(qn_data(p), at);
    context_end(c);
    books_close();
}

/* What is recorded can be run: rows of stride 0, rows of size 1, no rows. */
static void norms_take_every_layout(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *one = qn_full(c, qn_shape_of(1), 3, F32), *w = qn_full(c, qn_shape_of(1), 2, F32);
    qn_tensor *wide = qn_expand(qn_full(c, qn_shape_of(1, 1), 3, F32), qn_shape_of(2, 4));
    EXPECT(qn_rms_norm(wide, NULL, 0), 1, 1, 1, 1, 1, 1, 1, 1);
    EXPECT(qn_rms_norm(qn_expand(one, qn_shape_of(3, 1)), w, 0), 2, 2, 2);
    EXPECT(qn_rms_norm(qn_expand(qn_full(c, QN_SCALAR, 3, F32), qn_shape_of(2, 1)), NULL, 0), 1, 1);
    EXPECT(qn_rms_norm(qn_expand(qn_full(c, QN_SCALAR, 3, F32), qn_shape_of(2, 2)),
                       qn_expand(qn_full(c, QN_SCALAR, 2, F32), qn_shape_of(2)), 0),
           2, 2, 2, 2);
    EXPECT(qn_layer_norm(qn_expand(one, qn_shape_of(3, 1)), 1, w, w, 1e-5), 2, 2, 2);
    for (int i = 0; i < 2; i++) {
        const qn_shape shape = i == 0 ? qn_shape_of(0, 4) : qn_shape_of(3, 0);
        qn_tensor *x = leaf_of(c, qn_zeros(c, shape, F32)),
                  *v = leaf_of(c, qn_ones(c, qn_shape_of(i == 0 ? 4 : 0), F32));
        OK(c, qn_backward(qn_sum(qn_rms_norm(x, v, 1e-5), QN_ALL, false)));
        OK(c, qn_backward(qn_sum(qn_layer_norm(x, 1, v, v, 1e-5), QN_ALL, false)));
        assert_int_equal(qn_numel(qn_grad(x)), 0);
        if (i == 0) EXPECT(qn_grad(v), 0, 0, 0, 0);
    }
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
        cmocka_unit_test(integers_are_not_divided_by_zero),
        cmocka_unit_test(integers_have_no_negative_powers),
        cmocka_unit_test(numbers_fit_their_dtype),
        cmocka_unit_test(random_integers_fit_their_dtype),
        cmocka_unit_test(probabilities_are_from_0_to_1),
        cmocka_unit_test(a_saturated_wrong_answer_has_a_gradient),
        cmocka_unit_test(only_what_depends_on_it_fails),
        cmocka_unit_test(what_waits_keeps_its_sources),
        cmocka_unit_test(what_is_lost_is_written_anew),
        cmocka_unit_test(a_write_that_waited_happens_once),
        cmocka_unit_test(norms_take_every_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
