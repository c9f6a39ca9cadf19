/* SPDX-License-Identifier: MIT */
/* What a token sees, by kind: positions from `first` to before `end`, against a plain condition on every pair. */
#include "load.h"

static bool sees(const qn_sight *s, int32_t at, int32_t other)
{
    const bool before = other <= at;
    switch (s->kind) {
    case QN_SIGHT_all: return before;
    case QN_SIGHT_window: return before && at - other < s->size;
    case QN_SIGHT_chunk: return before && at / s->size == other / s->size;
    case QN_SIGHT_both: return true;
    case QN_SIGHT_both_window: return abs(at - other) <= s->size;
    }
    return false;
}

static void every_pair(void **state)
{
    (void)state;
    for (int kind = QN_SIGHT_all; kind <= QN_SIGHT_both_window; kind++)
        for (int32_t size = 1; size < 12; size++)
            for (int32_t at = 0; at < 40; at++) {
                const qn_sight s = {(qn_sight_kind)kind, size};
                int32_t first = -1, end = -1;
                qn__sight_range(&s, at, &first, &end);
                for (int32_t other = 0; other < 60; other++)
                    assert_int_equal(first <= other && other < end, sees(&s, at, other));
            }
}

static void far_positions(void **state)
{
    (void)state;
    const int32_t far = INT32_MAX - 2;
    int32_t first, end;
    qn__sight_range(&(qn_sight){QN_SIGHT_chunk, 1000}, far, &first, &end);
    assert_int_equal(first, far - far % 1000);
    assert_int_equal(end, far + 1);
    qn__sight_range(&(qn_sight){QN_SIGHT_both_window, 1000}, far, &first, &end);
    assert_int_equal(first, far - 1000);
    assert_int_equal(end, INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_pair), cmocka_unit_test(far_positions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
