/* SPDX-License-Identifier: MIT */
/* tests/unit/array/stale.c -- every public function on tensors, given one that is over in each place: it says so, gives
 * nothing, and leaves the tensor that has the slot now alone. And given NULL: nothing happens. */
#include "rig.h"
#include <quern/dlpack.h>

static qn_context *c;
static qn_tensor *old, *x;
static double numbers[8];
static int64_t whole[8];
static qn_tensor *same(void *arg, qn_tensor *const *inputs, int n)
{
    (void)arg;
    (void)n;
    return inputs[0];
}

static int silent, n_calls;
static bool is_null; /* old is NULL: in some places that means "none", so nothing need be wrong */

static void judge(const char *call)
{
    n_calls++;
    if (!is_null && strstr(qn_context_error(c)->text, "this tensor is over") == NULL) {
        silent++;
        fprintf(stderr, "%s: \"%s\"\n", call, qn_context_error(c)->text);
    }
    qn_context_clear(c);
}

#define CALL(name, args) \
    (void)(name args); \
    judge(#name #args);

static void every_function_finds_it_out(void **state)
{
    (void)state;
    c = context_new();
    old = qn_zeros(c, qn_shape_of(2), F32);
    qn_release(old);
    x = qn_full(c, qn_shape_of(2), 3, F32); /* in its slot */
#include "stale_calls.inc"
    assert_true(n_calls > 700);
    assert_int_equal(silent, 0);
    EXPECT(x, 3, 3);
    qn_context_destroy(c);
}

/* A program goes on. */
static void and_null_as_well(void **state)
{
    (void)state;
    c = context_new();
    is_null = true;
    old = NULL;
    x = qn_full(c, qn_shape_of(2), 3, F32);
    n_calls = 0;
#include "stale_calls.inc"
    assert_true(n_calls > 700);
    (void)qn_eval_all(c); /* some of it has no value: probabilities of 3 */
    qn_context_clear(c);
    REFUSED(c, qn_add(x, NULL), "add: tensor 1 is NULL");
    REFUSED(c, qn_conv2d(x, NULL, NULL, NULL), "conv2d: tensor 1 is NULL");
    REFUSED(c, qn_from_data(c, NULL, qn_shape_of(2), F32), "from_data: data is NULL");
    REFUSED(c, qn_from_blob(c, NULL, qn_shape_of(2), NULL, F32, NULL, NULL), "from_blob: no memory");
    REFUSED(c, qn_permute(x, NULL, 1), "permute: dims is NULL");
    REFUSED(c, qn_flip(x, NULL, 1), "flip: dims is NULL");
    REFUSED(c, qn_sum(x, NULL, 1, false), "sum: dims is NULL");
    REFUSED(c, qn_pad(x, NULL, 2, "constant", 0), "pad: pads is NULL");
    REFUSED(c, qn_max_pool1d(qn_expand(x, qn_shape_of(1, 2)), NULL), "max_pool1d: the kernel is NULL");
    REFUSED(c, qn_avg_pool2d(x, NULL), "avg_pool2d: the kernel is NULL");
    REFUSED(c, qn_index(x, NULL, 1), "index: 1 indices");
    REFUSED(c, qn_load_npy(c, NULL), "load_npy: the path is NULL");
    assert_int_equal(qn_chunk(x, 2, 0, NULL, 2), -1);
    assert_int_equal(qn_split(x, 1, 0, NULL, 2), -1);
    assert_int_equal(qn_to_doubles(x, NULL, 2), QN_STATUS_invalid);
    assert_int_equal(qn_to_ints(x, NULL, 2), QN_STATUS_invalid);
    assert_int_equal(qn_to_host(x, NULL, 8), QN_STATUS_invalid);
    assert_int_equal(qn_set_data(x, NULL, 8), QN_STATUS_invalid);
    assert_int_equal(qn_save_npy(x, NULL), QN_STATUS_invalid);
    qn_context_clear(c);
    GOOD(c, qn_from_data(c, NULL, qn_shape_of(0), F32)); /* of nothing */
    qn_context_destroy(c);
}

static void and_a_context_that_is_none(void **state)
{
    (void)state;
    assert_null(qn_zeros(NULL, qn_shape_of(2), F32));
    assert_null(qn_full(NULL, qn_shape_of(2), 1e39, F32));
    assert_null(qn_arange(NULL, 0, 2, 1, F32));
    assert_null(qn_arange(NULL, 0, 2, 0, F32));
    assert_null(qn_from_data(NULL, numbers, qn_shape_of(2), F32));
    assert_null(qn_randn(NULL, qn_shape_of(2), F32));
    assert_null(qn_randint(NULL, 0, 4, qn_shape_of(2), F32));
    assert_null(qn_load_npy(NULL, "x.npy"));
    assert_null(qn_scope_end(NULL, NULL));
    assert_int_equal(qn_scope_begin(NULL), QN_STATUS_invalid);
    assert_int_equal(qn_eval_all(NULL), QN_STATUS_invalid);
    assert_int_equal(qn_context_error(NULL)->status, QN_STATUS_invalid);
    assert_false(qn_set_grad_enabled(NULL, true));
    assert_false(qn_grad_enabled(NULL));
    qn_context_clear(NULL);
    qn_context_trim(NULL);
    qn_manual_seed(NULL, 1);
    qn_context_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_finds_it_out),
                                       cmocka_unit_test(and_null_as_well),
                                       cmocka_unit_test(and_a_context_that_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
