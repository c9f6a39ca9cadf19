/* SPDX-License-Identifier: MIT */
/* tests/unit/tensor/dtype.c -- the dtype table against the gguf package's (dtype_cases.inc, made by
 * tests/oracle/dtypes.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <quern/tensor.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *name;
    uint32_t id;
    int elems, bytes;
} theirs[] = {
#include "dtype_cases.inc"
};

/* Formats of the ggml table that no file stores weights in, or that nobody has asked for yet. */
static const char *const absent[] = {"Q8_1", "Q8_K", "Q1_0"};

static void as_the_gguf_package(void **state)
{
    (void)state;
    int n_found = 0;
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++) {
        qn_dtype t = QN_DTYPE_COUNT, by_name = QN_DTYPE_COUNT;
        bool expected = true;
        for (size_t k = 0; k < ARRAY_LEN(absent); k++) expected = expected && strcmp(absent[k], theirs[i].name) != 0;
        assert_int_equal(qn_dtype_from_gguf(theirs[i].id, &t), expected);
        assert_int_equal(qn_dtype_find(theirs[i].name, &by_name), expected);
        if (!expected) continue;
        n_found++;
        assert_int_equal(t, by_name);
        const qn_dtype_info *info = qn_dtype_get(t);
        assert_string_equal(info->name, theirs[i].name);
        assert_int_equal(info->block_elems, theirs[i].elems);
        assert_int_equal(info->block_bytes, theirs[i].bytes);
        assert_int_equal(info->class_ == QN_CLASS_block, theirs[i].elems > 1);
    }
    int n_stored = 0;
    for (int t = 0; t < QN_DTYPE_COUNT; t++) n_stored += qn_dtype_get((qn_dtype)t)->gguf_id >= 0;
    assert_int_equal(n_found, n_stored); /* every id of ours has met its witness */
}

static void lookups(void **state)
{
    (void)state;
    qn_dtype t = QN_DTYPE_I8;
    assert_true(qn_dtype_find("q4_k", &t));
    assert_int_equal(t, QN_DTYPE_Q4_K);
    assert_true(qn_dtype_find("Bool", &t));
    assert_int_equal(t, QN_DTYPE_BOOL);
    static const char *const bad[] = {"", "Q4", "Q4_K_M", "Q4_KK", "?", " F32"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) assert_false(qn_dtype_find(bad[i], &t));
    /* retired, internal, unknown; -1 as a number */
    static const uint32_t ids[] = {4, 5, 9, 15, 31, 36, 38, 1000, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) assert_false(qn_dtype_from_gguf(ids[i], &t));
    assert_int_equal(t, QN_DTYPE_BOOL); /* untouched */
    for (int i = 0; i < QN_DTYPE_COUNT; i++) {
        assert_true(qn_dtype_find(qn_dtype_get((qn_dtype)i)->name, &t));
        assert_int_equal(t, i);
    }
    const qn_dtype_info *none = qn_dtype_get(QN_DTYPE_COUNT);
    assert_string_equal(none->name, "?");
    assert_int_equal(none->block_elems, 1);
    assert_int_equal(none->block_bytes, 0);
    assert_ptr_equal(qn_dtype_get((qn_dtype)-1), none);
}

static void row_sizes(void **state)
{
    (void)state;
    assert_true(qn_dtype_row_bytes(QN_DTYPE_F32, 10) == 40);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_F32, 0) == 0);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_F32, -1) == 0);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_Q4_K, 512) == 288);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_Q4_K, 511) == 0);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_Q8_0, 32) == 34);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_F64, INT64_MAX / 8) == INT64_MAX / 8 * 8);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_F64, INT64_MAX / 8 + 1) == 0);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_Q8_0, INT64_MAX / 32 * 32) == 0);
    /* smaller than a byte each */
    assert_true(qn_dtype_row_bytes(QN_DTYPE_Q4_0, INT64_MAX / 32 * 32) == INT64_MAX / 32 * 18);
    assert_true(qn_dtype_row_bytes(QN_DTYPE_COUNT, 10) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_the_gguf_package),
        cmocka_unit_test(lookups),
        cmocka_unit_test(row_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
