/* SPDX-License-Identifier: MIT */
/* tests/unit/array/context.c -- ownership, errors, memory of others. */
#include "rig.h"

#include <fcntl.h>
#include <unistd.h>

static int64_t alive(const qn_context *c)
{
    qn_context_info info;
    qn_context_get_info(c, &info);
    return info.n_tensors;
}

static int64_t storages(const qn_context *c)
{
    qn_context_info info;
    qn_context_get_info(c, &info);
    return info.n_storages;
}

static qn_tensor *twice_plus(qn_context *c, qn_tensor *x, double y)
{
    if (qn_scope_begin(c) != QN_OK) return NULL;
    qn_tensor *sum = qn_add(x, x), *result = qn_add_number(sum, y);
    return qn_scope_end(c, result);
}

static void scopes(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_full(c, qn_shape_of(2), 3, F32);
    assert_int_equal(alive(c), 1);
    OK(c, qn_scope_begin(c));
    qn_tensor *kept = qn_keep(twice_plus(c, twice_plus(c, x, 1), 2));
    assert_int_equal(alive(c), 3); /* x, the inner result, kept */
    assert_null(qn_scope_end(c, NULL));
    assert_int_equal(alive(c), 2);
    EXPECT(kept, 16, 16);
    qn_release(kept);
    qn_tensor *again = qn_retain(qn_add(x, x));
    qn_release(again);
    EXPECT(again, 6, 6);
    qn_release(again);
    assert_int_equal(alive(c), 1);
    assert_int_equal(storages(c), 1);
    assert_null(qn_scope_end(c, NULL)); /* none is open */
    assert_int_equal(qn_context_error(c)->status, QN_STATUS_state);
    qn_context_clear(c);
    context_end(c);
}

static void nobody_sees_it_nobody_computes_it(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_full(c, qn_shape_of(2), 3, F32);
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    OK(c, qn_scope_begin(c));
    for (int i = 0; i < 10; i++) (void)qn_add(x, x);
    qn_tensor *y = qn_mul_number(x, 2);
    (void)qn_scope_end(c, y);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.kernel_tasks, before.kernel_tasks);
    EXPECT(y, 6, 6);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.kernel_tasks - before.kernel_tasks, 1);
    context_end(c);
}

static void long_recordings_are_run_in_between(void **state)
{
    (void)state;
    qn_context *c = NULL;
    qn_error err;
    assert_int_equal(qn_context_create(&(qn_context_options){.max_pending = 100}, &c, &err), QN_OK);
    qn_tensor *x = qn_zeros(c, qn_shape_of(3), F32);
    for (int i = 0; i < 1000; i++) {
        GOOD(c, qn_add_number_(x, 1));
        qn_context_info info;
        qn_context_get_info(c, &info);
        assert_true(info.n_pending < 110);
    }
    EXPECT(x, 1000, 1000, 1000);
    context_end(c);
}

static void errors_say_what_was_wrong(void **state)
{
    (void)state;
    qn_context *c = context_new(), *other = context_new();
    qn_tensor *a = qn_ones(c, qn_shape_of(4, 3), F32), *b = qn_ones(c, qn_shape_of(5, 2), F32),
              *d = qn_ones(other, qn_shape_of(4, 3), F32);
    REFUSED(c, qn_linear(a, b, NULL), "linear: [4,3] x [5,2]: inner sizes 3 and 2 differ");
    REFUSED(c, qn_add(a, b), "[4,3]");
    REFUSED(c, qn_add(a, b), "[5,2]");
    REFUSED(c, qn_add(a, d), "add: tensor 0 belongs to context ");
    char words[64];
    snprintf(words, sizeof words, "(%s), tensor 1 to context ", qn_context_backend(c));
    REFUSED(c, qn_add(a, d), words);
    REFUSED(c, qn_add_(qn_select(a, 0, 0), a), "add_: the result [4,3] does not fit [3]");
    REFUSED(c, qn_add_out(b, a, a), "add_out: the result [4,3] does not fit [5,2]");
    REFUSED(c, qn_from_data(c, NULL, (qn_shape){.rank = 1, .dim = {-1}}, F32), "[-1]");
    REFUSED(c, qn_empty(c, qn_shape_of(3), QN_DTYPE_Q4_0), "Q4_0");
    REFUSED(c, qn_full(c, qn_shape_of(3), NAN, QN_DTYPE_I32), "I32");
    REFUSED(c, qn_add(NULL, a), "add: tensor 0 is NULL");
    assert_null(qn_add(qn_mul(a, b), a)); /* the first error is the one that is kept */
    assert_null(qn_linear(a, b, NULL));
    assert_non_null(strstr(qn_context_error(c)->text, "mul"));
    qn_context_clear(c);
    assert_true(isnan(qn_item(a)));
    assert_non_null(strstr(qn_context_error(c)->text, "item"));
    qn_context_clear(c);
    EXPECT(qn_select(a, 0, 0), 1, 1, 1); /* as it was */
    context_end(other);
    context_end(c);
}

