/* SPDX-License-Identifier: MIT */
/* tests/unit/array/views.c -- views share memory: what is written through one is seen in all, before and after values
 * are computed. */
#include "rig.h"

static void shapes_and_strides(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_arange(c, 0, 24, 1, F32), *b = qn_view_as(a, qn_shape_of(2, 3, -1));
    SHAPE(b, 2, 3, 4);
    qn_tensor *p = qn_permute_to(b, 2, 0, 1);
    SHAPE(p, 4, 2, 3);
    EXPECT(p, 0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23);
    assert_false(qn_is_contiguous(p));
    assert_true(qn_shares_storage(a, p));
    EXPECT(qn_select(b, 1, -1), 8, 9, 10, 11, 20, 21, 22, 23);
    EXPECT(qn_narrow(qn_select(b, 0, 1), 1, 1, 2), 13, 14, 17, 18, 21, 22);
    EXPECT(qn_slice(a, 0, 20, QN_END, 2), 20, 22);
    SHAPE(qn_unsqueeze(a, -1), 24, 1);
    SHAPE(qn_squeeze_all(qn_unsqueeze(a, 0)), 24);
    SHAPE(qn_expand(qn_unsqueeze(a, 0), qn_shape_of(3, -1)), 3, 24);
    SHAPE(qn_flatten(p, 1, 2), 4, 6);
    assert_false(qn_shares_storage(qn_flatten(qn_transpose(b, 0, 2), 0, -1), a)); /* strides forbid a view: a copy */
    assert_int_equal(qn_rank(qn_flatten(qn_scalar(c, 3, F32), 0, -1)), 1);
    REFUSED(c, qn_view_as(p, qn_shape_of(24)), "view");
    REFUSED(c, qn_select(a, 0, 24), "select");
    REFUSED(c, qn_permute_to(b, 0, 0, 1), "permute");
    context_end(c);
}

static void parts(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_arange(c, 0, 10, 1, F32), *out[8];
    assert_int_equal(qn_chunk(a, 4, 0, out, 8), 4); /* 3 3 3 1 */
    EXPECT(out[3], 9);
    assert_int_equal(qn_chunk(a, 6, 0, out, 8), 5); /* 2 each: fewer parts than asked for */
    assert_int_equal(qn_split(a, 4, 0, out, 8), 3);
    EXPECT(out[2], 8, 9);
    assert_int_equal(qn_split(a, 4, 0, out, 2), -1);
    assert_int_equal(qn_context_error(c)->status, QN_STATUS_invalid);
    qn_context_clear(c);
    qn_tensor *none = qn_zeros(c, qn_shape_of(0, 2), F32);
    assert_int_equal(qn_chunk(none, 3, 0, out, 8), 3);
    assert_int_equal(qn_split(none, 3, 0, out, 8), 1);
    context_end(c);
}

static void write_is_seen_in_all(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *base = qn_zeros(c, qn_shape_of(3, 4), F32);
    void *const at = qn_data(base);
    qn_tensor *row = qn_select(base, 0, 1), *column = qn_select(base, 1, 2), *all = qn_transpose(base, 0, 1);
    GOOD(c, qn_fill_(row, 5));
    EXPECT(base, 0, 0, 0, 0, 5, 5, 5, 5, 0, 0, 0, 0);
    EXPECT(column, 0, 5, 0);
    GOOD(c, qn_add_(row, row));
    GOOD(c, qn_mul_number_(row, 2)); /* twice pending */
    EXPECT(all, 0, 20, 0, 0, 20, 0, 0, 20, 0, 0, 20, 0);
    assert_ptr_equal(qn_data(base), at);
    context_end(c);
}

static void write_before_anything_is_computed(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_arange(c, 0, 6, 1, F32);
    qn_tensor *sum = qn_add(qn_view_as(a, qn_shape_of(2, 3)), qn_scalar(c, 1, F32)); /* pending */
    qn_tensor *before = qn_clone(sum);
    GOOD(c, qn_fill_(qn_select(sum, 0, 0), -1));
    EXPECT(before, 1, 2, 3, 4, 5, 6);
    EXPECT(sum, -1, -1, -1, 4, 5, 6);
    EXPECT(a, 0, 1, 2, 3, 4, 5);
    context_end(c);
}

static void source_and_destination_overlap(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_arange(c, 0, 6, 1, F32);
    GOOD(c, qn_copy_(qn_narrow(a, 0, 1, 5), qn_narrow(a, 0, 0, 5)));
    EXPECT(a, 0, 0, 1, 2, 3, 4);
    qn_tensor *m = qn_arange(c, 0, 4, 1, F32), *square = qn_view_as(m, qn_shape_of(2, 2));
    GOOD(c, qn_copy_(square, qn_transpose(square, 0, 1)));
    EXPECT(m, 0, 2, 1, 3);
    context_end(c);
}

static void old_values_are_read_as_they_were(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_full(c, qn_shape_of(4), 1, F32);
    qn_tensor *twice = qn_mul_number(a, 2); /* recorded before the write, computed after it */
    GOOD(c, qn_fill_(a, 100));
    EXPECT(twice, 2, 2, 2, 2);
    EXPECT(a, 100, 100, 100, 100);
    float *at = qn_data(a);
    qn_tensor *pending = qn_mul_number(a, 2);
    assert_ptr_equal(qn_data(a), at); /* asking for the address runs what reads there */
    at[0] = 7;
    EXPECT(pending, 200, 200, 200, 200);
    EXPECT(qn_mul_number(a, 1), 7, 100, 100, 100);
    context_end(c);
}

static void addresses_stay(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *a = qn_add_number(qn_zeros(c, qn_shape_of(5), F32), 1), *out = qn_empty(c, qn_shape_of(5), F32);
    void *const at = qn_data(a), *const out_at = qn_data(out);
    for (int i = 0; i < 3; i++) {
        GOOD(c, qn_add_number_(qn_mul_number_(a, 2), 1)); /* they chain */
        GOOD(c, qn_add_out(out, a, a));
    }
    EXPECT(a, 15, 15, 15, 15, 15);
    EXPECT(out, 30, 30, 30, 30, 30);
    assert_ptr_equal(qn_data(a), at);
    assert_ptr_equal(qn_data(out), out_at);
    context_end(c);
}

static void empty_scalar_and_5d(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *none = qn_zeros(c, qn_shape_of(3, 0, 2), F32);
    SHAPE(qn_add(none, none), 3, 0, 2);
    OK(c, qn_eval(qn_mul_number(none, 2)));
    qn_tensor *s = qn_add(qn_scalar(c, 2, F32), qn_scalar(c, 3, F32));
    assert_int_equal(qn_rank(s), 0);
    assert_true(qn_item(s) == 5);
    GOOD(c, qn_add_(s, s));
    assert_true(qn_item(s) == 10);
    qn_tensor *video = qn_view_as(qn_arange(c, 0, 32, 1, F32), qn_shape_of(2, 2, 2, 2, 2));
    EXPECT(qn_select(qn_select(qn_select(qn_add(video, video), 4, 1), 0, 1), 0, 0), 34, 38, 42, 46);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_strides),
        cmocka_unit_test(parts),
        cmocka_unit_test(write_is_seen_in_all),
        cmocka_unit_test(write_before_anything_is_computed),
        cmocka_unit_test(source_and_destination_overlap),
        cmocka_unit_test(old_values_are_read_as_they_were),
        cmocka_unit_test(addresses_stay),
        cmocka_unit_test(empty_scalar_and_5d),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
