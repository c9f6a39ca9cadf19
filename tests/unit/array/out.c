/* SPDX-License-Identifier: MIT */
/* tests/unit/array/out.c -- out= forms: memory stays where it is and no more of it is asked for, calls chain, gradients
 * flow, and what does not fit changes nothing. Values are compared in parity.c. */
#include "rig.h"

#include <quern/base.h>

/* One step: a product, its softmax in the same memory, sums, places and a join. */
static qn_tensor *step(qn_context *c, qn_tensor *a, qn_tensor *square, qn_tensor *sums, qn_tensor *at, qn_tensor *both)
{
    OK(c, qn_scope_begin(c));
    qn_tensor *y = qn_softmax_out(square, qn_matmul_out(square, a, qn_transpose(a, 0, 1)), 1);
    assert_ptr_equal(y, square);
    assert_ptr_equal(qn_max_out(sums, at, y, 1, false), sums);
    assert_ptr_equal(qn_cat_out(both, (qn_tensor *[]){sums, qn_sum_out(sums, y, QN_DIMS(0), false)}, 2, 0), both);
    OK(c, qn_eval(both));
    return qn_scope_end(c, NULL);
}

static void no_memory(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_randn(c, qn_shape_of(40, 40), F32), *square = qn_zeros(c, qn_shape_of(40, 40), F32),
              *sums = qn_zeros(c, qn_shape_of(40), F32), *at = qn_zeros(c, qn_shape_of(40), QN_DTYPE_I64),
              *both = qn_zeros(c, qn_shape_of(80), F32), *all[] = {square, sums, at, both};
    void *where[4];
    OK(c, qn_eval_all(c));
    for (int i = 0; i < 4; i++) where[i] = qn_data(all[i]);
    qn_metrics before, after;
    for (int i = 0; i < 6; i++) {
        if (i == 2) qn_metrics_snapshot(&before);
        step(c, a, square, sums, at, both);
    }
    qn_metrics_snapshot(&after);
    assert_int_equal(after.allocs, before.allocs);
    assert_int_equal(after.live_bytes, before.live_bytes);
    for (int i = 0; i < 4; i++) assert_ptr_equal(qn_data(all[i]), where[i]);
    float x[80];
    OK(c, qn_to_host(both, x, sizeof x));
    for (int i = 0; i < 40; i++) assert_true(x[i] == x[40 + i]); /* both are the sums: the later write is seen */
    context_end(c);
}

static int occurrences(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)) != NULL; p += strlen(word)) n++;
    return n;
}

/* The result is written where it shall be: the copy that carries its gradient is gone when the graph runs. */
static void no_copy(void **state)
{
    (void)state;
    qn_context *c = context_new();
    char *text = NULL;
    qn_tensor *a = qn_ones(c, qn_shape_of(3, 3), F32), *out = qn_zeros(c, qn_shape_of(3, 3), F32);
    OK(c, qn_eval_all(c));
    GOOD(c, qn_softmax_out(out, a, 0));
    OK(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_text, &text));
    assert_int_equal(occurrences(text, " softmax("), 1);
    assert_int_equal(occurrences(text, " copy("), 0);
    qn_free(text);
    context_end(c);
}

static void gradients(void **state)
{
    (void)state;
    float dx[2][6];
    for (int form = 0; form < 2; form++) {
        qn_context *c = context_new();
        qn_tensor *x = qn_requires_grad_(qn_randn(c, qn_shape_of(2, 3), F32), true),
                  *out = qn_zeros(c, qn_shape_of(2, 3), F32), *sum = qn_zeros(c, QN_SCALAR, F32);
        GOOD(c, x);
        qn_tensor *y = form ? qn_softmax_out(out, qn_square(x), 1) : qn_softmax(qn_square(x), 1);
        qn_tensor *z = qn_mul(y, x), *loss = form ? qn_sum_out(sum, z, QN_ALL, false) : qn_sum(z, QN_ALL, false);
        OK(c, qn_backward(loss));
        OK(c, qn_to_host(qn_grad(x), dx[form], sizeof dx[form]));
        context_end(c);
    }
    assert_memory_equal(dx[0], dx[1], sizeof dx[0]);
    assert_true(dx[0][0] != 0);
}

