/* SPDX-License-Identifier: MIT */
/* tests/unit/tensor/layout.c -- dense layouts, contiguity, element counts, ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <quern/tensor.h>
#include <string.h>

static qn_layout dense(qn_shape s)
{
    qn_layout l;
    assert_int_equal(qn_layout_contiguous(&s, &l, NULL), QN_OK);
    return l;
}

static void row_major(void **state)
{
    (void)state;
    qn_layout l = dense(qn_shape_of(2, 3, 4));
    assert_int_equal(l.rank, 3);
    assert_true(l.stride[0] == 12 && l.stride[1] == 4 && l.stride[2] == 1 && l.offset == 0);
    l = dense((qn_shape){0});
    assert_true(l.rank == 0 && qn_layout_numel(&l) == 1);
    l = dense(qn_shape_of(2, 0, 4));
    /* PyTorch's: an empty dimension counts as one */
    assert_true(l.stride[0] == 4 && l.stride[1] == 4 && l.stride[2] == 1);
    assert_true(qn_layout_numel(&l) == 0);
    l = dense(qn_shape_of(1, 2, 1, 2, 1, 2, 1, 2));
    assert_true(l.rank == 8 && l.stride[0] == 16 && l.stride[7] == 1);
    const qn_shape s = qn_layout_shape(&l);
    assert_true(qn_shape_equal(&s, &qn_shape_of(1, 2, 1, 2, 1, 2, 1, 2)));
}

static void impossible_shapes(void **state)
{
    (void)state;
    const int64_t huge = INT64_C(1) << 62;
    const qn_shape bad[] = {
        {.rank = 9},
        {.rank = -1},
        qn_shape_of(2, -1),
        qn_shape_of(huge, 2),
        qn_shape_of(INT64_MAX),
        qn_shape_of(huge, 0, 2),
        qn_shape_of(INT64_C(1) << 32, INT64_C(1) << 32),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        qn_layout l = {.rank = 1, .dim = {5}};
        const qn_layout before = l;
        qn_error err;
        assert_int_equal(qn_layout_contiguous(&bad[i], &l, &err), QN_STATUS_invalid);
        assert_non_null(strstr(err.text, "is no shape"));
        assert_memory_equal(&l, &before, sizeof l);
    }
    const qn_layout l = dense(qn_shape_of(huge));
    int64_t begin, end;
    qn_layout_range(&l, &begin, &end);
    assert_true(begin == 0 && end == huge);
}

static void contiguity(void **state)
{
    (void)state;
    static const struct {
        qn_layout l;
        bool want;
    } cases[] = {
        {{.rank = 0}, true},
        {{.rank = 0, .offset = 9}, true}, /* where it starts does not matter */
        {{.rank = 2, .dim = {2, 3}, .stride = {3, 1}}, true},
        {{.rank = 2, .dim = {2, 3}, .stride = {1, 2}}, false},
        {{.rank = 2, .dim = {2, 3}, .stride = {4, 1}}, false},
        {{.rank = 2, .dim = {1, 3}, .stride = {99, 1}}, true}, /* a stride that is never taken */
        {{.rank = 3, .dim = {2, 1, 3}, .stride = {3, 77, 1}}, true},
        {{.rank = 2, .dim = {3, 2}, .stride = {0, 1}}, false},
        {{.rank = 1, .dim = {3}, .stride = {-1}, .offset = 2}, false},
        {{.rank = 2, .dim = {0, 3}, .stride = {5, 5}}, true}, /* no elements, no gaps */
        {{.rank = 1, .dim = {1}, .stride = {0}}, true},
        {{.rank = 9}, false},
        {{.rank = 1, .dim = {-1}}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(qn_layout_is_contiguous(&cases[i].l), cases[i].want);
    }
}

static void ranges(void **state)
{
    (void)state;
    int64_t begin, end;
    const qn_layout flipped = {.rank = 2, .dim = {2, 3}, .stride = {-3, 1}, .offset = 10};
    qn_layout_range(&flipped, &begin, &end);
    assert_true(begin == 7 && end == 13);
    const qn_layout scalar = {.rank = 0, .offset = 4};
    qn_layout_range(&scalar, &begin, &end);
    assert_true(begin == 4 && end == 5);
    const qn_layout empty = {.rank = 1, .dim = {0}, .stride = {1}, .offset = 4};
    qn_layout_range(&empty, &begin, &end);
    assert_true(begin == 0 && end == 0);
    const qn_layout up = {.rank = 2, .dim = {3, 3}, .stride = {INT64_MAX, INT64_MAX}};
    const qn_layout down = {.rank = 1, .dim = {3}, .stride = {INT64_MIN}};
    qn_layout_range(&up, &begin, &end); /* saturates, so that "end <= size" is false */
    assert_true(begin == 0 && end == INT64_MAX);
    qn_layout_range(&down, &begin, &end);
    assert_true(begin == INT64_MIN && end == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_major),
        cmocka_unit_test(impossible_shapes),
        cmocka_unit_test(contiguity),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