static int deleted;
static void deleter(void *arg)
{
    assert_ptr_equal(arg, &deleted);
    deleted++;
}

static void memory_of_others(void **state)
{
    (void)state;
    qn_context *c = context_new();
    float blob[6] = {1, 2, 3, 4, 5, 6};
    deleted = 0;
    qn_tensor *t = qn_from_blob(c, blob, qn_shape_of(2, 3), NULL, F32, deleter, &deleted), *row = qn_select(t, 0, 1);
    GOOD(c, t);
    assert_ptr_equal(qn_data(t), blob);
    assert_ptr_equal(qn_data(row), blob + 3);
    GOOD(c, qn_mul_number_(row, 10));
    OK(c, qn_eval(t));
    assert_true(blob[2] == 3 && blob[3] == 40 && blob[5] == 60);
    blob[0] = 9;
    EXPECT(qn_add(t, t), 18, 4, 6, 80, 100, 120);
    qn_tensor *columns = qn_from_blob(c, blob, qn_shape_of(3, 2), (const int64_t[]){1, 3}, F32, NULL, NULL);
    EXPECT(columns, 9, 40, 2, 50, 3, 60);
    qn_release(t);
    assert_int_equal(deleted, 0);
    GOOD(c, qn_fill_(row, 0)); /* pending */
    qn_release(row);
    assert_int_equal(deleted, 0); /* the pending graph still writes there */
    OK(c, qn_eval_all(c));
    assert_int_equal(deleted, 1);
    assert_true(blob[4] == 0);
    REFUSED(c, qn_from_blob(c, NULL, qn_shape_of(2), NULL, F32, deleter, &deleted), "from_blob");
    REFUSED(c, qn_from_blob(c, blob, qn_shape_of(2), (const int64_t[]){-1}, F32, deleter, &deleted), "from_blob");
    qn_tensor *last = qn_keep(qn_from_blob(c, blob, qn_shape_of(1), NULL, F32, deleter, &deleted));
    GOOD(c, last);
    context_end(c);
    assert_int_equal(deleted, 2); /* the context's end is the end of all */
}

static void looking(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_reshape(qn_arange(c, 0, 24, 1, QN_DTYPE_I32), qn_shape_of(2, 3, 4)),
              *p = qn_permute(x, (const int[]){2, 0, 1}, 3);
    assert_ptr_equal(qn_context_of(p), c);
    SHAPE(p, 4, 2, 3);
    assert_true(qn_dim(p, -1) == 3 && qn_dim(p, 3) == -1 && qn_dim(p, -4) == -1);
    REFUSED(c, qn_permute(x, (const int[]){0, 1}, 2), "permute");
    int32_t host[24];
    OK(c, qn_to_host(p, host, sizeof host));
    for (int i = 0; i < 24; i++) assert_int_equal(host[i], i % 6 * 4 + i / 6);
    assert_int_equal(qn_to_host(p, host, 4), QN_STATUS_invalid);
    qn_context_clear(c);
    assert_int_equal(qn_item_int(qn_select(qn_select(qn_select(p, 0, 3), 0, 1), 0, 2)), 23);
    assert_int_equal(qn_item_int(p), 0);
    assert_int_equal(qn_context_error(c)->status, QN_STATUS_invalid);
    qn_context_clear(c);
    for (int i = 0; i < 24; i++) host[i] = 100 + i;
    OK(c, qn_set_data(p, host, sizeof host)); /* through the view, into x */
    for (int i = 0; i < 24; i++) assert_int_equal(((const int32_t *)qn_data(x))[i], 100 + i % 4 * 6 + i / 4);
    assert_int_equal(qn_set_data(p, host, 95), QN_STATUS_invalid);
    qn_context_clear(c);
    assert_true(qn_grad_enabled(c) && qn_set_grad_enabled(c, false) && !qn_grad_enabled(c) &&
                !qn_set_grad_enabled(c, true));
    assert_int_equal(qn_context_fail(c, QN_STATUS_limit, "mine: %d", 7), QN_STATUS_limit);
    assert_int_equal(qn_context_fail(c, QN_STATUS_invalid, "another"), QN_STATUS_invalid);
    assert_string_equal(qn_context_error(c)->text, "mine: 7");
    qn_context_clear(c);
    context_end(c);
}

