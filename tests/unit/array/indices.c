/* SPDX-License-Identifier: MIT */
/* tests/unit/array/indices.c -- indices out of range: found at the next look, with a message; what came before holds,
 * what came after has not happened, and the program goes on. */
#include "rig.h"

#define I64 QN_DTYPE_I64

static qn_context *context_of(int n_threads)
{
    qn_context *c = NULL;
    qn_error err = {0};
    if (qn_context_create(&(qn_context_options){.n_threads = n_threads}, &c, &err) != QN_OK) fail_msg("%s", err.text);
    return c;
}

static qn_tensor *i64(qn_context *c, int64_t a, int64_t b)
{
    return qn_from_data(c, (int64_t[]){a, b}, qn_shape_of(2), I64);
}

/* Recording is fine, looking is not. */
#define FOUND(c, made, words) \
    do { \
        qn_tensor *y_ = (made); \
        GOOD(c, y_); \
        if (qn_eval(y_) != QN_STATUS_invalid) fail_msg("%s: nothing found", #made); \
        assert_string_equal(qn_context_error(c)->text, words); \
        qn_context_clear(c); \
        assert_int_equal(qn_eval(y_), QN_STATUS_state); /* it has no value */ \
        qn_context_clear(c); \
        qn_release(y_); \
    } while (0)

/* padding_idx counts from the end too. */
static void padding_of_bags(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_reshape(qn_arange(c, 0, 6, 1, F32), qn_shape_of(3, 2)),
              *ids = qn_from_data(c, (int32_t[]){0, 2, 0, 1}, qn_shape_of(2, 2), QN_DTYPE_I32);
#define BAG(padding) \
    qn_embedding_bag(x, ids, \
                     &(qn_embedding_bag_options){.mode = "sum", .has_padding_idx = true, .padding_idx = padding})
    EXPECT(BAG(0), 4, 5, 2, 3);
    EXPECT(BAG(-3), 4, 5, 2, 3);
    EXPECT(BAG(2), 0, 1, 2, 4);
    EXPECT(BAG(-1), 0, 1, 2, 4);
    REFUSED(c, BAG(3), "padding_idx 3 for a table");
    REFUSED(c, BAG(-4), "padding_idx -4 for a table");
#undef BAG
    context_end(c);
}

static void every_function(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        qn_context *c = context_of(n_threads);
        qn_tensor *x = qn_reshape(qn_arange(c, 0, 12, 1, F32), qn_shape_of(4, 3)),
                  *src = qn_ones(c, qn_shape_of(2, 3), F32);
        qn_tensor *high = i64(c, 1, 4), *low = i64(c, -1, 0),
                  *wide = qn_expand(qn_unsqueeze(high, 1), qn_shape_of(2, 3));
        qn_tensor *row = qn_from_data(c, (int32_t[]){0, 3, 7}, qn_shape_of(1, 3), QN_DTYPE_I32),
                  *one = qn_ones(c, qn_shape_of(1, 3), F32);
        FOUND(c, qn_gather(x, 0, wide), "gather: index 4 is out of range for dimension 0 of size 4");
        /* the least of two */
        FOUND(c, qn_gather(x, 1, row), "gather: index 3 is out of range for dimension 1 of size 3");
        FOUND(c, qn_index_select(x, 0, high), "index_select: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_index_select(x, -1, low), "index_select: index -1 is out of range for dimension 1 of size 3");
        FOUND(c, qn_embedding(x, high), "embedding: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_scatter(x, 0, wide, src), "scatter: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_scatter(x, 1, row, one), "scatter: index 3 is out of range for dimension 1 of size 3");
        FOUND(c, qn_scatter_add(x, 0, wide, src), "scatter_add: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_index_add(x, 0, high, src, 1), "index_add: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_index_add(x, 1, low, qn_ones(c, qn_shape_of(4, 2), F32), 2),
              "index_add: index -1 is out of range for dimension 1 of size 3");
        FOUND(c, qn_index_copy(x, 0, low, src), "index_copy: index -1 is out of range for dimension 0 of size 4");
        FOUND(c, qn_index(x, (qn_tensor *[]){high}, 1), "index: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_index(x, (qn_tensor *[]){low, high}, 2),
              "index: index 4 is out of range for dimension 1 of size 3");
        FOUND(c, qn_index(x, (qn_tensor *[]){i64(c, -5, 0)}, 1),
              "index: index -5 is out of range for dimension 0 of size 4");
        FOUND(c, qn_index_put(x, (qn_tensor *[]){high}, 1, src, true),
              "index_put: index 4 is out of range for dimension 0 of size 4");
        FOUND(c, qn_cross_entropy(qn_narrow(x, 0, 0, 2), high, NULL),
              "cross_entropy: index 4 is out of range for dimension 1 of size 3");
        FOUND(c, qn_nll_loss(qn_narrow(x, 0, 0, 2), low, NULL),
              "gather: index -1 is out of range for dimension 1 of size 3");
        EXPECT(qn_index(x, (qn_tensor *[]){low, low}, 2), 11, 0); /* from the end */
        EXPECT(x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        qn_shape deepest = {.rank = QN_MAX_RANK};
        for (int i = 0; i < QN_MAX_RANK; i++) deepest.dim[i] = 1;
        REFUSED(c, qn_embedding(x, qn_zeros(c, deepest, QN_DTYPE_I64)), "at most 7 dimensions expected");
        deepest.rank--;
        assert_int_equal(qn_rank(qn_embedding(x, qn_zeros(c, deepest, QN_DTYPE_I64))), QN_MAX_RANK);
        GOOD(c, qn_embedding(x, high)); /* nobody looks: it is not computed */
        context_end(c);
    }
}

/* A program with an exception in the middle: before it all is done, after it nothing. */
static void before_and_after(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 4; n_threads += 3) {
        qn_context *c = context_of(n_threads);
        for (int64_t n = 2; n <= 40000; n *= 20) {
            qn_tensor *a = qn_zeros(c, qn_shape_of(n), F32), *b = qn_zeros(c, qn_shape_of(n), F32);
            GOOD(c, qn_add_number_(a, 1));
            qn_tensor *before = qn_add_number(a, 1), *bad = qn_index_select(a, 0, i64(c, n, 0)),
                      *after = qn_add(a, qn_sum(bad, QN_ALL, false));
            GOOD(c, qn_add_number_(a, 1));
            GOOD(c, qn_copy_(qn_narrow(b, 0, 0, 2), bad));
            assert_int_equal(qn_eval_all(c), QN_STATUS_invalid);
            qn_context_clear(c);
            assert_true(qn_item(qn_sum(a, QN_ALL, false)) == (double)n && qn_item(qn_sum(b, QN_ALL, false)) == 0);
            assert_true(qn_item(qn_sum(before, QN_ALL, false)) == 2 * (double)n);
            assert_int_equal(qn_eval(after), QN_STATUS_state);
            assert_non_null(strstr(qn_context_error(c)->text, "lost"));
            qn_context_clear(c);
            assert_null(qn_add(after, a));
            qn_context_clear(c);
            GOOD(c, qn_add_number_(a, 1));
            assert_true(qn_item(qn_sum(a, QN_ALL, false)) == 2 * (double)n);
        }
        context_end(c);
    }
}

/* The same graph over and over, found in the cache: sometimes with a bad index. */
static void a_training_step(void **state)
{
    (void)state;
    qn_context *c = context_of(4);
    qn_tensor *w = qn_keep(qn_requires_grad_(qn_ones(c, qn_shape_of(50, 16), F32), true));
    double want = 50 * 16;
    qn_metrics before = {0}, after;
    for (int i = 0; i < 12; i++) {
        OK(c, qn_scope_begin(c));
        const bool bad = i % 3 == 1;
        int64_t ids[64];
        for (int k = 0; k < 64; k++) ids[k] = bad && k == 40 + i ? 50 + i : k % 50;
        qn_tensor *rows = qn_embedding(w, qn_from_data(c, ids, qn_shape_of(64), I64)),
                  *loss = qn_sum(rows, QN_ALL, false);
        OK(c, qn_backward(loss));
        const bool was = qn_set_grad_enabled(c, false);
        GOOD(c, qn_sub_(w, qn_grad(w)));
        qn_set_grad_enabled(c, was);
        qn_zero_grad(w);
        char words[100];
        snprintf(words, sizeof words, "embedding: index %d is out of range for dimension 0 of size 50", 50 + i);
        const qn_status status = qn_eval(w);
        assert_int_equal(status, bad ? QN_STATUS_invalid : QN_OK);
        if (bad)
            assert_string_equal(qn_context_error(c)->text, words);
        else
            want -= 64 * 16;
        qn_context_clear(c);
        assert_null(qn_scope_end(c, NULL));
        assert_true(qn_item(qn_sum(qn_detach(w), QN_ALL, false)) == want);
        if (i == 2) qn_metrics_snapshot(&before);
    }
    qn_metrics_snapshot(&after);
    assert_int_equal(after.plan_cache_misses, before.plan_cache_misses);
    context_end(c);
}

/* Of many, by however many threads, the error is always the same one. */
static void which(void **state)
{
    (void)state;
    qn_context *c = context_of(4);
    enum { N = 100000 };
    int64_t *ids = malloc(N * sizeof *ids);
    qn_tensor *x = qn_zeros(c, qn_shape_of(1000), F32);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < N; i++) ids[i] = i % 7 == 0 ? 1000 + (i * 37 + 11) % 5000 : i % 1000;
        FOUND(c, qn_index_select(x, 0, qn_from_data(c, ids, qn_shape_of(N), I64)),
              "index_select: index 1000 is out of range for dimension 0 of size 1000");
    }
    free(ids);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(padding_of_bags), cmocka_unit_test(every_function),
                                       cmocka_unit_test(before_and_after), cmocka_unit_test(a_training_step),
                                       cmocka_unit_test(which)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
