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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_that_was_released_names_nothing),
        cmocka_unit_test(a_second_release_is_said_and_hurts_nobody),
        cmocka_unit_test(a_scope_that_ended_took_its_handles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