static void between_contexts(void **state)
{
    (void)state;
    qn_context *c = context_new(), *ref = NULL;
    assert_int_equal(qn_context_create(&(qn_context_options){.backend = "cpu:ref", .n_threads = 1}, &ref, NULL), QN_OK);
    assert_string_equal(qn_context_backend(ref), "cpu:ref");
    qn_tensor *x = qn_transpose(f32(c, qn_shape_of(2, 3), (float[]){1, 2, 3, 4, 5, 6}), 0, 1),
              *y = qn_to_context(qn_add(x, x), ref);
    GOOD(c, y);
    assert_ptr_equal(qn_context_of(y), ref);
    GOOD(c, qn_zero_(x)); /* a copy is a copy */
    EXPECT(qn_mul(y, y), 4, 64, 16, 100, 36, 144);
    unsigned first, second;
    char name[32], last[8] = "";
    assert_null(qn_add(y, x));
    assert_int_equal(
        sscanf(qn_context_error(ref)->text,
               "add: tensor 0 belongs to context %u (cpu:ref), tensor 1 to context %u (%31[^)]); qn_to_context %7s",
               &first, &second, name, last),
        4);
    assert_true(first != second && strcmp(name, qn_context_backend(c)) == 0 && strcmp(last, "copies") == 0);
    REFUSED(ref, qn_linear(y, y, x), "linear: tensor 0 belongs to context ");
    REFUSED(ref, qn_copy_(y, x), "copy_: tensor 0 belongs to context ");
    REFUSED(ref, qn_where(qn_gt(y, y), y, x), "tensor 2 to context ");
    REFUSED(ref, qn_cat((qn_tensor *[]){y, x}, 2, 0), "cat: tensor 0 belongs to context ");
    REFUSED(ref, qn_index_select(y, 0, qn_to(qn_zeros_like(x), QN_DTYPE_I64)), "tensor 1 to context ");
    EXPECT(qn_add(qn_to_context(y, c), x), 2, 8, 4, 10, 6, 12);
    assert_true(qn_shares_storage(qn_to_context(x, c), x));
    assert_int_equal(qn_numel(qn_to_context(qn_zeros(c, qn_shape_of(0, 2), F32), ref)), 0);
    REFUSED(c, qn_to_context(qn_requires_grad_(qn_ones(c, qn_shape_of(2), F32), true), ref), "detach it first");
    context_end(ref);
    context_end(c);
}

static void becoming(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *t = f32(c, qn_shape_of(2), (float[]){1, 2}), *twice = qn_add(t, t),
              *other = f32(c, qn_shape_of(3), (float[]){5, 6, 7});
    assert_ptr_equal(qn_become(t, other), t);
    assert_true(qn_shares_storage(t, other));
    GOOD(c, qn_add_number_(t, 1));
    EXPECT(other, 6, 7, 8);
    EXPECT(twice, 2, 4); /* of what t was */
    context_end(c);
}

/* print writes what to_string gives, and a newline, to standard output. */
static void printing(void **state)
{
    (void)state;
    const char *path = QN_BUILD_DIR "/t_array_context.txt";
    qn_context *c = context_new();
    char found[64] = "";
    fflush(stdout);
    const int out = dup(1), file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    assert_true(out >= 0 && file >= 0 && dup2(file, 1) == 1);
    const qn_status status = qn_print(qn_eye(c, 2, 2, QN_DTYPE_I64));
    fflush(stdout);
    dup2(out, 1);
    assert_int_equal(status, QN_OK);
    assert_true(pread(file, found, sizeof found - 1, 0) > 0);
    close(out);
    close(file);
    unlink(path);
    assert_string_equal(found, "tensor([[1, 0],\n        [0, 1]])\n");
    context_end(c);
}

static void numbers_do_not_compile(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_full(c, qn_shape_of(4), 1, F32);
    qn_metrics before = {0}, after;
    for (int i = 0; i < 5; i++) {
        OK(c, qn_scope_begin(c));
        EXPECT(qn_mul_number(qn_add_number(x, i), i), i * (i + 1), i * (i + 1), i * (i + 1), i * (i + 1));
        (void)qn_scope_end(c, NULL);
        if (i == 0) qn_metrics_snapshot(&before);
    }
    qn_metrics_snapshot(&after);
    assert_int_equal(after.plan_cache_misses, before.plan_cache_misses);
    assert_int_equal(after.allocs, before.allocs);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes),
        cmocka_unit_test(nobody_sees_it_nobody_computes_it),
        cmocka_unit_test(long_recordings_are_run_in_between),
        cmocka_unit_test(errors_say_what_was_wrong),
        cmocka_unit_test(memory_of_others),
        cmocka_unit_test(looking),
        cmocka_unit_test(between_contexts),
        cmocka_unit_test(becoming),
        cmocka_unit_test(printing),
        cmocka_unit_test(numbers_do_not_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