static void refused(void **state)
{
    (void)state;
    qn_context *c = context_new(), *other = context_new();
    qn_tensor *a = qn_ones(c, qn_shape_of(2, 3), F32), *out = qn_full(c, qn_shape_of(2, 2), 7, F32),
              *at = qn_zeros(c, qn_shape_of(2), QN_DTYPE_I64), *ended = qn_zeros(c, qn_shape_of(2), F32);
    REFUSED(c, qn_matmul_out(out, a, a), "matmul: [2,3] x [2,3]: inner sizes 3 and 2 differ");
    REFUSED(c, qn_softmax_out(out, a, 0), "softmax_out: the result [2,3] does not fit [2,2]");
    REFUSED(c, qn_cat_out(out, (qn_tensor *[]){a, a}, 2, 0), "cat_out: the result [4,3] does not fit [2,2]");
    REFUSED(c, qn_mean_out(at, a, QN_DIMS(1), false), "mean_out: the result is F32 and cannot be stored in I64");
    REFUSED(c, qn_max_out(out, at, a, 1, false), "max_out: the result [2] does not fit [2,2]");
    REFUSED(c, qn_topk_out(at, at, a, 1, 1, true), "topk_out: the result [2,1] does not fit [2]");
    REFUSED(c, qn_max_out(at, at, a, 1, false), "max_out: the result is F32 and cannot be stored in I64");
    REFUSED(c, qn_sum_out(qn_requires_grad_(qn_zeros(c, qn_shape_of(2), F32), true), a, QN_DIMS(1), false), "leaf");
    qn_context_clear(other);
    assert_null(qn_sum_out(qn_zeros(other, qn_shape_of(2), F32), a, QN_DIMS(1), false));
    assert_non_null(strstr(qn_context_error(other)->text, "belongs to context"));
    qn_context_clear(other);
    qn_release(ended);
    qn_context_clear(c);
    assert_null(qn_sum_out(ended, a, QN_DIMS(1), false));
    assert_null(qn_sum_out(NULL, a, QN_DIMS(1), false));
    assert_null(qn_sum_out(out, NULL, QN_DIMS(1), false));
    qn_context_clear(c);
    EXPECT(out, 7, 7, 7, 7);
    EXPECT(at, 0, 0);
    context_end(c);
    context_end(other);
}

/* What out= refuses, in place refuses too; an explicit copy converts. */
static void no_integers_into_bool(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *flags = qn_from_data(c, (uint8_t[]){1, 0}, qn_shape_of(2), QN_DTYPE_BOOL),
              *flag = qn_zeros(c, QN_SCALAR, QN_DTYPE_BOOL),
              *whole = qn_from_data(c, (int64_t[]){2, 0}, qn_shape_of(2), QN_DTYPE_I64);
    REFUSED(c, qn_add_(flags, whole), "add_: the result is I64 and cannot be stored in BOOL");
    REFUSED(c, qn_add_number_(flags, 2), "add_: the result is I64 and cannot be stored in BOOL");
    REFUSED(c, qn_add_number_(flags, 0.5), "add_: the result is F32 and cannot be stored in BOOL");
    REFUSED(c, qn_add_out(flags, whole, whole), "add_out: the result is I64 and cannot be stored in BOOL");
    REFUSED(c, qn_neg_out(flags, whole), "neg_out: the result is I64 and cannot be stored in BOOL");
    REFUSED(c, qn_sum_out(flag, whole, QN_ALL, false), "sum_out: the result is I64 and cannot be stored in BOOL");
    EXPECT(flags, 1, 0);
    GOOD(c, qn_logical_or_(flags, whole));
    EXPECT(flags, 1, 0);
    GOOD(c, qn_eq_out(flags, whole, whole));
    EXPECT(flags, 1, 1);
    GOOD(c, qn_masked_fill_(flags, qn_eq_number(whole, 2), 0));
    EXPECT(flags, 0, 1);
    GOOD(c, qn_copy_(flags, whole));
    EXPECT(flags, 1, 0);
    GOOD(c, qn_add_(whole, flags));
    EXPECT(whole, 3, 0);
    context_end(c);
}

static void sizes(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *t = qn_arange(c, 0, 10, 1, F32), *part[3];
    assert_int_equal(qn_split_sizes(t, (const int64_t[]){2, 3, 5}, 3, 0, part), 3);
    EXPECT(part[1], 2, 3, 4);
    GOOD(c, qn_fill_(part[0], 9)); /* views */
    EXPECT(t, 9, 9, 2, 3, 4, 5, 6, 7, 8, 9);
    assert_int_equal(qn_split_sizes(t, (const int64_t[]){2, 3}, 2, 0, part), -1);
    assert_non_null(strstr(qn_context_error(c)->text, "split_sizes: sizes that add up to 5 for dimension 0 of [10]"));
    qn_context_clear(c);
    assert_int_equal(qn_split_sizes(t, NULL, 1, 0, part), -1);
    assert_int_equal(qn_split_sizes(t, (const int64_t[]){10}, 1, 0, NULL), -1);
    assert_int_equal(qn_split_sizes(t, (const int64_t[]){10}, 1, 1, part), -1);
    qn_context_clear(c);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory), cmocka_unit_test(no_copy),
                                       cmocka_unit_test(gradients), cmocka_unit_test(refused),
                                       cmocka_unit_test(sizes),     cmocka_unit_test(no_integers_into_bool)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
