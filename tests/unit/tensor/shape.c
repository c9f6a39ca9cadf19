/* SPDX-License-Identifier: MIT */
/* tests/unit/tensor/shape.c -- counting, comparing, broadcasting, printing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <quern/tensor.h>
#include <string.h>

static void counting(void **state)
{
    (void)state;
    const int64_t huge = INT64_C(1) << 62;
    assert_true(qn_shape_numel(&(qn_shape){0}) == 1);
    assert_true(qn_shape_numel(&qn_shape_of(2, 3, 4)) == 24);
    assert_true(qn_shape_numel(&qn_shape_of(2, 0, 4)) == 0);
    assert_true(qn_shape_numel(&qn_shape_of(huge)) == huge);
    assert_true(qn_shape_numel(&qn_shape_of(huge, 2)) == -1);
    assert_true(qn_shape_numel(&qn_shape_of(huge, huge, 0)) == 0); /* whatever the order */
    assert_true(qn_shape_numel(&qn_shape_of(0, huge, huge)) == 0);
    assert_true(qn_shape_numel(&qn_shape_of(0, -1)) == -1);
    assert_true(qn_shape_numel(&qn_shape_of(-1, 0)) == -1);
    assert_true(qn_shape_numel(&(qn_shape){.rank = 9}) == -1);
    assert_true(qn_shape_numel(&(qn_shape){.rank = -1}) == -1);
    assert_true(qn_shape_numel(&qn_shape_of(1, 2, 3, 4, 5, 6, 7, 8)) == 40320);
}

static void comparing(void **state)
{
    (void)state;
    assert_true(qn_shape_equal(&(qn_shape){0}, &(qn_shape){0}));
    assert_true(qn_shape_equal(&qn_shape_of(2, 3), &qn_shape_of(2, 3)));
    assert_false(qn_shape_equal(&qn_shape_of(2, 3), &qn_shape_of(3, 2)));
    assert_false(qn_shape_equal(&qn_shape_of(2, 3), &qn_shape_of(2, 3, 1)));
    assert_false(qn_shape_equal(&qn_shape_of(1), &(qn_shape){0}));
    qn_shape dirty = qn_shape_of(2);
    dirty.dim[5] = 9; /* past the rank: nobody's business */
    assert_true(qn_shape_equal(&dirty, &qn_shape_of(2)));
    assert_false(qn_shape_equal(&(qn_shape){.rank = 9}, &(qn_shape){.rank = 9}));
}

static void check(qn_shape a, qn_shape b, qn_shape want)
{
    qn_shape r = {0};
    assert_int_equal(qn_shape_broadcast(&a, &b, &r, NULL), QN_OK);
    assert_true(qn_shape_equal(&r, &want));
    assert_int_equal(qn_shape_broadcast(&b, &a, &b, NULL), QN_OK); /* either way round, and in place */
    assert_true(qn_shape_equal(&b, &want));
}

/* Results as numpy.broadcast_shapes gives them. */
static void broadcasting(void **state)
{
    (void)state;
    const qn_shape scalar = {0};
    check(scalar, scalar, scalar);
    check(scalar, qn_shape_of(2, 3), qn_shape_of(2, 3));
    check(qn_shape_of(3), qn_shape_of(2, 3), qn_shape_of(2, 3));
    check(qn_shape_of(2, 1), qn_shape_of(3), qn_shape_of(2, 3));
    check(qn_shape_of(8, 1, 6, 1), qn_shape_of(7, 1, 5), qn_shape_of(8, 7, 6, 5));
    check(qn_shape_of(0), qn_shape_of(1), qn_shape_of(0));
    check(qn_shape_of(2, 0), qn_shape_of(1, 1), qn_shape_of(2, 0));
    check(qn_shape_of(1, 1, 1, 1, 1, 1, 1, 2), qn_shape_of(3, 1), qn_shape_of(1, 1, 1, 1, 1, 1, 3, 2));
}

static void not_broadcasting(void **state)
{
    (void)state;
    const int64_t big = INT64_C(1) << 40;
    const qn_shape pairs[][2] = {
        {qn_shape_of(2), qn_shape_of(3)},
        {qn_shape_of(0), qn_shape_of(3)},
        {qn_shape_of(2, 3), qn_shape_of(2)},
        {qn_shape_of(-1), qn_shape_of(-1)},
        {{.rank = 9}, {0}},
        {{0}, {.rank = -3}},
        {qn_shape_of(big, 1), qn_shape_of(big)}, /* each is fine, the result has 2^80 elements */
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        qn_shape r = qn_shape_of(5);
        assert_int_equal(qn_shape_broadcast(&pairs[i][0], &pairs[i][1], &r, NULL), QN_STATUS_invalid);
        assert_true(qn_shape_equal(&r, &qn_shape_of(5)));
    }
    qn_error err;
    qn_shape r;
    qn_shape_broadcast(&qn_shape_of(4, 3), &qn_shape_of(5, 2), &r, &err);
    assert_string_equal(err.text, "broadcast: [4,3] and [5,2] do not fit together");
}

static void printing(void **state)
{
    (void)state;
    char buf[200];
    assert_ptr_equal(qn_shape_print(&(qn_shape){0}, buf, sizeof buf), buf);
    assert_string_equal(buf, "[]");
    assert_string_equal(qn_shape_print(&qn_shape_of(2, 3, 4), buf, sizeof buf), "[2,3,4]");
    assert_string_equal(qn_shape_print(&qn_shape_of(2, 3, 4), buf, 5), "[2,3");
    assert_string_equal(qn_shape_print(&qn_shape_of(2, 3, 4), buf, 1), "");
    buf[0] = 'z';
    qn_shape_print(&qn_shape_of(2), buf, 0);
    assert_int_equal(buf[0], 'z');
    qn_shape longest = {.rank = 8};
    for (int i = 0; i < 8; i++) longest.dim[i] = INT64_MIN;
    assert_int_equal(strlen(qn_shape_print(&longest, buf, sizeof buf)), 8 * 20 + 7 + 2);
    assert_string_equal(buf + 161, "4775808]");
    longest.rank = 1000; /* prints what there is */
    assert_int_equal(strlen(qn_shape_print(&longest, buf, sizeof buf)), 8 * 20 + 7 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counting),         cmocka_unit_test(comparing), cmocka_unit_test(broadcasting),
        cmocka_unit_test(not_broadcasting), cmocka_unit_test(printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
